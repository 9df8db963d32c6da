"""The first epochs of a start run before Spark is up, and what comes then goes on from there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.integration.app_world import World
from tests.patience import PATIENCE_S, looks

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.crash, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
import os, signal, sys, time
from pathlib import Path

import mustela.spark.hold as hold
from mustela import App
from mustela.runtime.events import EpochDone
from mustela.spark.session import SparkNotStartedError

name, servers, here, source, sink, *properties = sys.argv[1:]
gate, fails, killed = (Path(here, name) for name in ("gate", "fails", "killed"))
take = hold.take_context


def take_late(*arguments):
    while not gate.exists():
        time.sleep(0.02)
    if fails.exists():
        raise SparkNotStartedError("it may not")
    return take(*arguments)


hold.take_context = take_late


class Teller:
    def on_event(self, event):
        if isinstance(event, EpochDone) and event.records:
            print("epoch", *sorted({report.pid for report in event.reports}), flush=True)

    def on_error(self, error):
        print("error", error.code, flush=True)


def word(_key, value):
    if value == "kill" and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value + os.environ.get("ENDING", "")


settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "commit_interval": "50ms"}
settings |= dict(one.split("=") for one in properties)
app = App(name, settings, bootstrap_servers=servers, state_dir=str(Path(here, "state")))
app.add_listener(Teller())


@app.topology
def build(builder):
    stream = builder.stream(source, key=str, value=str)
    counts = stream.group_by(word, key=str).count(store="counts")
    counts.to_stream().to(sink, key=str, value=int)


app.run()
"""


class Started:
    """The program, running."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._all = psutil.Process(process.pid)

    def next(self, what: str) -> list[str]:
        """Wait for a line that begins so; return its other words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            first, *words = line.split()
            if first == what:
                return words
        return []

    def parent_of(self, pid: str) -> list[str]:
        """Return the command of a worker's parent."""
        parent = psutil.Process(int(pid)).parent()
        assert parent is not None
        return parent.cmdline()

    def family(self) -> list[psutil.Process]:
        """Return all of its processes."""
        return [self._all, *self._all.children(recursive=True)]

    def stop(self) -> int:
        """Stop it as a user does; return what it returns."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


@contextmanager
def running(world: World, here: Path, *properties: str) -> Generator[Started]:
    """Run the program; nothing of it is left."""
    (here / "program.py").write_text(PROGRAM)
    topics = [world.topic(end) for end in ("in", "out")]
    words = [world.name, world.broker.bootstrap_servers, str(here), *topics, *properties]
    command = [sys.executable, str(here / "program.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as run:
        started = Started(run)
        try:
            yield started
        finally:
            family = started.family() if run.poll() is None else []
            run.kill()
            (here / "gate").touch()
            assert any(looks(lambda: all(map(is_gone, family))))


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def counts(world: World) -> dict[str, int]:
    """Return the last count of each word."""
    return world.numbers(f"{world.name}.out")


def feed(world: World, count: int) -> Counter[str]:
    """Send words; return how many of each."""
    words = [f"w{number % 7}" for number in range(count)]
    world.send(world.topic("in"), [("k", word) for word in words])
    return Counter(words)


def test_spark_goes_on_where_the_first_worker_was(world: World, tmp_path: Path) -> None:
    """The parent of the workers has made it; it leaves when Spark has others."""
    sent = feed(world, 60)
    with running(world, tmp_path) as app:
        (first,) = app.next("epoch")
        assert "mustela.spark.daemon" in app.parent_of(first)
        assert counts(world) == sent
        early = psutil.Process(int(first))
        (tmp_path / "gate").touch()
        pids = {first}
        while pids == {first}:
            sent += feed(world, 60)
            pids = set(app.next("epoch"))
        assert first not in pids
        assert is_gone(early)
        assert app.stop() == 0
    assert counts(world) == sent


def test_a_worker_that_dies_is_followed_by_sparks(world: World, tmp_path: Path) -> None:
    """What it was at runs again, whole."""
    sent = feed(world, 20)
    world.send(world.topic("in"), [("k", "kill")])
    with running(world, tmp_path) as app:
        assert app.next("error") == ["EPOCH_JOB"]
        (tmp_path / "gate").touch()
        assert app.next("epoch")
        assert app.stop() == 0
    assert counts(world) == {**sent, "kill": 1}


def test_what_was_done_stays_done_where_spark_cannot_start(world: World, tmp_path: Path) -> None:
    """The application ends with Spark's error, and the next start goes on."""
    (tmp_path / "fails").touch()
    sent = feed(world, 20)
    with running(world, tmp_path) as app:
        assert app.next("epoch")
        (tmp_path / "gate").touch()
        family = app.family()
        sent += feed(world, 20)
        assert app.process.wait(PATIENCE_S) != 0
        assert any(looks(lambda: all(map(is_gone, family))))
    (tmp_path / "fails").unlink()
    with running(world, tmp_path) as app:
        sent += feed(world, 20)
        assert any(looks(lambda: counts(world) == sent))
        assert app.stop() == 0
    assert counts(world) == sent


def test_nothing_is_left_of_a_driver_that_is_killed_before(world: World, tmp_path: Path) -> None:
    """Neither the worker nor its parent nor the JVM; and state that it left is used."""
    sent = feed(world, 20)
    with running(world, tmp_path) as app:
        assert app.next("epoch")
        family = app.family()
        assert len(family) >= 4
        app.process.kill()
        assert any(looks(lambda: all(map(is_gone, family))))
    (tmp_path / "gate").unlink()
    with running(world, tmp_path) as app:
        sent += feed(world, 20)
        assert app.next("epoch")
        assert counts(world) == sent


def test_it_restores_what_is_gone(world: World, tmp_path: Path) -> None:
    """From changelogs, alone."""
    sent = feed(world, 60)
    with running(world, tmp_path) as app:
        assert app.next("epoch")
        (tmp_path / "gate").touch()
        assert app.stop() == 0
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "gate").unlink()
    with running(world, tmp_path) as app:
        sent += feed(world, 60)
        assert app.next("epoch")
        assert counts(world) == sent


def test_what_a_user_has_told_spark_of_workers_holds(world: World, tmp_path: Path) -> None:
    """Then there are none before Spark's."""
    feed(world, 7)
    (tmp_path / "gate").touch()
    with running(world, tmp_path, "spark.executorEnv.ENDING=!") as app:
        assert app.next("epoch")
        assert app.stop() == 0
    assert counts(world) == {f"w{number}!": 1 for number in range(7)}
