"""What pending timers cost a whole application: ``python -m benchmarks.timers_on_spark``.

Two applications on Spark with a broker, one after the other: the first has a million timers
pending, the second none. Both get the same thousand records again and again; what counts is the
time of the epochs that read them, commits included. Then the one with the timers is started again,
with its state and without it, and at last a part of the timers becomes due. What fires is compared
with what must; a run whose output differs has no number. ``benchmarks.timers`` has the lane stage
alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer

from benchmarks.kafka import QUIET, Topics
from benchmarks.records import TimedRecord
from mustela import App, Record, StreamsBuilder
from mustela.processors import ContextualProcessor, Timer
from mustela.runtime.events import AppState, EpochDone, Event
from mustela_dev import DevelopmentBroker

BASE_MS = 1_760_000_000_000
FAR_MS = BASE_MS + 86_400_000
RECORDS = 1_000
WARM_UP = 5
PARTITIONS = 2
_TIMEOUT_S = 300.0


class Waiting(ContextualProcessor[str, int, str, int]):
    """Sets a timer for the time that a record names; for 0 it does nothing."""

    def process(self, record: Record[str, int]) -> None:
        if record.value:
            self.context.register_event_time_timer(record.value)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        context.forward(timer.with_value(timer.timestamp))


class Epochs:
    """Keeps what an application tells of its epochs."""

    def __init__(self) -> None:
        self.done: list[EpochDone] = []
        self.records = 0

    def on_event(self, event: Event) -> None:
        """Keep an epoch."""
        if isinstance(event, EpochDone):
            self.done.append(event)
            self.records += event.records

    def on_error(self, error: BaseException) -> None:
        """Say that something is tried again."""
        print(error, file=sys.stderr, flush=True)


def timers(count: int) -> Iterator[TimedRecord]:
    """Make records that set a timer each, one millisecond behind the other."""
    for number in range(count):
        yield f"key-{number}".encode(), (FAR_MS + number).to_bytes(8, "big"), BASE_MS


class Bench:
    """An application with its topics.

    Args:
        servers: The broker.
        folder: For state.
        name: The application.
        pending: How many timers it gets.
        cores: For Spark.
    """

    def __init__(self, servers: str, folder: Path, name: str, pending: int, cores: int) -> None:
        self.topics = Topics(servers)
        self._name, self._pending = name, pending
        self._in, self._out = f"{name}.in", f"{name}.out"
        self.topics.fill(self._in, PARTITIONS, timers(pending), lambda _row: None)
        self.topics.create([self._out], PARTITIONS)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, **QUIET})
        self._state = folder / name
        self._settings: dict[str, Any] = {
            "application_id": name,
            "bootstrap_servers": servers,
            "state_dir": self._state,
            "spark": {"spark.master": f"local[{cores}]"},
        }
        self._epochs = Epochs()

    @contextmanager
    def running(self) -> Iterator[float]:
        """Run the application; give the seconds that its start took."""

        def build(builder: StreamsBuilder) -> None:
            stream = builder.stream(self._in, key=str, value=int)
            stream.process(Waiting, name="wait").to(self._out, key=str, value=int)

        app = App(**self._settings)
        app.topology(build)
        self._epochs = Epochs()
        app.add_listener(self._epochs)
        started = time.monotonic()
        with app:
            _until(lambda: app.state is AppState.RUNNING)
            yield time.monotonic() - started

    def lose_state(self) -> None:
        """Delete local state."""
        shutil.rmtree(self._state)

    def drain(self) -> float:
        """Wait until all that sets timers was read; return records for each second of epochs."""
        _until(lambda: self._epochs.records >= self._pending)
        epochs = [epoch for epoch in self._epochs.done if epoch.records]
        steady = epochs[WARM_UP:] or epochs
        return sum(epoch.records for epoch in steady) / sum(epoch.seconds for epoch in steady)

    def turn(self) -> float:
        """Send records that set no timers; return the seconds of the epochs that read them."""
        before, count = len(self._epochs.done), self._epochs.records
        for number in range(RECORDS):
            self._send(number, BASE_MS)
        self._producer.flush(_TIMEOUT_S)
        _until(lambda: self._epochs.records >= count + RECORDS)
        return sum(epoch.seconds for epoch in self._epochs.done[before:])

    def fire(self, count: int) -> float:
        """Let the first timers become due; return how many come out for each second."""
        started = time.monotonic()
        for number in range(RECORDS):  # some of them in each partition
            self._send(number, FAR_MS + count - 1)
        self._producer.flush(_TIMEOUT_S)
        _until(lambda: sum(self.topics.end_offsets(self._out).values()) >= count)
        seconds = time.monotonic() - started
        found = sorted(
            int.from_bytes(v or b"", "big") for _, _, v in self.topics.read([self._out], "")
        )
        assert found == [FAR_MS + number for number in range(count)], "timers are missing or double"
        return count / seconds

    def _send(self, number: int, time_ms: int) -> None:
        self._producer.produce(self._in, key=f"calm-{number}", value=bytes(8), timestamp=time_ms)


def _until(reached: Any) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


def measure(servers: str, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Return figures by name."""
    found: dict[str, float] = {}
    spans: dict[str, list[float]] = {}
    counts = {"pending": given.pending, "none": 0}
    benches = {
        name: Bench(servers, folder, f"timers-{name}", count, given.cores)
        for name, count in counts.items()
    }
    for name, bench in benches.items():
        with bench.running():
            if counts[name]:
                found["registered, timers/s"] = bench.drain()
            spans[name] = [bench.turn() for _ in range(WARM_UP + given.times)][WARM_UP:]
    for name, seconds in spans.items():
        found[f"epoch of {RECORDS} records, {name}, ms"] = 1_000 * median(seconds)
    found["ratio"] = median(spans["pending"]) / median(spans["none"])
    bench = benches["pending"]
    with bench.running() as seconds:
        found["start with state, s"] = seconds
        found["first epoch, s"] = bench.turn()
    bench.lose_state()
    bench = benches["pending"]
    with bench.running() as seconds:
        found["start without state, s"] = seconds
        found["fired, timers/s"] = bench.fire(given.pending // 10)
    return found


def main() -> int:
    """Run, and print a JSON document."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.timers_on_spark", description=__doc__
    )
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mustela-bench-") as name:
        folder = Path(name)
        with DevelopmentBroker(folder / "broker", heap_mb=1_024) as broker:
            found = measure(broker.bootstrap_servers, folder, given)
    print(json.dumps({**vars(given), **{name: round(n, 3) for name, n in found.items()}}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
