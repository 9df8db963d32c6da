"""Epochs of a running application, run again by ``mustela replay``."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.calls import AsyncOptions
from mustela.cli.main import main
from mustela.clock import SystemClock
from mustela.processors import ContextualProcessor, Tick
from mustela.runtime.replica.past import HistoryGoneError, NoEpochError, Past
from mustela.testing.replay import Replayed, replay
from mustela.windows import TimeWindows
from tests.integration.app_world import Row, World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

SECOND = timedelta(seconds=1)
PARKING = AsyncOptions(wait=timedelta(0))
"""No epoch waits for a call, so that its result comes in a later one."""
HISTORY = {"history.epochs": 1000}


class Reminds(ContextualProcessor[str, str, str, str]):
    """Forwards a word for each key, 300 ms of event time after each record."""

    def process(self, record: Any) -> None:
        self.context.register_event_time_timer(record.timestamp + 300, name=record.value)

    def on_timer(self, timer: Any, context: Any) -> None:
        context.forward(timer.with_value("silent"))


def refuses_poison(value: str) -> str:
    if value == "poison":
        msg = "cannot digest it"
        raise ValueError(msg)
    return value.upper()


@pytest.fixture
def past_of() -> Iterator[Any]:
    opened: list[Past] = []

    def made(app: App) -> Past:
        past = Past(app.settings, app.built_plan(), "shop:app", SystemClock())
        opened.append(past)
        return past

    yield made
    for past in opened:
        past.close()


def epoch_of(row: Row) -> int:
    return int(row.headers["mustela.epoch"] or b"0")


def sent(world: World, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """Return the rows of a topic by the epoch that wrote them."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in world.rows(topic):
        found.setdefault(epoch_of(row), []).append((row.key, row.value, row.timestamp))
    return {epoch: sorted(rows, key=repr) for epoch, rows in found.items()}


def made(replayed: Replayed, topic: str) -> list[tuple[Any, ...]]:
    rows = [(row.key, row.value, row.timestamp) for row in replayed.rows if row.topic == topic]
    return sorted(rows, key=repr)


def test_a_replayed_epoch_gives_what_it_committed(world: World, past_of: Any) -> None:
    """Windows, joins, tables and calls: rows by the epoch header, and stores by the changelogs."""
    orders, towns = world.topic("orders", partitions=3), world.topic("towns", partitions=2)
    sinks = [world.topic(name, partitions=2) for name in ("totals", "placed", "asked", "silent")]

    def ask(value: str) -> str:
        return f"{value}!"

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(orders, key=str, value=str)
        table = builder.table(towns, key=str, value=str, store="towns")
        windows = stream.group_by_key().windowed_by(TimeWindows(size=SECOND, grace=timedelta(0)))
        totals = windows.count(store="totals").to_stream()
        totals.select_key(lambda key, _: f"{key.key}@{key.start}", key=str).to(
            sinks[0], key=str, value=int
        )
        stream.join(table, lambda order, town: f"{order} to {town}", name="placed").to(
            sinks[1], key=str, value=str
        )
        stream.process(Reminds, name="reminds").to(sinks[3], key=str, value=str)
        stream.map_values_async(ask, PARKING, value=str, name="ask").to(
            sinks[2], key=str, value=str
        )

    app, _ = world.app(build, **HISTORY)
    with app:
        for nth in range(4):
            people = [f"p{n}" for n in range(12)]
            world.send(towns, [(one, f"town{nth}", 1000 + nth * 700) for one in people])
            world.send(orders, [(one, f"o{nth}", 1000 + nth * 700) for one in people])
            world.drain(app)
        world.until(lambda: len(world.rows(sinks[2])) == 48, "all calls are answered", app)

    past, compared = past_of(app), 0
    committed = {topic: sent(world, topic) for topic in sinks}
    records = {record.epoch: record for record in world.records() if record.epoch}
    logs = {
        store: world.rows(f"{world.name}-{store}-changelog") for store in app.built_plan().stores
    }
    for epoch, record in records.items():
        row, is_exact = past.find(epoch)
        assert is_exact
        replayed = replay(row, app.built_plan(), app.settings, past)
        for topic in sinks:
            assert made(replayed, topic) == committed[topic].get(epoch, []), (epoch, topic)
        changes = changes_between(logs, row.changelog_ends, record.changelog_ends)
        assert replayed.changes == changes
        compared += len(changes)
    assert len(records) >= 4
    assert compared > 20
    assert min(len(rows) for rows in committed.values()) >= 2


