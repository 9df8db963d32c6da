"""Epochs run as orders to tasks that stay, one or all of them, and give what jobs give."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.errors import MustelaError
from mustela.spark import residents
from mustela.spark.job import Jobs
from mustela.spark.resident import Resident
from tests.faults.inside import Inside, await_condition
from tests.faults.spark_workers import kill_workers
from tests.patience import SOON

pytest_plugins = ["tests.integration.app_fixture"]
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

LARGE, SMALL, ORDER, PARTS = "large", "small", "order", "parts"
KINDS = {"10s": ORDER, "0ms": PARTS}
"""How epochs run that are called small up to a time, as soon as tasks stay."""
ROUNDS, RECORDS = 12, 60


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kind of each epoch's job."""
    found: list[str] = []

    def noting(owner: object, kind: str, name: str) -> None:
        run = getattr(owner, kind)

        def noted(*arguments: Any) -> Any:
            found.append(name)
            return run(*arguments)

        monkeypatch.setattr(owner, kind, noted)

    noting(Jobs, "run_epoch", LARGE)
    noting(Jobs, "run_small_epoch", SMALL)
    noting(Resident, "run", ORDER)
    noting(residents, "run_stages", PARTS)
    return found


def twice_keyed(builder: StreamsBuilder, prefix: str) -> None:
    """Count values by key, then how often each count was reached."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    counts = stream.group_by_key().count(store="by_key")
    reached = counts.to_stream().group_by(lambda _key, count: count, key=int)
    reached.count(store="by_count").to_stream().to(f"{prefix}.out", key=int, value=int)


def feed(inside: Inside, number: int) -> None:
    inside.send((f"k{n % 20}", f"v{number}") for n in range(RECORDS))


def last_rows(inside: Inside) -> dict[int, int]:
    rows = {}
    for row in inside.rows():
        rows[int.from_bytes(row.key or b"")] = int.from_bytes(row.value or b"")
    return rows


def upper(builder: StreamsBuilder, prefix: str) -> None:
    """Change values; keys, and so stages, stay as they are."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    stream.map_values(str.upper, name="upper").to(f"{prefix}.out", key=str, value=str)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_plan_of_one_stage(inside: Inside, jobs: list[str], guarantee: str) -> None:
    """It has no shuffle to save, but the job."""
    inside.build(upper)
    app, heard = inside.app(processing_guarantee=guarantee, epoch={"small": "10s"})
    with app:
        for number in range(ROUNDS // 2):
            feed(inside, number)
            inside.await_caught_up(app)
        assert jobs[:2] == [SMALL, SMALL]
        assert set(jobs[2:]) == {ORDER}
    assert not heard.errors
    wanted = [(f"k{n % 20}", f"V{number}") for number in range(ROUNDS // 2) for n in range(RECORDS)]
    rows = [((row.key or b"").decode(), (row.value or b"").decode()) for row in inside.rows()]
    assert sorted(rows) == sorted(wanted)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("small", ["10s", "0ms"])
def test_two_re_keyings(inside: Inside, jobs: list[str], small: str, guarantee: str) -> None:
    """Epoch after epoch, and with a restart in between.

    Where the settings name the number of lanes, each start begins with an epoch of all tasks.
    """
    inside.build(twice_keyed)
    settings = {"emit": "every", "epoch": {"small": small}, "processing_guarantee": guarantee}
    settings["lanes"] = 2
    epochs = 0
    for start in (0, ROUNDS // 2):
        app, heard = inside.app(**settings)
        jobs.clear()
        with app:
            for number in range(start, start + ROUNDS // 2):
                feed(inside, number)
                inside.await_caught_up(app)
        assert jobs[0] == PARTS
        assert set(jobs[1:]) == {KINDS[small]}
        assert not heard.errors
        epochs += len(heard.epochs)
        ones = [epoch for epoch in heard.epochs[1:] if len({r.pid for r in epoch.reports}) == 1]
        assert small == "0ms" or ones == heard.epochs[1:]
    assert epochs >= ROUNDS
    # Each of 20 keys reached each count once.
    assert last_rows(inside) == dict.fromkeys(range(1, ROUNDS * RECORDS // 20 + 1), 20)


GATE = "gate"
"""A record that opens none: it waits as long as a file of this name is there."""


def waiting(place: str, where: str) -> Callable[[str], str]:
    """Return a function that waits at one record, and says so, while a file is there."""

    def wait(value: str) -> str:
        gate = Path(place) / where
        if value.startswith(GATE) and gate.exists():
            (Path(place) / "pid").write_text(str(os.getpid()))
            while gate.exists():
                time.sleep(0.01)
        return value

    return wait


def gated(place: Path) -> Callable[[StreamsBuilder, str], None]:
    """Count values by key; a record may wait in the source stage, or in a lane."""
    source, lane = waiting(str(place), "source"), waiting(str(place), "lane")

    def build(builder: StreamsBuilder, prefix: str) -> None:
        stream = builder.stream(f"{prefix}.in", key=str, value=str).map_values(source, name="first")
        again = stream.select_key(lambda key, _value: key)
        grouped = again.group_by_key().aggregate(
            lambda: 0,
            lambda _key, value, count: count + bool(lane(value)),
            store="counts",
            value=int,
        )
        grouped.to_stream().to(f"{prefix}.out", key=str, value=int)

    return build


def counts(inside: Inside) -> dict[str, int]:
    return {
        (key or b"").decode(): int.from_bytes(value or b"") for key, value in inside.table().items()
    }


def settle(inside: Inside, app: App, jobs: list[str], kind: str = ORDER) -> int:
    """Send records until epochs are orders; return how many there were of each key."""
    jobs.clear()
    sent = 0
    while kind not in jobs:
        assert sent < 60, jobs
        inside.send([("a", "v"), ("b", "v")])
        sent += 1
        inside.await_caught_up(app)
    return sent


@pytest.mark.parametrize("small", ["10s", "0ms"])
def test_a_worker_that_is_killed_while_its_task_stays(
    inside: Inside, jobs: list[str], tmp_path: Path, small: str
) -> None:
    """At rest, in the source stage, in a lane, and at any moment: all is counted once."""
    inside.build(gated(tmp_path))
    app, heard = inside.app(epoch={"small": small})
    kind = KINDS[small]
    gate, told = tmp_path / "none", tmp_path / "pid"
    sent = 0
    with app:
        for where in ("source", "lane"):
            sent += settle(inside, app, jobs, kind)
            gate = tmp_path / where
            gate.touch()
            inside.send([("a", GATE), ("b", "v")])
            sent += 1
            await_condition(lambda: told.exists() and bool(told.read_text()), app)
            assert jobs[-1] == kind
            before = len(heard.errors)
            os.kill(int(told.read_text()), signal.SIGKILL)
            gate.unlink()
            inside.await_caught_up(app)
            errors = heard.errors[before:]
            assert [getattr(error, "code", "") for error in errors] == ["EPOCH_JOB"], errors
            told.unlink()
        died = len(heard.errors)
        sent += settle(inside, app, jobs, kind)
        assert kill_workers()  # at rest
        inside.send([("a", "v"), ("b", "v")])
        inside.await_caught_up(app)
        sent += 1
        # Spark may meet the end of the process that forks workers first: then the epoch runs again.
        errors = heard.errors[died:]
        assert [getattr(error, "code", "") for error in errors] in ([], ["EPOCH_JOB"]), errors
        draws = random.Random(7)
        for _ in range(2):
            sent += settle(inside, app, jobs, kind)
            inside.send([("a", "v"), ("b", "v")])
            time.sleep(draws.random() * 0.06)
            kill_workers()
            sent += 1
            inside.await_caught_up(app)
    assert counts(inside) == {"a": sent, "b": sent}


@pytest.mark.parametrize("small", ["10s", "0ms"])
def test_a_function_that_hangs_in_a_task_that_stays(
    inside: Inside, jobs: list[str], tmp_path: Path, small: str
) -> None:
    """It has its time limit there, too; step and record are named, nothing is committed."""
    inside.build(gated(tmp_path))
    app, _ = inside.app(epoch={"small": small}, processing={"timeout": "1s"})
    app.start()
    sent = settle(inside, app, jobs, KINDS[small])
    (tmp_path / "lane").touch()
    inside.send([("a", GATE)])
    try:
        assert app.wait(SOON), "the application goes on"
    finally:
        with suppress(MustelaError):
            app.close()
    error = app.error
    assert isinstance(error, MustelaError)
    assert error.code == "PROCESSING_TIMEOUT"
    assert "worker" in error.evidence
    assert jobs[-1] == KINDS[small]
    (tmp_path / "lane").unlink()
    inside.run()
    assert counts(inside) == {"a": sent + 1, "b": sent}


@pytest.mark.parametrize("small", ["10s", "0ms"])
def test_whoever_shares_the_session_finds_every_core(
    inside: Inside, jobs: list[str], tmp_path: Path, spark_context: Any, small: str
) -> None:
    """Two tasks that wait for each other need both: those that stay leave, and come back."""
    inside.build(gated(tmp_path))
    app, heard = inside.app(epoch={"small": small})

    def meet(task: int, _rows: Any) -> Iterator[int]:
        (tmp_path / f"{task}.here").touch()
        while len(list(tmp_path.glob("*.here"))) < 2:
            time.sleep(0.01)
        yield task

    with app:
        sent = settle(inside, app, jobs, KINDS[small])
        found = spark_context.parallelize([1, 2], 2).mapPartitionsWithIndex(meet).collect()
        assert found == [0, 1]
        sent += settle(inside, app, jobs, KINDS[small])
    assert not heard.errors
    assert counts(inside) == {"a": sent, "b": sent}


def test_a_large_epoch_has_all_cores(inside: Inside, jobs: list[str], tmp_path: Path) -> None:
    """Where one task stays another one comes to it, and small epochs go on with the first."""
    inside.build(gated(tmp_path))
    app, heard = inside.app(epoch={"small": "40ms"})
    with app:
        sent = settle(inside, app, jobs)
        inside.send([("a", "v"), ("b", "v")] * 500)
        inside.await_caught_up(app)
        assert PARTS in jobs[jobs.index(ORDER) :]
        assert max(len({report.pid for report in epoch.reports}) for epoch in heard.epochs) == 2
        sent += 500 + settle(inside, app, jobs)
    assert not heard.errors
    assert counts(inside) == {"a": sent, "b": sent}
