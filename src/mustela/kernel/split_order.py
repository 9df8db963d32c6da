"""The order of records across the ranges of a split partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeVar

from mustela.plan.batch import Batch
from mustela.plan.ranges import RangeReport, SourceRange

__all__ = ["mend_order", "mend_places"]


def _true_floors(
    ranges: Sequence[Sequence[SourceRange]], markers: Sequence[RangeReport]
) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    """Return, for each split partition, the starts of its ranges and the true floor of each.

    A task knows only its own range: the largest timestamp before it may be in the range of another
    task, and is in that task's marker. Partitions in which no range begins below its true floor are
    left out: their rows are in order already.
    """
    seen = {(m.topic_index, m.partition, m.start): m for m in markers}
    below: set[tuple[int, int]] = set()
    floors: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    ordered = sorted((r for task in ranges for r in task), key=lambda r: r[:3])
    for source_range in ordered:
        place = (source_range.topic_index, source_range.partition)
        starts, tops = floors.setdefault(place, ([], []))
        before = tops[-1] if tops else source_range.floor
        if starts:
            last = seen.get((*place, starts[-1]))
            before = max(before, -1 if last is None else last.max_timestamp)
            own = seen.get((*place, source_range.start))
            if own is None or (own.records and own.first_ms < before):
                below.add(place)
        starts.append(source_range.start)
        tops.append(before)
    return {place: known for place, known in floors.items() if place in below}


P = TypeVar("P", bound=tuple[Any, ...])


def mend_places(
    places: list[P], ranges: Sequence[Sequence[SourceRange]], markers: Sequence[RangeReport]
) -> list[P]:
    """Do the same as `mend_order` for tuples that begin with a record's order."""
    floors = _true_floors(ranges, markers)
    if not floors:
        return places
    mended: list[Any] = []
    for place in places:
        known = floors.get((place[1], place[2]))
        if known is not None:
            nth = bisect_right(known[0], place[3]) - 1
            floor = known[1][nth] if nth >= 0 else -1  # it was parked in an earlier epoch
            if floor > place[0]:
                mended.append((floor, *place[1:]))
                continue
        mended.append(place)
    return mended


def mend_order(
    batch: Batch,
    ranges: Sequence[Sequence[SourceRange]],
    markers: Sequence[RangeReport],
) -> Batch:
    """Raise each row's running maximum to that over the whole partition.

    Args:
        batch: Rows with an order column.
        ranges: What each task of the epoch reads.
        markers: What each task saw.

    Returns:
        The batch itself if splitting did not change the order, otherwise one with the true order.
    """
    order = batch.order
    if not order:
        return batch
    mended = mend_places(order, ranges, markers)
    if mended is order:
        return batch
    return batch.with_origins(mended)
