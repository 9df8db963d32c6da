"""What goes wrong in an application: user code, bad records, rows that the broker refuses."""

from __future__ import annotations

import importlib
import os
import random
import shlex
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mustela import Consumed, Record, StreamsBuilder
from mustela.calls import AsyncOptions
from mustela.connectors.kafka.production import LETTER_HEADS
from mustela.handlers import CONTINUE, DEAD_LETTER, ErrorContext, Retry
from mustela_dev.broker.tools import run_tool
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


def halving(source: str, sink: str) -> Callable[[StreamsBuilder], None]:
    """Divide 100 by each value, which cannot always be done."""

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        parts = stream.map_values(lambda value: f"{100 // int(value)}", name="divide")
        parts.to(sink, key=str, value=str)

    return build


def test_a_function_that_raises_ends_the_application_with_nothing_of_the_epoch_visible(
    world: World,
) -> None:
    """The error names step, line, topic, partition, offset and key; the next start tries again."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("ant", "5"), ("bee", "0"), ("cow", "2")])
    error = world.fail(halving(source, sink))
    assert error.code == "PROCESSING"
    text = str(error)
    for part in ("divide", "test_app_failures.py", source, "bee", "division"):
        assert part in text, part
    assert error.fields["offset"] == 1
    assert "py4j" not in text
    assert world.rows(sink) == []
    assert not [record for record in world.records() if record.epoch]
    world.run(halving(source, sink), processing_handler="continue")
    assert world.values(sink) == ["20", "50"]


def test_records_that_fail_are_left_out_and_counted_where_that_is_wished(world: World) -> None:
    """The function runs once for each of the others."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [(f"k{n}", f"{n % 3}") for n in range(30)])
    watcher = world.run(halving(source, sink), processing_handler="continue")
    assert len(world.values(sink)) == 20
    counted = [name for epoch in watcher.epochs for name in epoch.counters if "divide" in name]
    assert any(watcher.counter(name) == 10 for name in counted), counted


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_handlers_that_are_functions_run_where_the_steps_run(world: World, guarantee: str) -> None:
    """In the workers: a source's, a step's that tries again, and a sink's; letters say it all."""
    source, sink = world.topic("in"), world.topic("out")
    tried: list[str] = []

    def of_source(_error: Exception, record: Record[Any, Any], context: ErrorContext) -> Any:
        assert context.source_raw_value == record.value
        return record.with_key("mended").with_value("7")

    def parse(text: str) -> int:
        if text == "flaky":
            tried.append(text)
            if len(tried) < 3:
                raise ConnectionError(text)
            return 30
        return int(text)

    def of_sink(_error: Exception, record: Record[Any, Any], _context: ErrorContext) -> Any:
        return record.with_value(0)

    def build(builder: StreamsBuilder) -> None:
        consumed = Consumed(key=str, value=str, on_error=of_source)
        numbers = builder.stream(source, consumed).map_values(
            parse,
            value=int,
            name="parse",
            on_error=Retry(attempts=4, initial=timedelta(milliseconds=1), then="dead_letter"),
        )
        numbers.to(sink, key=str, value=int, on_error=of_sink)

    rows = [("a", "1"), ("b", b"\xff"), ("c", "flaky"), ("d", "x"), ("e", str(2**70)), ("f", "6")]
    world.send(source, rows)
    watcher = world.run(build, processing_guarantee=guarantee)
    out = [(row.key, int.from_bytes(row.value or b"", "big")) for row in world.rows(sink)]
    assert out == [(b"a", 1), (b"mended", 7), (b"c", 30), (b"e", 0), (b"f", 6)]
    (letter,) = world.rows(f"{world.name}-dead-letters")
    assert (letter.key, letter.value) == (b"d", b"x")
    told = letter.headers
    assert (told["mustela.error.attempts"], told["mustela.error.step"]) == (b"4", b"parse")
    assert told["__streams.errors.topic"] == source.encode()
    assert watcher.counter("record_retries:parse") == 2 + 3
    assert watcher.counter(f"replaced_records:{source}") == 1


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_sinks_own_handler_is_asked_about_rows_that_the_broker_refuses(
    world: World, guarantee: str
) -> None:
    """In the driver, or in the worker that sends; the application's is not."""
    source, sink = world.topic("in"), world.topic("out", max_message_bytes="2000")

    def of_sink(error: Exception, record: Record[Any, Any], context: ErrorContext) -> Any:
        assert (context.kind, context.topic) == ("production", sink)
        assert "MSG_SIZE_TOO_LARGE" in str(error)
        return CONTINUE if record.key == b"b" else DEAD_LETTER

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        large = stream.map_values(lambda text: text * 5000 if text == "x" else text, value=str)
        large.to(sink, key=str, value=str, on_error=of_sink)

    world.send(source, [("a", "1"), ("b", "x"), ("c", "x"), ("d", "2")])
    world.run(build, processing_guarantee=guarantee)
    assert world.values(sink) == ["1", "2"]
    (letter,) = world.rows(f"{world.name}-dead-letters")
    assert letter.key == b"c"


