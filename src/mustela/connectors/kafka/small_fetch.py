"""Messages into columns, and small ranges of many partitions that one consumer fetches together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, Message

from mustela.plan.ranges import RawChunk

__all__ = [
    "TOGETHER_RECORDS_MAX",
    "Fetched",
    "OffsetRange",
    "SmallFetch",
    "append_bare",
    "append_full",
]

TOGETHER_RECORDS_MAX: Final = 4_000
"""So many records of all partitions are fetched together; of more each read costs little."""

_BYTES_MAX: Final = 16 << 20
_BITE: Final = 1_000
_WAIT_S: Final = 0.1
_PATIENCE_S: Final = 0.5


class OffsetRange(NamedTuple):
    """Offsets of one topic partition, up to and without ``end``."""

    topic: str
    partition: int
    start: int
    end: int


class Fetched(NamedTuple):
    """The first records of a range.

    Attributes:
        chunk: They.
        position: From where on the rest of the range is to be read; its end if there is none.
    """

    chunk: RawChunk
    position: int


class SmallFetch:
    """Fetches ranges of several partitions with one consumer, which has them assigned.

    Whatever is not a record or the end of a partition ends it, and so does too long a silence: what
    has come until then stands.

    Args:
        consumer: The consumer.
        wanted: The ranges, one of each partition at most.

    Attributes:
        found: What has come of each range.
        is_sound: Whether the consumer can be used on.
    """

    def __init__(self, consumer: Consumer, wanted: Iterable[OffsetRange]) -> None:
        self._consumer = consumer
        self._left = {(one.topic, one.partition): one for one in wanted}
        self.found = {one: Fetched(RawChunk(), one.start) for one in self._left.values()}
        self.is_sound = True

    def run(self) -> None:
        """Fetch."""
        consume, heard, size = self._consumer.consume, perf_counter(), 0
        while self._left and self.is_sound and size < _BYTES_MAX:
            messages = consume(_BITE, 0) or consume(1, _WAIT_S)
            if messages:
                size += sum(map(len, messages))
                self._take(messages)
                heard = perf_counter()
            elif perf_counter() - heard > _PATIENCE_S:
                return

    def _take(self, messages: Sequence[Message]) -> None:
        records: dict[tuple[Any, Any], list[Message]] = {}
        ends: dict[tuple[Any, Any], int] = {}
        for message in messages:
            place, error = (message.topic(), message.partition()), message.error()
            if error is None:
                records.setdefault(place, []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # pyright: ignore[reportPrivateUsage]
                # It stands behind all data, so nothing before its offset is still to come.
                ends[place] = message.offset() or 0
            else:
                self.is_sound = False
                break  # what follows may not follow what came before
        for place, some in records.items():
            self._add(place, some)
        for place, end in ends.items():
            self._reach(place, end)

    def _add(self, place: tuple[Any, Any], messages: Sequence[Message]) -> None:
        one = self._left.get(place)
        if one is None:
            return
        chunk, position = self.found[one]
        if (messages[0].offset() or 0) < position:
            self.is_sound = False
            return
        append_full(chunk, messages)
        self._reach(place, chunk.offsets[-1] + 1)

    def _reach(self, place: tuple[Any, Any], position: int) -> None:
        one = self._left.get(place)
        if one is None or position <= self.found[one].position:
            return
        chunk = self.found[one].chunk
        if position >= one.end:
            chunk.cut(bisect_left(chunk.offsets, one.end))
            position = one.end
            del self._left[place]
        self.found[one] = Fetched(chunk, position)


_OFFSET = Message.offset
_KEY = Message.key
_VALUE = Message.value
_TIMESTAMP = Message.timestamp
_HEADERS = Message.headers


def append_full(chunk: RawChunk, messages: Sequence[Message]) -> None:
    """Add records to a chunk. This is the hot path of every read."""
    before = len(chunk.offsets)
    append_bare(chunk, messages)
    chunk.timestamps += [stamp for _, stamp in map(_TIMESTAMP, messages)]
    headers: list[Any] = list(map(_HEADERS, messages))
    if chunk.headers is not None or any(headers):
        if chunk.headers is None:
            chunk.headers = [()] * before
        chunk.headers += [tuple(some) if some else () for some in headers]


def append_bare(chunk: RawChunk, messages: Sequence[Message]) -> None:
    """Do the same without times and headers."""
    # The client's stub allows None, which only an event's offset can be.
    chunk.offsets += cast("Iterator[int]", map(_OFFSET, messages))
    chunk.keys += map(_KEY, messages)
    chunk.values += map(_VALUE, messages)
    epoch = messages[-1].leader_epoch()
    chunk.leader_epoch = -1 if epoch is None else epoch
