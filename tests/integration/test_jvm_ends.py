"""The JVM of an application ends, killed or starved, while the application rests or works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.app_world import World
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from datetime import timedelta
from pyspark import SparkContext
from mustela import App
from mustela.runtime.events import AppState

bootstrap, source, sink, state = sys.argv[1:]
SOON = timedelta(seconds=300)
told = []


def deadly(value):
    jvm = Path(state + ".jvm")
    if value == "kill" and jvm.exists():
        number = int(jvm.read_text())
        jvm.unlink()
        os.kill(number, signal.SIGKILL)
    return value


def build(builder):
    groups = builder.stream(source, key=str, value=str).map_values(deadly).group_by_key()
    groups.count(store="counts").to_stream().to(sink, key=str, value=int)


class Watcher:
    def __init__(self):
        self.records = 0

    def on_event(self, event):
        self.records += getattr(event, "records", 0) if hasattr(event, "epoch") else 0

    def on_error(self, error):
        if error.code not in told:  # an application that rests may notice more than once
            told.append(error.code)
            print("error", error.code, flush=True)


def new_app():
    app = App("ends", bootstrap_servers=bootstrap, state_dir=state, commit_interval="20ms")
    app.topology(build)
    watcher = Watcher()
    app.add_listener(watcher)
    app.start()
    assert app.wait_until(AppState.RUNNING, SOON), app.error
    return app, watcher


first, watcher = new_app()
deadline = time.monotonic() + 800
while watcher.records < 3 or first._life.engine._before is not None:  # no epoch waits for Spark
    assert time.monotonic() < deadline
    time.sleep(0.02)
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
SparkContext._gateway.proc.wait()
assert first.close(SOON)
print("closed", first.state.value, first.error, flush=True)
second, watcher = new_app()
print("again", flush=True)
input()
while watcher.records < 1:
    assert time.monotonic() < deadline
    time.sleep(0.02)
assert second.close(SOON)
print("closed", second.state.value, second.error, flush=True)
third, watcher = new_app()
answers = ["restart", "shutdown"]
third.uncaught_exception_handler(lambda error: answers.pop(0))
Path(state + ".jvm").write_text(str(SparkContext._gateway.proc.pid))
print("armed", flush=True)
input()
while watcher.records < 2:
    assert time.monotonic() < deadline
    time.sleep(0.02)
print("in place", *(change.state.value for change in third.history[3:]), flush=True)
Path(state + ".jvm").write_text(str(SparkContext._gateway.proc.pid))
print("armed again", flush=True)
input()
assert third.wait(SOON)
print("ended", third.state.value, third.error.code, third.error.evidence["jvm"], flush=True)
assert third.restart(SOON), third.error
while watcher.records < 3:
    assert time.monotonic() < deadline
    time.sleep(0.02)
assert third.close(SOON)
print("closed", third.state.value, third.error, flush=True)
"""


def test_an_application_without_its_jvm_is_closed_and_can_be_started_again(
    world: World, tmp_path: Path
) -> None:
    """Nothing is said of a bug of Mustela's, nothing is lost, and the process needs no restart.

    Nor does anybody have to start it again, if its handler of uncaught errors says so.
    """
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("a", "1"), ("b", "1"), ("a", "2")])
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    told = tmp_path / "stderr"
    words = [world.broker.bootstrap_servers, source, sink, str(tmp_path / "state")]
    with told.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(program), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            seen: list[str] = []
            while not seen or (seen[-1] != "again" and seen[-1] != ""):
                seen.append(process.stdout.readline().strip())
            assert seen[-1] == "again", (seen, told.read_text())
            world.send(source, [("a", "3")])
            process.stdin.write("go\n")
            process.stdin.flush()
            while seen[-1] not in {"armed", ""}:
                seen.append(process.stdout.readline().strip())
            assert seen[-1] == "armed", (seen, told.read_text())
            world.send(source, [("a", "4"), ("b", "kill")])
            process.stdin.write("go\n")
            process.stdin.flush()
            while seen[-1] not in {"armed again", ""}:
                seen.append(process.stdout.readline().strip())
            assert seen[-1] == "armed again", (seen, told.read_text())
            world.send(source, [("b", "kill")])
            rest, _ = process.communicate("go\n", timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 0, told.read_text()
    assert seen == [
        "error SPARK_DIED",
        "closed stopped None",
        "again",
        "closed stopped None",
        "armed",
        "in place draining starting restoring running",
        "armed again",
    ]
    assert rest.splitlines() == ["ended failed SPARK_DIED killed by 9", "closed stopped None"]
    assert "/mustela/" not in told.read_text()  # PySpark's accumulator server prints its own
    counts = {row.key: int.from_bytes(row.value or b"", "big") for row in world.rows(sink)}
    assert counts == {b"a": 4, b"b": 3}
