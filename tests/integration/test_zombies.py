"""An instance that stood still while another one took over, on a real broker: SIGSTOP, SIGCONT."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.integration.app_world import World
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.crash]
pytest_plugins = [
    "tests.broker_fixture",
    "tests.spark_fixture",
    "tests.integration.app_fixture",
]

PROGRAM = """
import os, sys, time
from pathlib import Path
from mustela import App

name, servers, source, sink, place, role = sys.argv[1:]

def slow(value):
    if role == "first" and value == "old":
        (Path(place) / "at-work").touch()
        while not (Path(place) / "go-on").exists():
            time.sleep(0.02)
    return value

app = App(name, bootstrap_servers=servers, state_dir=f"{place}/{role}",
          processing_guarantee="at_least_once", lease={"interval": "500ms"},
          spark={"spark.master": "local[1]"})

@app.topology
def build(builder):
    builder.stream(source, key=str, value=str).map_values(slow).to(sink, key=str, value=str)

app.run()
"""


class Instance:
    """A process of the application, with all that it starts."""

    def __init__(self, world: World, source: str, sink: str, role: str) -> None:
        place = world.directory
        servers = world.broker.bootstrap_servers
        told = (world.name, servers, source, sink, str(place), role)
        with (place / f"{role}.txt").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *told],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=place,
                start_new_session=True,
            )

    def signal(self, number: int) -> None:
        """Send a signal to every process of it."""
        found = [self.process.pid]
        for other in psutil.process_iter():
            try:
                if os.getsid(other.pid) == self.process.pid:
                    found.append(other.pid)
            except (ProcessLookupError, PermissionError):
                continue
        for pid in {*found}:
            if psutil.pid_exists(pid):
                os.kill(pid, number)


def test_at_least_once_an_instance_that_stood_still_sends_no_old_row_after_a_newer_one(
    world: World,
) -> None:
    """Rows of tasks are in no transaction that a broker could fence: the task looks by itself."""
    place: Path = world.directory
    source, sink = world.topic("in"), world.topic("out")
    instances = [Instance(world, source, sink, "first")]
    try:
        world.send(source, [("k", "old")])
        world.until((place / "at-work").exists, "the first instance is at work")
        instances[0].signal(signal.SIGSTOP)
        instances.append(Instance(world, source, sink, "second"))
        world.until(lambda: world.values(sink) == ["old"], "the second instance took over")
        world.send(source, [("k", "new")])
        world.until(lambda: world.values(sink) == ["old", "new"], "the newer row is there")
        (place / "go-on").touch()
        instances[0].signal(signal.SIGCONT)
        world.until(lambda: instances[0].process.poll() is not None, "the first instance ends")
        assert world.values(sink) == ["old", "new"]
        assert "FENCED" in (place / "first.txt").read_text(encoding="utf-8")
    finally:
        for instance in instances:
            instance.signal(signal.SIGKILL)
            instance.process.wait(PATIENCE_S)
