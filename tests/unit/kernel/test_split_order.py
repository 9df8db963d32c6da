"""A partition that several tasks read gives the order that one task would have given."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from mustela.kernel.split_order import mend_order
from mustela.plan.batch import Batch, Order, Origins, SourceChunk
from mustela.plan.ranges import RangeReport, SourceRange

Partition = tuple[int, list[int], list[int]]
"""Floor, timestamps by offset, and where it is cut."""


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    timestamps = draw(st.lists(st.integers(0, 20), min_size=1, max_size=12))
    cuts = draw(st.lists(st.integers(1, len(timestamps)), max_size=3, unique=True).map(sorted))
    return draw(st.integers(-1, 20)), timestamps, cuts


def read(number: int, start: int, timestamps: list[int], floor: int) -> tuple[Batch, RangeReport]:
    """Read a range as a source task does: all it knows is its floor."""
    chunk = SourceChunk(
        topics=("t",),
        topic_index=0,
        partition=number,
        offsets=list(range(start, start + len(timestamps))),
        timestamps=timestamps,
        floor=floor,
    )
    end = start + len(timestamps)
    most = max([floor, *timestamps])
    first = max(floor, timestamps[0]) if timestamps else -1
    report = RangeReport(0, number, start, end, len(timestamps), most, 0, first_ms=first)
    return Batch(list(timestamps), list(timestamps), chunk), report


def split(all_partitions: list[Partition]) -> tuple[list[Batch], list[Order], Batch]:
    """Read partitions in pieces and mend them; also give the order of an unsplit reading."""
    batches: list[Batch] = []
    markers: list[RangeReport] = []
    ranges: list[list[SourceRange]] = []
    whole: list[Batch] = []
    for number, (floor, timestamps, cuts) in enumerate(all_partitions):
        for start, end in pairwise(
            [0, *(cut for cut in cuts if cut < len(timestamps)), len(timestamps)]
        ):
            batch, report = read(number, start, timestamps[start:end], floor)
            batches.append(batch)
            markers.append(report)
            ranges.append([SourceRange(0, number, start, end, floor, end == len(timestamps))])
        whole.append(read(number, 0, timestamps, floor)[0])
    mended = [mend_order(batch, ranges, markers) for batch in batches]
    again = [mend_order(batch, ranges, markers) for batch in mended]
    assert [batch.order for batch in again] == [batch.order for batch in mended]
    unsplit = Batch.merge(whole)
    return mended, unsplit.order or [], unsplit


@given(st.lists(partitions(), min_size=1, max_size=4))
def test_split_partitions_give_the_order_of_unsplit_ones(all_partitions: list[Partition]) -> None:
    """Running maximum, topic, partition and offset of each row; mending twice changes nothing."""
    mended, order, unsplit = split(all_partitions)
    merged = Batch.merge(mended)
    assert merged.order == order
    assert merged.values == unsplit.values


def test_nothing_is_made_anew_where_no_partition_was_split() -> None:
    """The batch itself comes back, its order not even made."""
    batch, report = read(0, 0, [3, 1, 2], -1)
    assert mend_order(batch, [[SourceRange(0, 0, 0, 3)]], [report]) is batch


def test_nothing_is_made_anew_where_times_go_up() -> None:
    """A split partition whose ranges begin behind those before them has its order already."""
    ranges = [[SourceRange(0, 0, 0, 2)], [SourceRange(0, 0, 2, 4)]]
    (one, first), (two, second) = read(0, 0, [3, 5], -1), read(0, 2, [5, 7], -1)
    assert mend_order(two, ranges, [first, second]) is two
    assert mend_order(one, ranges, [first, second]) is one
    low, report = read(0, 2, [4, 7], -1)
    assert mend_order(low, ranges, [first, report]).order == [(5, 0, 0, 2), (7, 0, 0, 3)]


def test_rows_of_timers_and_of_other_partitions_stay() -> None:
    """Only rows behind the cut of a split partition are raised; what follows the place stays."""
    ranges = [[SourceRange(0, 0, 0, 2)], [SourceRange(0, 0, 2, 4)]]
    markers = [RangeReport(0, 0, 0, 2, 2, 9, 0), RangeReport(0, 0, 2, 4, 2, 4, 0)]
    order: list[Order] = [(3, 0, 0, 1, 7, 5), (3, 0, 0, 2, 7, 5), (3, 0, 1, 2), (3, -1, -1, -1)]
    batch = Batch([1] * 4, [1] * 4, Origins([3] * 4, None, order))
    assert mend_order(batch, ranges, markers).order == [
        (3, 0, 0, 1, 7, 5),
        (9, 0, 0, 2, 7, 5),
        (3, 0, 1, 2),
        (3, -1, -1, -1),
    ]


def test_a_range_without_records_hands_the_floor_on() -> None:
    """Its offsets were control records or aborted data."""
    ranges = [
        [SourceRange(0, 0, 0, 2, 5)],
        [SourceRange(0, 0, 2, 4, 5)],
        [SourceRange(0, 0, 4, 6, 5)],
    ]
    markers = [
        RangeReport(0, 0, 0, 2, 2, 8, 0),
        RangeReport(0, 0, 2, 4, 0, -1, 0),
        RangeReport(0, 0, 4, 6, 2, 6, 0),
    ]
    batch, _ = read(0, 4, [6, 4], 5)
    assert mend_order(batch, ranges, markers).order == [(8, 0, 0, 4), (8, 0, 0, 5)]


def test_a_record_of_an_epoch_before_keeps_its_order() -> None:
    """One that was parked comes from before all ranges: what they saw says nothing of it."""
    ranges = [[SourceRange(0, 0, 10, 12, 5, False)], [SourceRange(0, 0, 12, 14, 5, True)]]
    markers = [RangeReport(0, 0, 10, 12, 2, 9, 0), RangeReport(0, 0, 12, 14, 2, 9, 0)]
    order: list[Order] = [(3, 0, 0, 7), (5, 0, 0, 10), (6, 0, 0, 13)]
    batch = Batch(["a"] * 3, [1, 2, 3], Origins([3, 5, 6], None, order))
    assert mend_order(batch, ranges, markers).order == [(3, 0, 0, 7), (5, 0, 0, 10), (9, 0, 0, 13)]