def test_dead_letters_hold_the_record_and_why_in_the_same_transaction(world: World) -> None:
    """Original bytes, headers that tell everything, and the epoch of the rows beside them."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("ant", "5"), ("bee", "zero"), ("cow", "2")])
    world.run(halving(source, sink), processing_handler="dead_letter")
    (letter,) = world.rows(f"{world.name}-dead-letters")
    assert (letter.key, letter.value) == (b"bee", b"zero")
    told = {name: (value or b"").decode() for name, value in letter.headers.items()}
    assert told["mustela.epoch"] == (world.rows(sink)[0].headers["mustela.epoch"] or b"").decode()
    errors = {name: text for name, text in told.items() if name.startswith("mustela.error.")}
    assert source in errors.values()
    assert "divide" in errors.values()
    assert any("ValueError" in text for text in errors.values()), errors
    assert world.values(sink) == ["20", "50"]


@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_a_record_that_cannot_be_decoded_meets_its_handler(world: World, handler: str) -> None:
    """Its raw bytes go to the dead letters."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(
        source, [("k", b"\x00" * 7 + b"\x05"), ("bad", b"\x01"), ("k", b"\x00" * 7 + b"\x07")]
    )

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=int)
        stream.map_values(lambda value: value * 2, name="double").to(sink, key=str, value=int)

    if handler == "fail":
        error = world.fail(build)
        assert error.code == "DESERIALIZATION"
        assert source in str(error)
        return
    world.run(build, deserialization_handler=handler)
    assert [int.from_bytes(row.value or b"", "big") for row in world.rows(sink)] == [10, 14]
    if handler == "dead_letter":
        (letter,) = world.rows(f"{world.name}-dead-letters")
        assert (letter.key, letter.value) == (b"bad", b"\x01")


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_a_row_that_the_broker_refuses_meets_its_handler(
    world: World, handler: str, guarantee: str
) -> None:
    """A row that is too large would stop its epoch for ever; others fit, batch by batch."""
    source = world.topic("in")
    sink = world.topic("out", max_message_bytes="2000")
    rows = [(f"k{n}", "x" * 50) for n in range(100)]
    world.send(source, [("a", "x" * 50), ("b", "x" * 5_000), ("c", "x" * 60), *rows])

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        stream.to(sink, key=str, value=str)
        stream.group_by_key().count(store="counts")

    settings = {"production_handler": handler, "processing_guarantee": guarantee}
    if handler == "fail":
        error = world.fail(build, **settings)
        assert error.code == "PRODUCTION", error.__cause__ or error
        assert sink in str(error)
        assert world.rows(sink) == []
        return
    watcher = world.run(build, **settings)
    assert [row.key for row in world.rows(sink)] == [b"a", b"c", *(key.encode() for key, _ in rows)]
    assert len(world.rows(f"{world.name}-counts-changelog")) == 103
    assert watcher.counter(f"refused_rows:{sink}") == 1
    if handler == "dead_letter":
        (letter,) = world.rows(f"{world.name}-dead-letters")
        assert (letter.key, len(letter.value or b"")) == (b"b", 5_000)
        assert letter.headers["mustela.error.topic"] == sink.encode()


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_what_only_the_broker_knows_to_refuse_meets_its_handler(
    world: World, handler: str, guarantee: str
) -> None:
    """Nobody knows the size of compressed rows: all are sent again but the one refused."""
    source = world.topic("in")
    sink = world.topic("out", max_message_bytes="2000")
    large = random.Random(1).randbytes(5_000)
    world.send(source, [("a", b"x" * 50), ("b", large), ("c", b"z" * 60)])

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=bytes).to(sink, key=str, value=bytes)

    settings = {
        "production_handler": handler,
        "processing_guarantee": guarantee,
        "kafka": {"compression.type": "lz4"},
    }
    if handler == "fail":
        error = world.fail(build, **settings)
        assert error.code == "PRODUCTION", error.__cause__ or error
        return
    watcher = world.run(build, **settings)
    assert [row.key for row in world.rows(sink)][-2:] == [b"a", b"c"]
    assert {row.key for row in world.rows(sink)} == {b"a", b"c"}
    assert watcher.counter(f"refused_rows:{sink}") == 1
    if handler == "dead_letter":
        (letter,) = world.rows(f"{world.name}-dead-letters")
        assert (letter.key, letter.value) == (b"b", large)
        assert letter.headers["mustela.error.class"] == b"MSG_SIZE_TOO_LARGE"


