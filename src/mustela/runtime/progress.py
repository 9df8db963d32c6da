"""Which offsets have been read, which can be, and how an epoch cuts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mustela.model import TopicPartition
from mustela.plan.epoch import SourceRange

__all__ = ["Cut", "Progress", "assign_ranges"]


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of one partition that one epoch reads.

    Attributes:
        start: First offset.
        end: Offset behind the last one.
        known_end: End of the partition when the cut was made.
    """

    start: int
    end: int
    known_end: int

    @property
    def to_end(self) -> bool:
        """Whether the partition is read to its known end."""
        return self.end >= self.known_end


@dataclass(slots=True)
class Progress:
    """The next offset of every source partition.

    Attributes:
        next_offsets: Offset of the next record to read, by partition.
    """

    next_offsets: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    def lag(self, ends: Mapping[TopicPartition, int]) -> int:
        """Return how many offsets are waiting."""
        return sum(max(0, end - self.next_offsets.get(tp, end)) for tp, end in ends.items())

    def waiting(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Return next offset and end of each partition that has something to read."""
        return {
            tp: (self.next_offsets[tp], end)
            for tp, end in ends.items()
            if tp in self.next_offsets and end > self.next_offsets[tp]
        }

    def cut(self, ends: Mapping[TopicPartition, int], budget: int) -> dict[TopicPartition, Cut]:
        """Return at most ``budget`` offsets to read, the same share of each partition's backlog.

        A share of each backlog, not a number for each, makes partitions of unequal volume that
        cover the same time reach their ends together.
        """
        waiting = self.waiting(ends)
        total = sum(end - start for start, end in waiting.values())
        share = min(1.0, budget / total) if total else 1.0
        cuts: dict[TopicPartition, Cut] = {}
        for tp, (start, end) in waiting.items():
            size = end - start if share >= 1.0 else max(1, int((end - start) * share))
            cuts[tp] = Cut(start, start + size, end)
        return cuts

    def advance(self, cuts: Mapping[TopicPartition, Cut]) -> None:
        """Note that the cuts were committed."""
        for tp, cut in cuts.items():
            self.next_offsets[tp] = cut.end


def assign_ranges(
    cuts: Mapping[TopicPartition, Cut],
    topics: Mapping[str, int],
    floors: Mapping[TopicPartition, int],
    tasks: int,
    *,
    least: int = 1_000,
) -> tuple[tuple[SourceRange, ...], ...]:
    """Share the cuts evenly among at most ``tasks`` tasks, in order of topic, partition, offset.

    A range larger than a task's share is split, so that one partition keeps all cores busy.

    Args:
        cuts: What the epoch reads.
        topics: Index of each topic in the plan.
        floors: Largest timestamp of each partition before this epoch.
        tasks: Number of tasks to fill.
        least: A task gets at least this many offsets, while there are enough.

    Returns:
        For each task its ranges; no task is without one.

    Example:
        >>> cut = {TopicPartition("t", 0): Cut(0, 4_000, 4_000)}
        >>> [[tuple(r)[2:4] for r in rs] for rs in assign_ranges(cut, {"t": 0}, {}, 2)]
        [[(0, 2000)], [(2000, 4000)]]
    """
    places = sorted(cuts, key=lambda tp: (topics[tp.topic], tp.partition))
    total = sum(cuts[tp].end - cuts[tp].start for tp in places)
    share = max(least, -(-total // max(1, tasks)))
    result: list[tuple[SourceRange, ...]] = []
    ranges: list[SourceRange] = []
    room = share
    for tp in places:
        start, end = cuts[tp].start, cuts[tp].end
        while start < end:
            stop = min(end, start + room)
            if end - stop < share // 8:
                stop = end
            ranges.append(
                SourceRange(
                    topics[tp.topic], tp.partition, start, stop, floors.get(tp, -1), stop == end
                )
            )
            room -= stop - start
            start = stop
            if room <= 0:
                result.append(tuple(ranges))
                ranges, room = [], share
    if ranges:
        result.append(tuple(ranges))
    return tuple(result)
