"""The watermark of an epoch: computed by its lanes before they run, and by the driver behind them.

Both use `watermark_after` on the same facts: what the driver knew when the epoch began, which is
in the order, and what the source tasks saw, which is in their markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mustela.plan.ranges import RangeReport
from mustela.plan.time import EpochTime

__all__ = ["PartitionMark", "WatermarkOrder", "epoch_time", "watermark_after"]


class PartitionMark(NamedTuple):
    """What the driver knows of one partition's event time before an epoch.

    Attributes:
        topic_index: Index of the topic in the plan.
        partition: The partition.
        max_timestamp: The largest timestamp so far that counts, or -1.
        late_ms: How far its records may lie behind that.
        idle: Whether it is left out of the minimum if the epoch finds no record of it.
        has_more: Whether it is known to hold records at or behind the moment at which the epoch is
            cut; where an epoch reads, its tasks say so.
        custom: In the place of ``late_ms``: from the largest timestamp to the time reached.
    """

    topic_index: int
    partition: int
    max_timestamp: int = -1
    late_ms: int = 0
    idle: bool = False
    has_more: bool = False
    custom: Callable[[int], int] | None = None

    def reached(self, progress: int) -> int:
        """Return the time that the partition has come to, given its largest timestamp."""
        return progress - self.late_ms if self.custom is None else self.custom(progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkOrder:
    """All that the watermark of an epoch depends on but for what the source tasks see.

    Attributes:
        before: The watermark before the epoch, or -1.
        partitions: Each partition that takes part.
        at_least_ms: How far the watermark comes whatever the partitions say: where there is no
            partition to say it, or by a test's word.
        until_ms: The moment at which the epoch's input is cut, if it is cut by time: a partition
            that holds records at or behind it has come this far, however old the last record that
            was read. So it makes no difference how many epochs a backlog is read in.
    """

    before: int = -1
    at_least_ms: int = -1
    partitions: tuple[PartitionMark, ...] = ()
    until_ms: int | None = None


def watermark_after(order: WatermarkOrder, reports: Iterable[RangeReport]) -> int:
    """Return the watermark behind an epoch: the minimum over its partitions, never going back.

    Idle partitions are left out. Where all are, it is the largest time that any of them came to: it
    would have been that, had the others been idle before that one.

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
    before = max(order.before, order.at_least_ms)
    active: list[int] = []
    resting: list[int] = []
    for mark in order.partitions:
        place = mark.topic_index, mark.partition
        found = seen.get(place)
        has_more = mark.has_more or place in stopped
        progress = max(mark.max_timestamp, -1 if found is None else found)
        if found is None and mark.idle and not has_more:
            resting.append(progress if progress < 0 else mark.reached(progress))
            continue
        if has_more and order.until_ms is not None:
            progress = max(progress, order.until_ms)
        if progress < 0:
            return before
        active.append(mark.reached(progress))
    if active:
        return max(before, min(active))
    return max([before, *resting])


def epoch_time(order: WatermarkOrder, reports: Iterable[RangeReport], now_ms: int) -> EpochTime:
    """Return what time it is for the lanes of an epoch."""
    return EpochTime(
        before=order.before,
        watermark=watermark_after(order, reports),
        now_ms=now_ms,
        late_ms={mark.topic_index: mark.late_ms for mark in order.partitions if mark.late_ms},
        custom={mark.topic_index: mark.custom for mark in order.partitions if mark.custom},
    )
