"""A small world for an application: topics of a test's own, to be fed and looked at."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from mustela import App, StreamsBuilder
from mustela.clock import SystemClock
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.ranges import RangeReader
from mustela.model import TopicPartition
from mustela.runtime.events import AppState, EpochDone, Event, Said, StateChanged
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.record.record_rows import RecordFold
from mustela_dev import DevelopmentBroker
from tests.patience import PATIENCE_S, looks

SETTLE_S = 30.0
RESTS = 40
"""So often in a row an application finds nothing to do before it counts as resting: two seconds."""
_NUMBERS = itertools.count()


class Row(NamedTuple):
    """A committed record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: dict[str, bytes | None]
    partition: int
    offset: int


class Watcher:
    """Keeps what an application tells."""

    def __init__(self) -> None:
        self.states: list[AppState] = []
        self.epochs: list[EpochDone] = []
        self.errors: list[BaseException] = []
        self.said: list[str] = []

    def on_event(self, event: Event) -> None:
        """Keep an event."""
        if isinstance(event, StateChanged):
            self.states.append(event.state)
        elif isinstance(event, EpochDone):
            self.epochs.append(event)
        elif isinstance(event, Said):
            self.said.append(event.text)

    def on_error(self, error: BaseException) -> None:
        """Keep an error that is borne."""
        self.errors.append(error)

    def counter(self, name: str) -> int:
        """Return the sum of a counter over all epochs."""
        return sum(epoch.counters.get(name, 0) for epoch in self.epochs)


