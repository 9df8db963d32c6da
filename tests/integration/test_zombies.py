"""An instance that stood still while another one took over, on a real broker: SIGSTOP, SIGCONT."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.integration.app_world import World
from tests.integration.instances import Instance
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


def started(world: World, source: str, sink: str, role: str) -> Instance:
    """Start one; all have the same directory."""
    place = world.directory
    words = (world.name, world.broker.bootstrap_servers, source, sink, str(place), role)
    return Instance(PROGRAM, *words, output=place / f"{role}.txt")


def test_at_least_once_an_instance_that_stood_still_sends_no_old_row_after_a_newer_one(
    world: World,
) -> None:
    """Rows of tasks are in no transaction that a broker could fence: the task looks by itself."""
    place: Path = world.directory
    source, sink = world.topic("in"), world.topic("out")
    instances = [started(world, source, sink, "first")]
    try:
        world.send(source, [("k", "old")])
        world.until((place / "at-work").exists, "the first instance is at work")
        instances[0].signal(signal.SIGSTOP)
        instances.append(started(world, source, sink, "second"))
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
