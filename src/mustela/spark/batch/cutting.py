"""Where epochs are cut: at moments, so that all partitions reach the same time together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from mustela.model import TopicPartition
from mustela.spark.batch.segments import PartitionIndex

__all__ = ["Cut", "Cutter"]


class Cut(NamedTuple):
    """What an epoch reads.

    Attributes:
        ends: Offset after the last record, for each partition.
        until: No partition has unread records before this time.
    """

    ends: dict[TopicPartition, int]
    until: int


class Cutter:
    """Cuts epochs of about a number of records, each at a moment.

    Only if one moment has more records than that, it is cut inside.

    Args:
        indexes: The times of each partition.
        records: About how many records an epoch reads.
    """

    def __init__(self, indexes: Mapping[TopicPartition, PartitionIndex], records: int) -> None:
        self._indexes = indexes
        self._records = records
        self._moments = sorted({top for index in indexes.values() for top in index.tops})

    def cut(self, read: Mapping[TopicPartition, int]) -> Cut:
        """Return the next epoch.

        Args:
            read: Offset after the last record read, for each partition.
        """
        indexes = self._indexes
        left = sum(index.size - read[place] for place, index in indexes.items())
        if left <= self._records:
            return self._all()
        low = min(
            index.time_at(read[place])
            for place, index in indexes.items()
            if read[place] < index.size
        )
        first = bisect_right(self._moments, low)
        if first == len(self._moments):
            return self._inside(read, low)
        best, last = first, len(self._moments) - 1
        while best < last:
            middle = (best + last + 1) // 2
            if self._about(read, self._moments[middle]) <= self._records:
                best = middle
            else:
                last = middle - 1
        moment = self._moments[best]
        ends = {
            place: max(read[place], index.offset_at(moment)) for place, index in indexes.items()
        }
        return Cut(ends, moment)

    def _all(self) -> Cut:
        ends = {place: index.size for place, index in self._indexes.items()}
        return Cut(ends, self._moments[-1] if self._moments else -1)

    def _about(self, read: Mapping[TopicPartition, int], moment: int) -> int:
        sizes = (index.about(moment) - read[place] for place, index in self._indexes.items())
        return sum(max(0, size) for size in sizes)

    def _inside(self, read: Mapping[TopicPartition, int], moment: int) -> Cut:
        """Cut in the last moment, in the order of the partitions."""
        room = self._records
        ends: dict[TopicPartition, int] = {}
        for place, index in self._indexes.items():
            taken = min(room, index.size - read[place])
            ends[place] = read[place] + taken
            room -= taken
        return Cut(ends, moment)
