"""The offsets that have been read, those that can be, and how an epoch cuts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import gt, lt

from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.plan.ranges import RangeReport, SourceRange
from mustela.plan.time import NEVER

__all__ = ["Cut", "SourceOffsets", "cuts_made", "leaders_read", "ranges_of"]


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of one partition that one epoch reads.

    Attributes:
        start: First offset.
        end: Offset after the last one.
        known_end: End of the partition when the cut was made.
        sure: For a cut at a time: the offset up to which all records are older, according to the
            broker. Tasks read on from there, at most to ``end``, and stop at the time itself.
    """

    start: int
    end: int
    known_end: int
    sure: int | None = None

    @property
    def to_end(self) -> bool:
        """Return whether the partition is read to its known end."""
        return self.end >= self.known_end


@dataclass(slots=True)
class SourceOffsets:
    """The next offset of every source partition.

    Attributes:
        next_offsets: Offset of the next record to read, by partition.
        leaders: A leader epoch in which the log reached that offset; missing if unknown.
    """

    next_offsets: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    leaders: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    def lag(self, ends: Mapping[TopicPartition, int]) -> int:
        """Return how many offsets are waiting."""
        return sum(end - start for start, end in self.waiting(ends).values())

    def waiting(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Return next offset and end of each partition that has something to read."""
        starts = self.next_offsets
        return {tp: (starts[tp], ends[tp]) for tp in self._where(gt, ends)}

    def read_beyond(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the end of each partition that ends before its next offset."""
        return {tp: ends[tp] for tp in self._where(lt, ends)}

    def _where(
        self, holds: Callable[[int, int], bool], ends: Mapping[TopicPartition, int]
    ) -> Iterable[TopicPartition]:
        """Yield the partitions whose end has some relation to their next offset.

        With thousands of partitions of which few have moved, no Python code runs for the others:
        the ends are in the order in which they were requested.
        """
        starts = self.next_offsets
        if list(starts) == list(ends):
            return compress(starts, map(holds, ends.values(), starts.values()))
        return (tp for tp, end in ends.items() if tp in starts and holds(end, starts[tp]))

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

    def advance(
        self, cuts: Mapping[TopicPartition, Cut], leaders: Mapping[TopicPartition, int]
    ) -> None:
        """Record committed cuts, and leader epochs in which the logs reached them."""
        for tp, cut in cuts.items():
            self.next_offsets[tp] = cut.end
            self.leaders.pop(tp, None)
        self.leaders.update(leaders)

    def put(self, place: TopicPartition, at: LogPosition) -> None:
        """Continue reading at a position."""
        self.next_offsets[place] = at.offset
        self.leaders.pop(place, None)
        if at.leader_epoch >= 0:
            self.leaders[place] = at.leader_epoch

    def position(self, place: TopicPartition) -> LogPosition:
        """Return the next offset of a partition with its leader epoch."""
        return LogPosition(self.next_offsets[place], self.leaders.get(place, -1))


def ranges_of(
    cuts: Mapping[TopicPartition, Cut],
    topics: Mapping[str, int],
    floors: Mapping[TopicPartition, int],
    latest: Mapping[str, int] | None = None,
    until: int | None = None,
) -> list[SourceRange]:
    """Return the ranges of the cuts, in order of topic and partition.

    Args:
        cuts: What the epoch reads.
        topics: Index of each topic in the plan.
        floors: Largest timestamp of each partition before this epoch.
        latest: For each topic, the largest timestamp that counts.
        until: The time at which tasks stop reading.

    Example:
        >>> cut = {TopicPartition("t", 0): Cut(0, 4_000, 4_000)}
        >>> ranges_of(cut, {"t": 0}, {})[0][:5]
        (0, 0, 0, 4000, -1)
    """
    places = sorted(cuts, key=lambda tp: (topics[tp.topic], tp.partition))
    ranges: list[SourceRange] = []
    for tp in places:
        cut = cuts[tp]
        whole = SourceRange(
            topics[tp.topic],
            tp.partition,
            cut.start,
            cut.end,
            floors.get(tp, -1),
            latest=NEVER if latest is None else latest.get(tp.topic, NEVER),
        )
        if cut.sure is None or until is None:
            ranges.append(whole)
            continue
        if cut.sure > cut.start:
            ranges.append(whole._replace(end=cut.sure, last=cut.sure == cut.end))
        if cut.sure < cut.end:
            ranges.append(whole._replace(start=cut.sure, until=until))
    return ranges


def cuts_made(
    cuts: Mapping[TopicPartition, Cut],
    topics: Mapping[str, int],
    reports: Iterable[RangeReport],
) -> dict[TopicPartition, Cut]:
    """Return the cuts up to where tasks actually stopped reading."""
    names = {index: topic for topic, index in topics.items()}
    made = dict(cuts)
    for report in reports:
        if report.next_ms >= 0:
            place = TopicPartition(names[report.topic_index], report.partition)
            made[place] = replace(made[place], end=report.end)
    return {place: cut for place, cut in made.items() if cut.end > cut.start}


def leaders_read(
    topics: Mapping[str, int], reports: Iterable[RangeReport]
) -> dict[TopicPartition, int]:
    """Return the highest leader epoch among the records that were read of each partition."""
    names = {index: topic for topic, index in topics.items()}
    leaders: dict[TopicPartition, int] = {}
    for report in reports:
        if report.leader_epoch >= 0:
            place = TopicPartition(names[report.topic_index], report.partition)
            leaders[place] = max(leaders.get(place, -1), report.leader_epoch)
    return leaders