def test_the_letter_of_a_row_that_no_topic_takes_keeps_the_head(world: World) -> None:
    """The whole row would be refused again, as a letter, on every start."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("a", "1"), ("b", "2000000"), ("c", "3")])
    noise = random.Random(1).randbytes(2_000_000)  # compressed it is as large

    def build(builder: StreamsBuilder) -> None:
        longer = builder.stream(source, key=str, value=str).map_values(lambda v: noise[: int(v)])
        longer.to(sink, key=str, value=bytes)

    world.run(build, production_handler="dead_letter")
    assert [row.key for row in world.rows(sink)] == [b"a", b"c"]
    (letter,) = world.rows(f"{world.name}-dead-letters")
    assert (letter.key, letter.value) == (b"b", noise[: LETTER_HEADS[0]])
    assert letter.headers["mustela.error.cut.value"] == b"2000000"
    assert letter.headers["mustela.error.topic"] == sink.encode()


def test_a_call_that_fails_finds_the_dead_letter_topic(world: World) -> None:
    """Though no handler of the settings would write to it."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("a", "5"), ("b", "0")])

    def build(builder: StreamsBuilder) -> None:
        options = AsyncOptions(on_failure="dead_letter")
        parts = builder.stream(source, key=str, value=str).map_values_async(
            lambda value: f"{100 // int(value)}", options, name="divide"
        )
        parts.to(sink, key=str, value=str)

    world.run(build)
    assert world.values(sink) == ["20"]
    (letter,) = world.rows(f"{world.name}-dead-letters")
    assert (letter.key, letter.value) == (b"b", b"0")


def test_a_changelog_row_that_the_broker_refuses_is_named_with_a_way_on(world: World) -> None:
    """Store and key, no handler that cannot apply; and what the fix names helps."""
    source, sink = world.topic("in"), world.topic("out")
    half = random.Random(1).randbytes(700_000)  # compressed it is as large
    world.send(source, [("ant", b"x"), ("bee", half), ("bee", half[::-1]), ("cow", b"z")])

    def build(builder: StreamsBuilder) -> None:
        kept = builder.stream(source, key=str, value=bytes).group_by_key()
        whole = kept.reduce(lambda whole, part: whole + part, store="whole")
        whole.to_stream().map_values(len).to(sink, key=str, value=int)

    error = world.fail(build, production_handler="dead_letter")
    assert error.code == "CHANGELOG_ROW", error
    assert error.fields["store"] == "whole"
    assert "bee" in error.evidence["key"]
    assert "production_handler" not in str(error)
    assert world.rows(sink) == []
    command, setting = error.fix.split("mustela ")[1].split(", and ")
    tool, *arguments = shlex.split(command)
    run_tool(tool, ["--bootstrap-server", world.broker.bootstrap_servers, *arguments])
    name, value = setting.removeprefix("kafka.").split(" = ")
    world.run(build, kafka={name: value})
    assert world.numbers(sink) == {"ant": 1, "bee": 1_400_000, "cow": 1}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("creates", [False, True])