class HeldClock(SystemClock):
    """The machine's clocks, but the one on the wall stands still until a test moves it."""

    def __init__(self) -> None:
        self._now_ms = super().now_ms()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Move it forward."""
        self._now_ms += milliseconds


class World:
    """Topics, applications and rows of one test.

    Args:
        broker: The session's broker.
        spark: The session's Spark context.
        directory: For state.
        name: Begins the names of topics and applications.
    """

    def __init__(self, broker: DevelopmentBroker, spark: Any, directory: Path, name: str) -> None:
        self.broker = broker
        self.spark = spark
        self.directory = directory
        self.name = f"{name[:40]}-{next(_NUMBERS)}"
        self.properties: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
        self.admin = KafkaAdmin(self.properties)
        # What is sent at once is in one batch of each partition: `flush` does not linger.
        self._producer = Producer({"log_level": 0, "linger.ms": 10_000, **self.properties})
        self._apps: list[App] = []

    def close(self) -> None:
        """Stop what still runs."""
        for app in self._apps:
            app.close()
        self.admin.close()

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Make a topic and return its full name."""
        full = f"{self.name}.{name}"
        settings = {"retention.ms": "-1", **{k.replace("_", "."): v for k, v in config.items()}}
        self.admin.create([TopicSpec(name=full, partitions=partitions, config=settings)])
        return full

    def send(
        self, topic: str, rows: Iterable[tuple[Any, ...]], *, partition: int | None = None
    ) -> None:
        """Send (key, value) or (key, value, timestamp) rows; texts become bytes."""
        place = {} if partition is None else {"partition": partition}
        for key, value, *rest in rows:
            stamp = {"timestamp": rest[0]} if rest else {}
            self._producer.produce(topic, key=key, value=value, **place, **stamp)
        assert self._producer.flush(PATIENCE_S) == 0

    def send_with_headers(self, topic: str, key: Any, value: Any, headers: list[Any]) -> None:
        """Send one row with headers."""
        self._producer.produce(topic, key=key, value=value, headers=headers)
        assert self._producer.flush(PATIENCE_S) == 0

    def settings(self, **more: Any) -> dict[str, Any]:
        """Settings of an application of this test."""
        return {
            "application_id": self.name,
            "bootstrap_servers": self.broker.bootstrap_servers,
            "state_dir": self.directory / "state",
            "key_groups": 4,
            "commit_timeout": 60.0,
            **more,
        }

    def app(self, build: Callable[[StreamsBuilder], Any], **settings: Any) -> tuple[App, Watcher]:
        """Make an application in the session's Spark context; it is closed with the test."""
        app = App(session=self.spark, **self.settings(**settings))
        app.topology(build)
        watcher = Watcher()
        app.add_listener(watcher)
        self._apps.append(app)
        return app, watcher

    def run(self, build: Callable[[StreamsBuilder], Any], **settings: Any) -> Watcher:
        """Run an application until it has read all input, and stop it."""
        app, watcher = self.app(build, **settings)
        with app:
            self.drain(app)
        return watcher

    def fail(self, build: Callable[[StreamsBuilder], Any], **settings: Any) -> Any:
        """Run an application until it ends by itself, and return the error that ended it."""
        app, _ = self.app(build, **settings)
        app.start()
        self.until(lambda: app.state.ended, "the application ends")
        app.close()
        return app.error

    def until(
        self, holds: Callable[[], Any], what: str = "it is so", app: App | None = None
    ) -> Any:
        """Wait until a condition holds; fail at the deadline, or when the application ended."""
        for found in looks(holds):
            if found:
                return found
            if app is not None and app.state is AppState.FAILED and app.error is not None:
                raise app.error
        msg = f"not within {PATIENCE_S:g} s: {what}"
        raise AssertionError(msg)

    def drain(self, app: App) -> None:
        """Wait until an application has committed all that its topics hold now."""
        self.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        assert app.coordinator is not None
        sources = app.coordinator.state.sources.next_offsets
        ends = self.admin.end_offsets(list(sources))

        def committed() -> bool:
            assert app.coordinator is not None
            now = app.coordinator.state.sources.next_offsets
            return all(now[place] >= end for place, end in ends.items())

        self.until(committed, "all input is committed", app)

    def rest(self, app: App) -> None:
        """Wait until an application has found nothing to do, many times in a row.

        It has told of all that it did by then.
        """
        self.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        coordinator: Any = app.coordinator
        run_once, found = coordinator.run_once, [True]

        def noted() -> bool:
            found.append(run_once())
            return found[-1]

        coordinator.run_once = noted
        try:
            self.until(lambda: len(found) > RESTS and not any(found[-RESTS:]), "it rests", app)
        finally:
            coordinator.run_once = run_once

    def _settle(self, places: Sequence[TopicPartition]) -> None:
        """Give the broker time for the markers of a commit: they come after it has returned.

        Not for ever: an application may be writing, or have left a transaction open.
        """
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            if self.admin.end_offsets(places) == self.admin.high_watermarks(places):
                return

    def rows(self, topic: str) -> list[Row]:
        """Return the committed rows of a topic, partition by partition."""
        found: list[Row] = []
        reader = RangeReader(self.properties, read_timeout=PATIENCE_S)
        places = [TopicPartition(topic, n) for n in range(self.admin.partitions(topic))]
        self._settle(places)
        for place, end in self.admin.end_offsets(places).items():
            for chunk in reader.read(topic, place.partition, 0, end, max_batch=10_000):
                headers = chunk.headers or [()] * len(chunk.offsets)
                columns = (chunk.keys, chunk.values, chunk.timestamps, headers, chunk.offsets)
                found += [
                    Row(key, value, stamp, dict(own), place.partition, offset)
                    for key, value, stamp, own, offset in zip(*columns, strict=True)
                ]
        reader.close()
        return found

    def values(self, topic: str) -> list[str]:
        """Return the committed values of a topic as texts."""
        return [(row.value or b"").decode() for row in self.rows(topic)]

    def numbers(self, topic: str) -> dict[str, int]:
        """Return the last number of each key: a topic of counts, read as a table."""
        return {
            (row.key or b"").decode(): int.from_bytes(row.value or b"", "big", signed=True)
            for row in self.rows(topic)
        }

    def records(self) -> list[EpochRecord]:
        """Return every epoch record of the application."""
        rows, fold = self.rows(f"{self.name}-epochs"), RecordFold()
        found = (fold.take(row.value) for row in rows if row.value is not None)
        return [record for record in found if record is not None]
