"""Applications that run inside the test process, over one Spark context, and what they did."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from mustela import App, StreamsBuilder
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.runtime.events import AppState, EpochDone, Event, Restoring
from tests.faults.feed import read_all
from tests.faults.watch import Row
from tests.patience import PATIENCE_S, looks

PARTITIONS = 2
_NUMBERS = itertools.count()


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.epochs: list[EpochDone] = []
        self.restores: list[Restoring] = []
        self.errors: list[BaseException] = []

    def on_event(self, event: Event) -> None:
        """Remember an event."""
        if isinstance(event, EpochDone):
            self.epochs.append(event)
        elif isinstance(event, Restoring):
            self.restores.append(event)

    def on_error(self, error: BaseException) -> None:
        """Remember what is tried again."""
        self.errors.append(error)

    def restored(self) -> int:
        """Return how many changelog records were read, at the start and later."""
        late = sum(sum(r.restored.values()) for e in self.epochs for r in e.reports)
        return late + (sum(self.restores[-1].records.values()) if self.restores else 0)


class Inside:
    """Topics and runs of one application on a broker.

    Args:
        servers: The broker.
        context: The Spark context.
        directory: Where its state lives.
        name: The application.
        outputs: Short names of its output topics.
    """

    def __init__(
        self, servers: str, context: Any, directory: Path, name: str, *outputs: str
    ) -> None:
        self.servers = servers
        self.name = f"{name}-{os.getpid()}-{next(_NUMBERS)}"
        self.state_dir = directory / "state"
        self.settings: dict[str, Any] = {}
        self.admin = KafkaAdmin({"bootstrap.servers": servers})
        self._context = context
        self._build: Callable[[StreamsBuilder], None] | None = None
        self.input = f"{self.name}.in"
        self.create("in")
        for output in outputs or ("out",):
            self.create(output)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "partitioner": "murmur2_random",
                "linger.ms": 10_000,  # what is sent at once is one batch: `flush` does not linger
                "log_level": 0,
            }
        )

    def close(self) -> None:
        """Let go of the broker."""
        self.admin.close()

    def create(self, short: str, **config: str) -> str:
        """Create a topic; underscores in settings stand for dots."""
        topic = f"{self.name}.{short}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create([TopicSpec(name=topic, partitions=PARTITIONS, config=settings)])
        return topic

    def build(self, build: Callable[[StreamsBuilder, str], None]) -> None:
        """Say what the application does."""
        self._build = lambda builder: build(builder, self.name)

    def send(
        self, records: Iterable[tuple[str | None, str]], *, timestamp: int | None = None
    ) -> None:
        """Write input."""
        more: dict[str, Any] = {} if timestamp is None else {"timestamp": timestamp}
        for key, value in records:
            self._producer.produce(self.input, value, key=key, **more)
        assert self._producer.flush(PATIENCE_S) == 0

    def produce(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Write one record anywhere."""
        self._producer.produce(topic, value, key=key)
        assert self._producer.flush(PATIENCE_S) == 0

    def app(self, **settings: Any) -> tuple[App, Heard]:
        """Make a run of the application, with a listener."""
        assert self._build is not None
        given: dict[str, Any] = {
            "bootstrap_servers": self.servers,
            "state_dir": str(self.state_dir),
            "key_groups": 8,
            "commit_interval": "20ms",
            "commit_timeout": "60s",
            **self.settings,
            **settings,
        }
        app = App(self.name, session=self._context, **given)
        app.topology(self._build)
        heard = Heard()
        app.add_listener(heard)
        return app, heard

    def ends(self) -> dict[TopicPartition, int]:
        """Return where the input ends."""
        places = [(self.input, partition) for partition in range(PARTITIONS)]
        return {TopicPartition(*place): n for place, n in self.admin.end_offsets(places).items()}

    def await_caught_up(self, app: App, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the application has committed all input; raise what ended it."""
        ends = self.ends()

        def reached() -> bool:
            coordinator = app.coordinator
            known: Mapping[TopicPartition, int] = (
                {} if coordinator is None else coordinator.state.sources.next_offsets
            )
            return all(known.get(place, -1) >= end for place, end in ends.items())

        await_condition(reached, app, timeout_s)

    def run(self, **settings: Any) -> Heard:
        """Run until all input is committed, and stop cleanly."""
        app, heard = self.app(**settings)
        with app:
            self.await_caught_up(app)
        return heard

    def fail(self, timeout_s: float = PATIENCE_S, **settings: Any) -> MustelaError:
        """Run until the application ends with an error, and return that."""
        app, _ = self.app(**settings)
        app.start()
        try:
            assert app.wait(timedelta(seconds=timeout_s)), "the application goes on"
        finally:
            with suppress(MustelaError):
                app.close()
        assert isinstance(app.error, MustelaError), app.error
        return app.error

    def rows(self, short: str = "out") -> list[Row]:
        """Return the committed rows of an output topic."""
        found = read_all(self.servers, f"{self.name}.{short}", PARTITIONS)
        return [row for rows in found.values() for row in rows]

    def table(self, short: str = "out") -> dict[bytes | None, bytes | None]:
        """Return the last value of each key of an output topic."""
        return {row.key: row.value for row in self.rows(short)}


def await_condition(
    reached: Callable[[], bool], app: App | None = None, timeout_s: float = PATIENCE_S
) -> None:
    """Wait until ``reached``; raise what ended the application first."""
    for found in looks(reached, timeout_s):
        if found:
            return
        if app is not None and app.state is AppState.FAILED and app.error is not None:
            raise app.error
    msg = f"it is not so within {timeout_s:g} s"
    raise AssertionError(msg)