def test_the_epoch_that_failed_fails_again_at_the_users_line(world: World, past_of: Any) -> None:
    """Whether its plan was kept or not: the error names the command, and the line is the same."""
    source, sink = world.topic("in"), world.topic("out")

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream(source, key=str, value=str)
        words.map_values(refuses_poison, name="digest").to(sink, key=str, value=str)

    for settings in ({}, HISTORY):
        world.send(source, [("a", "fine")])
        if not settings:
            world.run(build)
        else:
            world.send(source, [("a", "also fine")])
        world.send(source, [("a", "poison")])
        error = world.fail(build, **settings)
        app, _ = world.app(build, **settings)
        past = past_of(app)
        last = world.records()[-1].epoch
        assert f"--epoch {last + 1}" in error.evidence["replay"]
        row, is_exact = past.find(last + 1)
        assert is_exact is bool(settings)
        replayed = replay(row, app.built_plan(), app.settings, past)
        assert replayed.error is not None
        assert (replayed.error.code, replayed.error.what) == (error.code, error.what)
        assert replayed.error.at == error.at
        cause = replayed.error.__cause__
        assert cause is not None
        trace = cause.__traceback__
        assert trace is not None
        while trace.tb_next is not None:
            trace = trace.tb_next
        assert trace.tb_frame.f_code.co_name == "refuses_poison"


def test_what_is_not_kept_is_a_named_error(world: World, past_of: Any) -> None:
    """It says from which epoch on the application can be replayed, and how to keep more."""
    source, sink = world.topic("in"), world.topic("out")

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream(source, key=str, value=str).group_by_key()
        words.count(store="counts").to_stream().to(sink, key=str, value=int)

    world.send(source, [("a", "x")])
    world.run(build)
    first = world.records()[-1].epoch
    world.send(source, [("a", "y")])
    world.run(build, **HISTORY)
    app, _ = world.app(build, **HISTORY)
    past = past_of(app)
    with pytest.raises(HistoryGoneError) as gone:
        past.find(first)
    possible = gone.value.fields["first"]
    assert first < possible
    assert f"mustela replay shop:app --epoch {possible}" in str(gone.value.fix)
    assert "history.epochs" in str(gone.value.fix)
    row, _ = past.find(possible)
    assert replay(row, app.built_plan(), app.settings, past).records == 1
    with pytest.raises(NoEpochError):
        past.find(possible + 10)


Ends = Mapping[str, Sequence[int]]


def changes_between(
    logs: Mapping[str, Sequence[Row]], before: Ends, after: Ends
) -> dict[tuple[str, bytes], bytes | None]:
    """Return what was written to changelogs between two epochs."""
    found: dict[tuple[str, bytes], bytes | None] = {}
    for store, rows in logs.items():
        for row in rows:
            first = before[store][row.partition]
            if first <= row.offset < after[store][row.partition]:
                found[store, row.key or b""] = row.value
    return found


SHOP = """
from mustela import App

app = App({name!r}, settings={settings!r})


def priced(value):
    return 100 // int(value)


@app.topology
def build(builder):
    words = builder.stream({source!r}, key=str, value=str)
    prices = words.map_values(priced, name="priced", value=int)
    prices.group_by_key().reduce(lambda a, b: a + b, store="sums").to_stream().to({sink!r})
"""


