"""Splitting an epoch's offset ranges over tasks, so that one partition can use every core."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mustela.plan.ranges import SourceRange
from mustela.plan.time import NEVER

__all__ = ["split_ranges"]

RECORDS_MIN = 2_000
RANGE_COST = 100


def split_ranges(
    ranges: Sequence[SourceRange],
    tasks: int,
    *,
    whole: Collection[int] = (),
    records_min: int = RECORDS_MIN,
    range_cost: int = RANGE_COST,
) -> tuple[tuple[SourceRange, ...], ...]:
    """Split ranges over at most ``tasks`` tasks, about the same work for each.

    The pieces, task after task, are the ranges in their order: each offset once, none twice. A
    piece keeps its range's ``floor``; of the pieces of a range only the last can be ``last``.

    Args:
        ranges: The epoch's ranges; empty ones are left out.
        tasks: Most tasks to use.
        whole: Indices of topics whose ranges are not cut; nor are those that end at a moment.
        records_min: Work below which one more task costs more than it saves. No range is cut
            closer than half of this to one of its ends.
        range_cost: What a range costs besides its records, in records.

    Returns:
        For each task its pieces; no task is without one.

    Example:
        >>> one = [SourceRange(topic_index=0, partition=0, start=0, end=10_000)]
        >>> tasks = split_ranges(one, 2, range_cost=0)
        >>> [[(r.start, r.end) for r in task] for task in tasks]
        [[(0, 5000)], [(5000, 10000)]]
    """
    assert tasks > 0, tasks
    left = [found for found in ranges if found.end > found.start]
    work = sum(found.end - found.start + range_cost for found in left)
    used = max(1, min(tasks, work // max(1, records_min)))
    share = -(-work // used)
    sliver = max(1, records_min // 2)
    result: list[list[SourceRange]] = [[]]
    room = share
    for found in left:
        rest = found
        while True:
            if len(result) == used:
                room = work  # the last task takes what is left
            cost = rest.end - rest.start + range_cost
            part = room - range_cost
            can_cut = rest.topic_index not in whole and rest.until == NEVER
            if can_cut and cost > room + sliver and part >= sliver:
                result[-1].append(rest._replace(end=rest.start + part, last=False))
                rest = rest._replace(start=rest.start + part)
                room = 0
            elif cost <= 2 * room or not result[-1]:
                # Whole, where less of it hangs over than would be left free.
                result[-1].append(rest)
                room = room - cost if can_cut else max(0, room - cost)
                break
            if len(result) < used:
                result.append([])
                room += share
    return tuple(tuple(pieces) for pieces in result if pieces)
