"""The rows of source partitions in an epoch record, made anew only where something has changed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress, count, product, repeat
from operator import attrgetter, ne

from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.runtime.epoch_record import PartitionState
from mustela.runtime.watermark import PartitionTime

__all__ = ["PartitionRows", "partition_row"]

_STAMP = attrgetter("max_timestamp")
_IDLE = attrgetter("idle")
_ANY = frozenset(product((False, True), repeat=4)) - {(False,) * 4}
_NO_ROW = PartitionState("", -1, -1)


def partition_row(place: TopicPartition, at: LogPosition, time: PartitionTime) -> PartitionState:
    """Return what the record says of a partition; when it was seen says nothing to another run."""
    return PartitionState(
        *place, at.offset, time.max_timestamp, 0, time.idle, leader_epoch=at.leader_epoch
    )


class PartitionRows:
    """Makes the rows of one record after the other.

    A row that says what it said in the record before is the same object: with many partitions of
    which few are read, most of a record is neither made again nor compared.
    """

    def __init__(self) -> None:
        self._places: list[TopicPartition] = []
        self._order: list[int] = []
        self._said: tuple[list[int], list[int], list[bool], list[int]] = [], [], [], []
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
            times: The event time of those of which it is known.
            leaders: The leader epoch of those of which it is known.
        """
        places = list(ends)
        found = self._times(places, times)
        led = list(map(leaders.get, places, repeat(-1)))
        now = list(ends.values()), list(map(_STAMP, found)), list(map(_IDLE, found)), led
        if places != self._places:
            self._places = places
            self._order = sorted(range(len(places)), key=places.__getitem__)
            changed = list(range(len(places)))
            self._rows = [_NO_ROW] * len(places)
        else:
            columns = (map(ne, new, old) for new, old in zip(now, self._said, strict=True))
            differs = zip(*columns, strict=True)
            changed = list(compress(count(), map(_ANY.__contains__, differs)))
        rows = self._rows
        for at in changed:
            place = places[at]
            rows[at] = PartitionState(*place, now[0][at], now[1][at], 0, now[2][at], now[3][at])
        self._said = now
        return [rows[at] for at in self._order]

    def _times(
        self, places: list[TopicPartition], times: Mapping[TopicPartition, PartitionTime]
    ) -> list[PartitionTime]:
        if list(times) == places:
            return list(times.values())
        nothing = PartitionTime()
        return [times.get(place, nothing) for place in places]