def test_a_topic_that_a_function_names_is_made_or_missed(
    world: World, guarantee: str, creates: bool
) -> None:
    """Who sends the rows makes no difference."""
    source, chosen = world.topic("in", 2), f"{world.name}.chosen"
    world.send(source, [("a", "1"), ("b", "2")])

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=str).to(lambda *_: chosen, key=str, value=str)

    settings = {"processing_guarantee": guarantee, "topics": {"create": creates}}
    if creates:
        world.run(build, **settings)
        assert sorted(world.values(chosen)) == ["1", "2"]
        assert world.admin.partitions(chosen) == 2
        return
    error = world.fail(build, **settings)
    assert error.code == "TOPIC_MISSING"
    assert "test_app_failures.py" in str(error)


def test_a_function_that_cannot_travel_is_named_with_its_step(world: World) -> None:
    """A lock, a client, an open file: they belong inside the function."""
    source, sink, lock = world.topic("in"), world.topic("out"), threading.Lock()
    world.send(source, [("k", "v")])

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        held = stream.filter(lambda _key, _value: not lock.locked(), name="held")
        held.to(sink, key=str, value=str)

    for _ in range(2):  # a second start says the same
        error = world.fail(build)
        assert error.code == "FUNCTION_NOT_PICKLABLE"
        assert "held" in str(error)
        assert "test_app_failures.py" in str(error)
    assert error.fix == "create files, locks and clients inside the function, not outside"

    def inside(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        held = stream.filter(lambda _key, _value: not threading.Lock().locked(), name="held")
        held.to(sink, key=str, value=str)

    world.run(inside)
    assert world.values(sink) == ["v"]


def test_a_module_beside_the_program_is_found_by_workers(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark knew nothing of it when it started; one that is only in memory is named, once."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "v")])
    text = "def shout(text):\n    return text.upper()\n"
    memory = ModuleType("only_in_memory")
    exec(compile(text, "only_in_memory.py", "exec"), memory.__dict__)
    monkeypatch.setitem(sys.modules, "only_in_memory", memory)
    (tmp_path / "beside_the_program.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    beside = importlib.import_module("beside_the_program")

    def program(shout: Callable[[str], str]) -> Callable[[StreamsBuilder], None]:
        return lambda builder: (
            builder.stream(source, key=str, value=str).map_values(shout, name="s")
        ).to(sink, key=str, value=str)

    app, watcher = world.app(program(memory.shout))
    app.start()
    app.wait()
    error: Any = app.error
    assert error.code == "PROGRAM_NOT_LOADED", error
    assert error.what.endswith("ModuleNotFoundError: No module named 'only_in_memory'")
    assert watcher.errors == []
    # What the advice says:
    (tmp_path / "only_in_memory.py").write_text(text)
    world.run(program(memory.shout))
    world.send(source, [("k", "w")])
    world.run(program(beside.shout))
    assert world.values(sink) == ["V", "W"]


def test_an_epoch_whose_worker_died_runs_again_whole(world: World, tmp_path: Path) -> None:
    """The worker takes its rows with it; nothing is lost and nothing is counted twice."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [(f"k{n % 5}", f"{n}") for n in range(500)])
    marker = str(tmp_path / "died")

    def die_once(value: str) -> str:
        if value == "250":
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return value
            os.kill(os.getpid(), 9)
        return value

    def build(builder: StreamsBuilder) -> Any:
        stream = builder.stream(source, key=str, value=str).map_values(die_once, name="die")
        counted = stream.group_by_key(key=str, value=str).count(store="counts")
        counted.to_stream().to(sink, key=str, value=int)

    watcher = world.run(build)
    assert Path(marker).exists()
    assert world.numbers(sink) == {f"k{n}": 100 for n in range(5)}
    assert [getattr(error, "code", "") for error in watcher.errors] == ["EPOCH_JOB"]
    first = min(record.epoch for record in world.records() if record.epoch)
    assert first == 1