def assert_differs(target: str, epoch: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Another program does not give what the epoch wrote: four rows and changes differ."""
    assert main(["replay", target, "--epoch", str(epoch), "--json"]) == 0
    head, *rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert (head["compared"], head["differences"]) == (4, 4)
    changed = {(row["key"], row["before"], row["after"]) for row in rows if "difference" in row}
    assert changed == {("a", 20, 200), ("b", 50, 500)}
    assert main(["replay", target, "--epoch", str(epoch)]) == 0
    wanted = f"not the same as epoch {epoch} wrote: 0 rows added, 0 rows removed, 4 rows"
    assert wanted in capsys.readouterr().out


def test_global_tables_and_ticks_are_those_of_then(world: World, past_of: Any) -> None:
    """A table that was changed since, and a schedule that reads stores of all lanes."""
    source, towns = world.topic("in", partitions=2), world.topic("towns")
    named, reports = world.topic("named"), world.topic("reports")

    def report(tick: Tick) -> list[tuple[str, int]]:
        return [(key, counted.value) for key, counted in tick.store("counts").all()]

    def build(builder: StreamsBuilder) -> None:
        table = builder.global_table(towns, key=str, value=str)
        words = builder.stream(source, key=str, value=str)
        words.group_by_key().count(store="counts")
        words.left_join(
            table, lambda word, town: f"{word} {town}", foreign_key_with_key=lambda key, _: key
        ).to(named, key=str, value=str)
        ticks = builder.scheduled(
            "report",
            report,
            every=timedelta(milliseconds=500),
            key=str,
            value=int,
            catch_up="last",
            stores=("counts",),
        )
        ticks.to(reports)

    world.send(towns, [("a", "Rome"), ("b", "Bonn")])
    app, _ = world.app(build, **HISTORY)
    with app:
        for town in ("Oslo", "Bern", "Kiel"):
            mark = len(world.rows(reports))
            world.send(source, [(key, "x") for key in "abc"])
            world.drain(app)
            world.until(lambda: len(world.rows(reports)) > mark, "a report", app)  # noqa: B023
            world.send(towns, [("a", town)])
    past = past_of(app)
    told = {topic: sent(world, topic) for topic in (named, reports)}
    for topic, rows in told.items():
        assert rows
        for epoch, wanted in rows.items():
            row, _ = past.find(epoch)
            replayed = replay(row, app.built_plan(), app.settings, past)
            assert made(replayed, topic) == wanted, (topic, epoch)


def test_the_command_shows_an_epoch_its_failure_and_what_another_program_does(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As documents, as a table, as the user's line, and in the debugger; each fix helps."""
    monkeypatch.chdir(world.directory)
    monkeypatch.setattr(sys, "path", [str(world.directory), *sys.path])
    stem = f"shop{len(sys.modules)}"
    source = world.topic("in")
    given: dict[str, Any] = {"name": world.name, "source": source, "sink": world.topic("out")}
    chosen = {"bootstrap_servers": world.broker.bootstrap_servers, "key_groups": 4, **HISTORY}
    text = SHOP.format(settings=chosen, **given)
    (world.directory / f"{stem}.py").write_text(text)
    (world.directory / f"{stem}_next.py").write_text(text.replace("100 //", "1000 //"))
    module = importlib.import_module(stem)
    world.send(source, [("a", "5"), ("b", "2")])
    world.run(module.build, **HISTORY)
    last = world.records()[-1].epoch
    world.send(source, [("a", "0")])
    failing, _ = world.app(module.build, **HISTORY)
    monkeypatch.setattr(module, "app", failing)
    failing.start()
    world.until(lambda: failing.state.ended, "the application ends")
    failed: Any = failing.error

    def told(*options: str, epoch: int = last, code: int = 0) -> tuple[str, str]:
        assert main(["replay", f"{stem}:app", "--epoch", str(epoch), *options]) == code
        return tuple(capsys.readouterr())  # type: ignore[return-value]

    head, *rows = [json.loads(line) for line in told("--json")[0].splitlines()]
    assert (head["epoch"], head["records"], head["failed"]) == (last, 2, None)
    sums = [{"store": "sums", "key": key, "value": sum_} for key, sum_ in (("a", 20), ("b", 50))]
    assert [row for row in rows if "store" in row] == sums
    assert len([row for row in rows if "topic" in row]) == 2
    assert (head["compared"], head["differences"]) == (4, 0)
    assert f"the same as epoch {last} wrote: 4 rows and changes" in told()[0]
    assert_differs(f"{stem}_next:app", last, capsys)

    both = told("--program", f"{stem}_next:app", "--json")[0].splitlines()
    head, *rows = map(json.loads, both)
    assert head["differences"] == 4
    changed = {(row["key"], row["before"], row["after"]) for row in rows}
    assert changed == {("a", 20, 200), ("b", 50, 500)}
    assert "no difference" in told("--program", f"{stem}:app")[0]

    assert failed.evidence["replay"] == f"mustela replay {stem}:app --epoch {last + 1}"
    assert main(failed.evidence["replay"].split()[1:]) == 1
    shown, errors = capsys.readouterr()
    assert "wrote" not in shown
    assert "ZeroDivisionError" in errors
    assert f"{stem}.py" in errors
    monkeypatch.setattr(sys, "stdin", io.StringIO("p ('value', value)\nq\n"))
    assert "('value', '0')" in told("--pdb", epoch=last + 1, code=1)[0]
    monkeypatch.setattr(sys, "stdin", io.StringIO("p ('value', value)\nc\nc\n"))
    assert "('value', '5')" in told("--break", "priced")[0]

    raising = text.replace("int(value)", "leave(value)").replace(
        "def priced", "def leave(value):\n    raise SystemExit(value)\n\n\ndef priced"
    )
    (world.directory / f"{stem}_leaves.py").write_text(raising)
    monkeypatch.setattr(sys, "stdin", io.StringIO("p ('left', value)\nq\n"))
    with contextlib.suppress(SystemExit):
        main(["replay", f"{stem}_leaves:app", "--epoch", str(last), "--pdb"])
    assert "('left', '5')" in capsys.readouterr()[0]

    errors = told("--break", "pricd", code=2)[1]
    assert "REPLAY_BREAK" in errors
    assert "priced" in errors
    errors = told(epoch=last + 9, code=2)[1]
    assert "REPLAY_EPOCH" in errors
    assert f"mustela replay {stem}:app --epoch {last}" in errors
