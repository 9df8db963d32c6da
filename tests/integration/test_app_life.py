"""The life of an application: started, waited for, stopped; alone or inside another program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.errors import MustelaError
from mustela.runtime.app import AppStateError, NoTopologyError
from mustela.runtime.events import AppState
from tests.integration.app_world import World
from tests.patience import PATIENCE_S, SOON

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


def copying(source: str, sink: str):
    """Copy a topic."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=str).to(sink, key=str, value=str)

    return build


def test_an_application_goes_through_its_states_once(world: World) -> None:
    """Start does not block, wait returns when it has stopped, and it cannot start again."""
    app, watcher = world.app(copying(world.topic("in"), world.topic("out")))
    assert app.state is AppState.CREATED
    app.start()
    assert app.wait_until(AppState.RUNNING, SOON)
    assert not app.wait(timedelta(milliseconds=1))
    with pytest.raises(AppStateError):
        app.start()
    with pytest.raises(AppStateError):
        app.configure(lanes=3)
    assert app.close(SOON)
    assert app.wait(SOON)
    assert app.close()
    assert watcher.states == [
        AppState.STARTING,
        AppState.RESTORING,
        AppState.RUNNING,
        AppState.DRAINING,
        AppState.STOPPED,
    ]
    with pytest.raises(AppStateError):
        app.start()


def test_closing_finishes_the_epoch_that_runs(world: World, tmp_path: Path) -> None:
    """What it read is committed; a timeout that is too short says so and goes on closing."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "v")])
    begun, go = str(tmp_path / "begun"), str(tmp_path / "go")

    def wait(value: str) -> str:
        import time
        from pathlib import Path

        Path(begun).touch()
        deadline = time.monotonic() + 300
        while not Path(go).exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return value

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str).map_values(wait, name="wait")
        stream.to(sink, key=str, value=str)

    app, _ = world.app(build)
    app.start()
    world.until(lambda: Path(begun).exists(), "the function runs", app)
    assert not app.close(timedelta(milliseconds=50))
    assert not app.state.ended
    Path(go).touch()
    assert app.close(SOON)
    assert app.error is None
    assert world.values(sink) == ["v"]


def test_an_application_that_was_never_started_can_be_closed() -> None:
    """And one without a topology says so."""
    app = App("unused")
    with pytest.raises(NoTopologyError):
        app.start()
    assert app.close()
    assert app.state is AppState.STOPPED


def test_run_raises_what_ended_the_application(world: World) -> None:
    """Outside of the main thread it leaves signals alone."""
    app, _ = world.app(copying(f"{world.name}.missing", world.topic("out")))
    raised: list[BaseException] = []

    def run() -> None:
        try:
            app.run()
        except MustelaError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [getattr(error, "code", "") for error in raised] == ["TOPIC_MISSING"]
    assert app.error is raised[0]
    assert app.state is AppState.FAILED


def test_a_block_raises_what_ended_the_application_unless_it_raised_itself(world: World) -> None:
    """The first error is the one to know."""
    missing, sink = f"{world.name}.missing", world.topic("out")
    app, _ = world.app(copying(missing, sink))
    with pytest.raises(MustelaError, match="missing"), app:
        app.wait(SOON)
    again, _ = world.app(copying(missing, sink))
    with pytest.raises(ZeroDivisionError), again:
        raise ZeroDivisionError


def test_a_listener_that_raises_is_logged_and_the_application_goes_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It is the user's code: not to be reported as a bug, and no reason to stop."""

    class Broken:
        def on_event(self, event: object) -> None:
            if getattr(event, "state", None) is AppState.RUNNING:
                raise KeyError("x")

        def on_error(self, error: BaseException) -> None:
            pass

    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "v")])
    app, _ = world.app(copying(source, sink))
    app.add_listener(Broken())
    with app:
        assert app.wait_until_caught_up(SOON)
    assert world.values(sink) == ["v"]
    assert "Broken raised KeyError: 'x'" in caplog.text


def test_the_users_spark_session_is_joined_and_stays_alive(
    world: World, spark_context: Any
) -> None:
    """An application without a session of its own finds it; jobs of the user's run meanwhile."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark_context)
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", f"{n}") for n in range(50)])
    for given in (session, None):
        app = App(session=given, **world.settings())
        app.topology(copying(source, sink))
        with app:
            world.drain(app)
            assert session.range(10).count() == 10
            assert spark_context.parallelize(range(20), 2).map(lambda n: n + 1).sum() == 210
        assert session.range(7).count() == 7
    assert len(world.values(sink)) == 50


@contextmanager
def program(world: World, source: str, sink: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program of `app_program` in a process of its own; it is gone afterwards."""
    settings = {**world.settings(), "state_dir": str(world.directory / "state")}
    spark = {"spark.master": "local[2]", "spark.local.dir": str(world.directory)}
    given = {"settings": {**settings, "spark": spark}, "source": source, "sink": sink}
    path = Path(__file__).parent / "app_program.py"
    with (world.directory / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(path), json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=world.directory,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def read_until(process: subprocess.Popen[str], line: str, directory: Path) -> list[str]:
    """Read what a program prints up to a line."""
    assert process.stdout is not None
    seen: list[str] = []
    while (text := process.stdout.readline()) != "":
        seen.append(text.strip())
        if seen[-1] == line:
            return seen
    told = (directory / "stderr").read_text()
    pytest.fail(f"the program ended without {line!r}: {seen}\n{told}")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_program_cleanly(world: World, number: signal.Signals) -> None:
    """Its own classes and functions reach the workers; it commits, syncs, and exits with 0."""
    source, sink = world.topic("visits"), world.topic("weights")
    rows = [("joe", json.dumps({"kind": f"k{n % 3}", "weight": n})) for n in range(300)]
    world.send(source, rows)
    with program(world, source, sink) as process:
        read_until(process, "running", world.directory)
        world.until(
            lambda: process.poll() is not None or len(world.rows(sink)) >= 3,
            "an epoch is committed",
        )
        process.send_signal(number)
        seen = read_until(process, "the end", world.directory)
        assert seen == ["draining", "stopped", "the end"]
        assert process.wait(PATIENCE_S) == 0
    expected = {f"k{k}".encode(): sum(range(k, 300, 3)) for k in range(3)}
    last = {row.key: json.loads(row.value or b"")["weight"] for row in world.rows(sink)}
    assert set(last) == set(expected)
    committed = world.records()[-1].partitions[0].end
    assert sum(last.values()) == sum(range(committed))
    told = (world.directory / "stderr").read_text()
    assert "Traceback" not in told, told
    assert "ERROR" not in told
