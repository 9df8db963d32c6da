"""The rows of source partitions in an epoch record, rebuilt only where something changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress, count, product, repeat
from operator import attrgetter, ne
from typing import Any

from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.runtime.record.epoch_record import PartitionState
from mustela.runtime.time.watermark import PartitionTime

__all__ = ["PartitionRows", "partition_row"]

_TOPIC, _PARTITION = attrgetter("topic"), attrgetter("partition")
_STAMP = attrgetter("max_timestamp")
_IDLE = attrgetter("idle")
_ANY = frozenset(product((False, True), repeat=4)) - {(False,) * 4}
_NO_ROW = PartitionState("", -1, -1)

_Columns = tuple[list[int], list[int], list[bool], list[int]]
"""Next offsets, largest timestamps, idleness, leader epochs."""


def partition_row(place: TopicPartition, at: LogPosition, time: PartitionTime) -> PartitionState:
    """Return a partition's row in the record; it omits the time it was last seen."""
    return PartitionState(
        *place, at.offset, time.max_timestamp, 0, time.idle, leader_epoch=at.leader_epoch
    )


class PartitionRows:
    """Builds the rows of successive records.

    A row that has not changed since the previous record is the same object: with many partitions of
    which few are read, most of a record is neither rebuilt nor compared.
    """

    def __init__(self) -> None:
        self._places: list[TopicPartition] = []
        self._names: tuple[list[str], list[int]] = [], []
        self._order: list[int] = []
        self._said: _Columns = [], [], [], []
        self._rows: list[PartitionState] = []

    def rows(
        self,
        ends: Mapping[TopicPartition, int],
        times: Mapping[TopicPartition, PartitionTime],
        leaders: Mapping[TopicPartition, int],
    ) -> list[PartitionState]:
        """Return the row of each partition, in the order of their names.

        Args:
            ends: The next offset of each partition.
            times: The event time of those for which it is known.
            leaders: The leader epoch of those for which it is known.
        """
        places = list(ends)
        found = self._times(places, times)
        led = list(map(leaders.get, places, repeat(-1)))
        now = list(ends.values()), list(map(_STAMP, found)), list(map(_IDLE, found)), led
        if places != self._places:
            self._places = places
            self._names = list(map(_TOPIC, places)), list(map(_PARTITION, places))
            self._order = sorted(range(len(places)), key=places.__getitem__)
            changed = list(range(len(places)))
            self._rows = [_NO_ROW] * len(places)
        else:
            columns = (map(ne, new, old) for new, old in zip(now, self._said, strict=True))
            differs = zip(*columns, strict=True)
            changed = list(compress(count(), map(_ANY.__contains__, differs)))
        rows = self._rows
        for at, row in zip(changed, _made(*self._names, now, changed), strict=True):
            rows[at] = row
        self._said = now
        return [rows[at] for at in self._order]

    def _times(
        self, places: list[TopicPartition], times: Mapping[TopicPartition, PartitionTime]
    ) -> list[PartitionTime]:
        if list(times) == places:
            return list(times.values())
        nothing = PartitionTime()
        return [times.get(place, nothing) for place in places]


def _made(
    topics: list[str], partitions: list[int], said: _Columns, which: list[int]
) -> Iterator[PartitionState]:
    """Yield rows; there may be thousands, so no Python code runs per row."""
    if len(which) == len(topics):
        ends, stamps, idle, leaders = said
        return map(PartitionState, topics, partitions, ends, stamps, repeat(0), idle, leaders)

    def some(column: list[Any]) -> Iterator[Any]:
        return map(column.__getitem__, which)

    ends, stamps, idle, leaders = map(some, said)
    names = some(topics), some(partitions)
    return map(PartitionState, *names, ends, stamps, repeat(0), idle, leaders)
