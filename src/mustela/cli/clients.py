"""Kafka clients for commands, and a reader that follows a topic."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mustela.cli.settings import loose_settings

if TYPE_CHECKING:
    from mustela.connectors.kafka.admin import KafkaAdmin
    from mustela.connectors.kafka.plain import PlainSink
    from mustela.plan.ranges import RawChunk

__all__ = ["Follower", "PartitionChunk", "open_admin", "open_sink"]

REQUEST_TIMEOUT_S = 15.0


@contextmanager
def open_admin(bootstrap_servers: str | None = None) -> Generator[KafkaAdmin]:
    """Give the admin client of the settings, and close it after."""
    from mustela.config.clients import client_properties
    from mustela.connectors.kafka.admin import KafkaAdmin

    settings = loose_settings(bootstrap_servers=bootstrap_servers)
    admin = KafkaAdmin(client_properties(settings, "admin"), timeout=REQUEST_TIMEOUT_S)
    try:
        yield admin
    finally:
        admin.close()


@contextmanager
def open_sink(bootstrap_servers: str | None = None) -> Generator[PlainSink]:
    """Give a producer of the settings, and close it after; the user flushes it."""
    from mustela.config.clients import client_properties
    from mustela.connectors.kafka.plain import PlainSink

    settings = loose_settings(bootstrap_servers=bootstrap_servers)
    sink = PlainSink(client_properties(settings, "producer"), send_timeout=REQUEST_TIMEOUT_S)
    try:
        yield sink
    finally:
        sink.close()


@dataclass(frozen=True, slots=True)
class PartitionChunk:
    """Records of one partition.

    Attributes:
        partition: The partition.
        rows: Its records, as columns.
    """

    partition: int
    rows: RawChunk


class Follower:
    """Reads a topic read_committed, each time from where it stopped, and never waits for more.

    Args:
        topic: The topic.
        bootstrap_servers: The brokers; by default those of the settings.
        from_beginning: Start at the first record; else behind the last one that is there now.
        from_ms: Start at the first record of this time or later instead, in milliseconds.
    """

    def __init__(
        self,
        topic: str,
        bootstrap_servers: str | None = None,
        *,
        from_beginning: bool = True,
        from_ms: int | None = None,
    ) -> None:
        from mustela.config.clients import client_properties
        from mustela.connectors.kafka.admin import KafkaAdmin
        from mustela.connectors.kafka.ranges import RangeReader

        settings = loose_settings(bootstrap_servers=bootstrap_servers)
        self._topic = topic
        self._admin = KafkaAdmin(client_properties(settings, "admin"), timeout=REQUEST_TIMEOUT_S)
        self._reader = RangeReader(client_properties(settings, "consumer"))
        self._from_beginning = from_beginning
        self._from_ms = from_ms
        self._next: dict[int, int] = {}

    def exists(self) -> bool:
        """Whether the topic is there by now."""
        return bool(self._admin.describe([self._topic]))

    def start(self) -> None:
        """Note where to begin.

        Raises:
            MissingTopicError: If there is no such topic.
        """
        places = self._places()
        if self._from_ms is not None:
            found = self._admin.offsets_for_times(dict.fromkeys(places, self._from_ms))
            ends = self._admin.end_offsets(places)
            first = {at: ends[at] if offset is None else offset for at, offset in found.items()}
        elif self._from_beginning:
            first = self._admin.earliest_offsets(places)
        else:
            first = self._admin.end_offsets(places)
        self._next = {place.partition: offset for place, offset in first.items()}

    def read(self) -> Iterator[PartitionChunk]:
        """Read what can be read now."""
        if not self._next:
            self.start()
        ends = self._admin.end_offsets(self._places())
        for place, end in sorted(ends.items()):
            start = self._next.setdefault(place.partition, 0)
            if start >= end:
                continue
            for chunk in self._reader.read(self._topic, place.partition, start, end):
                if chunk.offsets:
                    self._next[place.partition] = chunk.offsets[-1] + 1
                    yield PartitionChunk(place.partition, chunk)
            self._next[place.partition] = end

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._admin.close()

    def _places(self) -> list[tuple[str, int]]:
        return [(self._topic, part) for part in range(self._admin.partitions(self._topic))]
