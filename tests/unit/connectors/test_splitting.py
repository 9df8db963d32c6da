"""Splitting ranges over tasks: every offset once, in order, and about the same work for each."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mustela.connectors.kafka.splitting import split_ranges
from mustela.plan.ranges import SourceRange


@st.composite
def some_ranges(draw: st.DrawFn) -> list[SourceRange]:
    ranges = []
    for partition in range(draw(st.integers(0, 12))):
        start = draw(st.integers(0, 10**9))
        length = draw(st.one_of(st.integers(0, 50), st.integers(0, 10**6)))
        floor = draw(st.integers(-1, 10**6))
        ranges.append(SourceRange(0, partition, start, start + length, floor, draw(st.booleans())))
    return ranges


@given(some_ranges(), st.integers(1, 9), st.integers(1, 5_000), st.integers(0, 500))
def test_every_offset_is_in_one_piece_and_no_other(
    ranges: list[SourceRange], tasks: int, least: int, cost: int
) -> None:
    """The pieces of a partition, joined, are its range; the order of ranges stays."""
    split = split_ranges(ranges, tasks, records_min=least, range_cost=cost)
    joined: list[SourceRange] = []
    for piece in (piece for task in split for piece in task):
        assert piece.start < piece.end
        before = joined[-1] if joined else None
        if before is not None and before.partition == piece.partition:
            assert before.end == piece.start
            assert not before.last
            joined[-1] = piece._replace(start=before.start)
        else:
            joined.append(piece)
    assert joined == [found for found in ranges if found.end > found.start]


@given(some_ranges(), st.integers(1, 9))
def test_no_task_is_idle_and_none_is_made_up(ranges: list[SourceRange], tasks: int) -> None:
    """There are at most as many tasks as asked for, each with something to read."""
    split = split_ranges(ranges, tasks)
    assert len(split) <= tasks
    assert all(split)


@given(st.integers(1, 16), st.integers(0, 10**7))
def test_one_partition_gives_work_to_every_task(tasks: int, length: int) -> None:
    """A long range of one partition is cut into about equal pieces."""
    split = split_ranges([SourceRange(0, 0, 0, length)], tasks)
    sizes = [sum(piece.end - piece.start for piece in task) for task in split]
    if length > 10_000 * tasks:
        assert len(split) == tasks
        assert max(sizes) <= 1.2 * min(sizes)


def test_a_short_range_is_not_cut() -> None:
    """A task more costs more than a few hundred records do."""
    short = SourceRange(0, 0, 5, 305, 7)
    assert split_ranges([short], 4) == ((short,),)


def test_small_partitions_are_shared_out() -> None:
    """Many partitions with a few records each are work too."""
    ranges = [SourceRange(0, partition, 0, 10) for partition in range(100)]
    assert [len(task) for task in split_ranges(ranges, 4)] == [25, 25, 25, 25]


def test_only_the_last_piece_ends_the_partition() -> None:
    """Pieces keep what is known about the partition before the range."""
    split = split_ranges([SourceRange(3, 1, 100, 50_100, 77, True)], 2)
    assert [piece.last for task in split for piece in task] == [False, True]
    assert {(piece.topic_index, piece.partition, piece.floor) for (piece,) in split} == {(3, 1, 77)}


def test_a_topic_that_must_be_read_whole_is_not_cut() -> None:
    """Each of its ranges is one piece; the others share the rest of the tasks."""
    ranges = [
        SourceRange(topic_index=0, partition=0, start=0, end=100_000),
        SourceRange(topic_index=1, partition=0, start=0, end=100_000),
        SourceRange(topic_index=0, partition=1, start=0, end=10),
    ]
    for tasks in range(1, 9):
        pieces = [piece for task in split_ranges(ranges, tasks, whole={0}) for piece in task]
        assert [piece for piece in pieces if piece.topic_index == 0] == [ranges[0], ranges[2]]
        cut = [(piece.start, piece.end) for piece in pieces if piece.topic_index == 1]
        assert (cut[0][0], cut[-1][1]) == (0, 100_000)
        assert (len(cut) > 1) == (tasks > 2)
