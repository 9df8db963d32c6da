"""The watermark of an epoch: computed by its lanes before they run, and by the driver afterwards.

Both use `watermark_after` with the same facts: what the driver knew when the epoch began, which is
in the order, and what the source tasks saw, which is in their markers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mustela.plan.ranges import RangeReport
from mustela.plan.time import EpochTime

__all__ = ["Others", "PartitionMark", "WatermarkOrder", "epoch_time", "said_by", "watermark_after"]


class PartitionMark(NamedTuple):
    """What the driver knows of one partition's event time before an epoch.

    Attributes:
        topic_index: Index of the topic in the plan.
        partition: The partition.
        max_timestamp: The largest timestamp so far that counts, or -1.
        late_ms: How far its records may be behind that timestamp.
        idle: Whether it is left out of the minimum if the epoch finds no record in it.
        has_more: Whether it is known to hold records at or after the moment at which the epoch is
            cut; if the epoch reads it, its tasks report that.
        custom: Instead of ``late_ms``: from the largest timestamp to the time reached.
    """

    topic_index: int
    partition: int
    max_timestamp: int = -1
    late_ms: int = 0
    idle: bool = False
    has_more: bool = False
    custom: Callable[[int], int] | None = None

    def reached(self, progress: int) -> int:
        """Return the time that the partition has reached, given its largest timestamp."""
        return progress - self.late_ms if self.custom is None else self.custom(progress)


class Others(NamedTuple):
    """What several partitions together contribute to the watermark.

    Attributes:
        active_ms: The lowest time that an active partition has reached; None without any.
        is_stuck: Whether an active partition has not reached any time.
        resting_ms: The highest time that an idle one has reached; -1 without any.
    """

    active_ms: int | None = None
    is_stuck: bool = False
    resting_ms: int = -1

    def beside(self, other: Others) -> Others:
        """Return what these and other partitions contribute together."""
        active = [ms for ms in (self.active_ms, other.active_ms) if ms is not None]
        return Others(
            min(active, default=None),
            self.is_stuck or other.is_stuck,
            max(self.resting_ms, other.resting_ms),
        )


_NOBODY = Others()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkOrder:
    """All that the watermark of an epoch depends on, apart from what the source tasks see.

    Attributes:
        before: The watermark before the epoch, or -1.
        partitions: Each partition that takes part and may be read.
        others: The contribution of those that take part and are not read, of which there may be
            thousands: nothing that tasks see changes it.
        at_least_ms: The least watermark, whatever the partitions say: if there is no partition, or
            for tests.
        until_ms: The moment at which the epoch's input is cut, if it is cut by time: a partition
            that holds records at or after it has reached it, however old the last record that was
            read. So it makes no difference in how many epochs a backlog is read.
        late_ms: By index of the topic, how far records may be behind the largest timestamp.
        custom: By index of the topic, the function that replaces this.
    """

    before: int = -1
    at_least_ms: int = -1
    partitions: tuple[PartitionMark, ...] = ()
    others: Others = _NOBODY
    until_ms: int | None = None
    late_ms: Mapping[int, int] = field(default_factory=dict[int, int])
    custom: Mapping[int, Callable[[int], int]] = field(
        default_factory=dict[int, Callable[[int], int]]
    )


def watermark_after(order: WatermarkOrder, reports: Iterable[RangeReport]) -> int:
    """Return the watermark after an epoch: the minimum over its partitions, never decreasing.

    Idle partitions are left out. If all are idle, it is the largest time that any of them reached:
    that would have been the result if the others had become idle first.

    Args:
        order: What the driver knew.
        reports: What the source tasks saw.

    Example:
        >>> order = WatermarkOrder(before=10, partitions=(
        ...     PartitionMark(0, 0, max_timestamp=30), PartitionMark(0, 1, max_timestamp=20)))
        >>> watermark_after(order, [])
        20
        >>> watermark_after(order, [RangeReport(0, 1, 0, 5, 5, 50, 0)])
        30
    """
    seen: dict[tuple[int, int], int] = {}
    stopped: set[tuple[int, int]] = set()
    for report in reports:
        place = report.topic_index, report.partition
        if report.records:
            seen[place] = max(seen.get(place, -1), report.max_timestamp)
        if report.next_ms >= 0:
            stopped.add(place)
    said = order.others.beside(said_by(order.partitions, order.until_ms, seen, stopped))
    before = max(order.before, order.at_least_ms)
    if said.is_stuck:
        return before
    return max(before, said.resting_ms if said.active_ms is None else said.active_ms)


def said_by(
    marks: Iterable[PartitionMark],
    until_ms: int | None,
    seen: Mapping[tuple[int, int], int],
    stopped: Container[tuple[int, int]],
) -> Others:
    """Return what partitions together contribute to the watermark.

    Args:
        marks: The partitions.
        until_ms: The moment at which the epoch is cut, if it is cut by time.
        seen: For those that were read, the largest timestamp.
        stopped: Those in which reading stopped at that moment.
    """
    active: list[int] = []
    resting = [-1]
    for mark in marks:
        place = mark.topic_index, mark.partition
        found = seen.get(place)
        has_more = mark.has_more or place in stopped
        progress = max(mark.max_timestamp, -1 if found is None else found)
        if found is None and mark.idle and not has_more:
            resting.append(progress if progress < 0 else mark.reached(progress))
            continue
        if has_more and until_ms is not None:
            progress = max(progress, until_ms)
        if progress < 0:
            return Others(is_stuck=True)
        active.append(mark.reached(progress))
    return Others(min(active, default=None), resting_ms=max(resting))


def epoch_time(
    order: WatermarkOrder,
    reports: Iterable[RangeReport],
    now_ms: int,
    triggered: Collection[str] = (),
) -> EpochTime:
    """Return what time it is for the lanes of an epoch."""
    return EpochTime(
        before=order.before,
        watermark=watermark_after(order, reports),
        now_ms=now_ms,
        late_ms=order.late_ms,
        custom=order.custom,
        triggered=triggered,
    )
