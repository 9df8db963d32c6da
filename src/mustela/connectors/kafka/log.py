"""Reading logs to a known end: changelogs, and the last record of the epochs topic."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, Protocol, cast

from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.errors import OffsetOutOfRange
from mustela.connectors.kafka.ranges import BITE, CHUNK_RECORDS, RangeReader
from mustela.model import TopicPartition
from mustela.plan.ranges import RawChunk

__all__ = [
    "LastRecord",
    "Offsets",
    "read_between",
    "read_chunks",
    "read_last_record",
    "read_newest_first",
]

FIRST_STEP = 64


class LastRecord(NamedTuple):
    """A record of the epochs topic.

    Attributes:
        offset: Its offset.
        key: Its key.
        value: Its value.
        timestamp: Milliseconds.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class Offsets(Protocol):
    """Says where logs begin and end."""

    def end_offsets(self, places: Iterable[tuple[str, int]]) -> Mapping[TopicPartition, int]:
        """Return the last stable offset of each partition."""
        ...

    def earliest_offsets(self, places: Iterable[tuple[str, int]]) -> Mapping[TopicPartition, int]:
        """Return the first offset that each partition still holds."""
        ...


def read_newest_first(
    properties: Mapping[str, Any],
    topic: str,
    partition: int = 0,
    *,
    timeout: float = 30.0,
    offsets: Offsets,
) -> Generator[LastRecord]:
    """Yield the committed records of a partition, the last one first.

    Control records and aborted data at the end are passed over, however many there are: from the
    end the reader steps back by more and more.

    Args:
        properties: Client properties.
        topic: The topic.
        partition: Its partition.
        timeout: Seconds without progress.
        offsets: Answers where the log begins and ends.
    """
    place = (topic, partition)
    (stop,) = offsets.end_offsets([place]).values()
    if stop == 0:
        return
    (earliest,) = offsets.earliest_offsets([place]).values()
    reader = RangeReader(properties, read_timeout=timeout)
    step = FIRST_STEP
    try:
        while stop > earliest:
            start = max(earliest, stop - step)
            for chunk in reversed(list(reader.read(topic, partition, start, stop))):
                rows = zip(chunk.offsets, chunk.keys, chunk.values, chunk.timestamps, strict=True)
                for row in reversed(list(rows)):
                    yield LastRecord(*row)
            stop, step = start, step * 8
    finally:
        reader.close()


def read_last_record(
    properties: Mapping[str, Any],
    topic: str,
    partition: int = 0,
    *,
    timeout: float = 30.0,
    admin: KafkaAdmin | None = None,
) -> LastRecord | None:
    """Return the last committed record of a partition, or None if it has none.

    Args:
        properties: Client properties.
        topic: The topic.
        partition: Its partition.
        timeout: Seconds without progress.
        admin: Answers where the log begins and ends; by default a new one.
    """
    asked = admin or KafkaAdmin(properties, timeout=timeout)
    rows = read_newest_first(properties, topic, partition, timeout=timeout, offsets=asked)
    try:
        return next(rows, None)
    finally:
        rows.close()
        if admin is None:
            asked.close()


def read_chunks(  # noqa: PLR0913 - a range, its limits, and how it is handed over
    properties: Mapping[str, Any],
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    timeout: float = 30.0,
    bare: bool = False,
    on_lost: Callable[[int, int], None] | None = None,
) -> Iterator[RawChunk]:
    """Read what a compacted topic still holds between two offsets.

    Compaction never moves the beginning of a log: where it lies behind ``start``, the broker has
    deleted records, and who reads may not be able to do without them.

    Args:
        properties: Client properties.
        topic: The topic.
        partition: Its partition.
        start: First offset.
        end: Offset behind the last record that is wanted.
        timeout: Seconds without progress.
        bare: Leave out timestamps and headers.
        on_lost: Is told, where the log begins behind the offset that is to be read, that offset
            and the first one that is left; unless it raises, reading goes on from there.
    """
    reader = RangeReader.shared(properties, read_timeout=timeout)
    limit = BITE if bare else CHUNK_RECORDS  # who wants bare rows looks at them at once
    position = start
    while position < end:
        try:
            chunks = reader.read(topic, partition, position, end, max_batch=limit, bare=bare)
            for chunk in chunks:
                position = chunk.offsets[-1] + 1
                yield chunk
        except OffsetOutOfRange as error:
            earliest = error.fields["earliest"]
            if earliest is None or earliest <= position:
                raise  # the log ends too early
            if on_lost is not None:
                on_lost(position, earliest)
            position = earliest
        else:
            return


def read_between(  # noqa: PLR0913 - a range, its limits, and who is told
    properties: Mapping[str, Any],
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    timeout: float = 30.0,
    on_chunk: Callable[[int], None] | None = None,
    on_lost: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[bytes, bytes | None]]:
    """Read keys and values of a changelog exactly up to ``end``; see `read_chunks`.

    Args:
        properties: Client properties.
        topic: The changelog.
        partition: Its partition.
        start: First offset.
        end: Offset behind the last record.
        timeout: Seconds without progress.
        on_chunk: Is told how many records have come, chunk by chunk.
        on_lost: Is told what the log no longer holds; see `read_chunks`.
    """

    def rows(chunk: RawChunk) -> Iterable[tuple[bytes, bytes | None]]:
        if on_chunk is not None:
            on_chunk(len(chunk.keys))
        found = zip(chunk.keys, chunk.values, strict=True)
        if None in chunk.keys:
            return [(key, value) for key, value in found if key is not None]
        return cast("Iterable[tuple[bytes, bytes | None]]", found)

    chunks = read_chunks(
        properties, topic, partition, start, end, timeout=timeout, bare=True, on_lost=on_lost
    )
    return chain.from_iterable(map(rows, chunks))  # no Python frame for each of many rows
