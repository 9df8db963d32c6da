"""A standby takes over from an instance that stands still or is killed, with Spark and a broker."""

from __future__ import annotations

import signal

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
import sys, threading, time
from pathlib import Path
from mustela import App
from mustela.errors import MustelaError
from mustela.events import Listener

name, servers, source, sink, place = sys.argv[1:]
sys.path.insert(0, place + ".code")
from shop_words import word_of

app = App(name, bootstrap_servers=servers, state_dir=place, standby=True, key_groups=4,
          spark={"spark.master": "local[1]"})

@app.topology
def build(builder):
    words = builder.stream(source, key=str, value=str).group_by(word_of, key=str)
    words.count(store="counts").to_stream().to(sink, key=str, value=int)

class Tells(Listener):
    def on_event(self, event):
        if type(event).__name__ == "StateChanged":
            print("state", event.state.value, flush=True)
        elif type(event).__name__ == "Said":
            print("said", event.text, flush=True)
        elif type(event).__name__ == "Restoring" and event.records:
            print("restored", sum(event.records.values()), flush=True)

app.add_listener(Tells())

def answers():
    ask = Path(place + ".code") / "ask"
    while True:
        if ask.exists():
            ask.unlink()
            try:
                print("said store", app.store("counts").get("w60"), flush=True)
            except MustelaError as error:
                print("said store", error.code, flush=True)
        time.sleep(0.05)

threading.Thread(target=answers, daemon=True).start()
app.run()
"""


MODULE = """
import os
from pathlib import Path

Path(__file__).with_name(f"process-{os.getpid()}").touch()


def word_of(_key, word):
    return word
"""
"""Its function is in a module of its own, which tells where it was imported."""


def started(world: World, source: str, sink: str, role: str) -> Instance:
    """Start one, with a directory of its own."""
    place = world.directory
    code = place / f"{role}.code"
    code.mkdir()
    (code / "shop_words.py").write_text(MODULE, encoding="utf-8")
    words = (world.name, world.broker.bootstrap_servers, source, sink, str(place / role))
    return Instance(PROGRAM, *words, output=place / f"{role}.txt")


def test_no_row_is_lost_or_doubled_when_a_standby_takes_over_and_nothing_is_restored(
    world: World,
) -> None:
    """One that stood still is fenced, becomes the standby, and takes over from the next."""
    source, sink = world.topic("words", partitions=2), world.topic("out")
    expected: dict[str, int] = {}

    def send(words: range) -> None:
        world.send(source, [(None, f"w{n}") for n in words])
        for n in words:
            expected[f"w{n}"] = expected.get(f"w{n}", 0) + 1

    def is_counted() -> bool:
        return world.numbers(sink) == expected

    first = started(world, source, sink, "first")
    instances = [first]
    try:
        send(range(500))
        world.until(is_counted, "the first instance counts")
        second = started(world, source, sink, "second")
        instances.append(second)
        world.until(lambda: "state standby" in second.lines, "the second one waits")
        send(range(100, 900))
        world.until(is_counted, "the first one goes on")
        world.until(lambda: (world.directory / "second").exists(), "the second one follows")
        others = {f"process-{second.process.pid}", "shop_words.py", "__pycache__"}
        code = world.directory / "second.code"
        world.until(
            lambda: {path.name for path in code.iterdir()} - others,
            "a worker of the second one has the program",
        )

        def is_read() -> bool:
            (code / "ask").touch()
            return f"store {expected['w60']}" in second.told

        world.until(is_read, "the second one reads what the first one has committed")
        assert second.lines[-1] == "state standby"
        first.signal(signal.SIGSTOP)
        send(range(300))
        world.until(is_counted, "the second one took over")
        first.signal(signal.SIGCONT)
        world.until(lambda: "state standby" in first.lines, "the first one waits")
        send(range(200, 400))
        world.until(is_counted, "the second one goes on")
        second.signal(signal.SIGKILL)
        send(range(50, 250))
        world.until(is_counted, "the first one took over again")
        assert first.lines[-1] == "state running"
        counts = [
            int.from_bytes(row.value or b"", "big") for row in world.rows(sink) if row.key == b"w60"
        ]
        assert counts == list(range(1, expected["w60"] + 1))
        (told,) = [line for line in second.told if line.startswith("took over in")]
        parts = [part.rpartition(" ")[0] for part in told.partition(": ")[2].split(", ")]
        assert parts[:4] == ["silence", "report", "engine", "claim"]
        assert parts[4:] == ["catch-up", "check", "wait", "first-epoch", "commit"]
        assert [line for line in second.lines if line.startswith("restored")] == []
    finally:
        for instance in instances:
            instance.signal(signal.SIGKILL)
            instance.process.wait(PATIENCE_S)
