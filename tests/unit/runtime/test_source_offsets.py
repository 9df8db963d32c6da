"""Cuts and ranges: everything is read once, nothing twice, and work is shared evenly."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mustela.model import TopicPartition
from mustela.runtime.record.source_offsets import Cut, SourceOffsets, ranges_of

TOPICS = {"a": 0, "b": 1}
places = st.builds(TopicPartition, st.sampled_from(sorted(TOPICS)), st.integers(0, 8))


@st.composite
def backlogs(draw: st.DrawFn) -> dict[TopicPartition, tuple[int, int]]:
    starts = draw(st.dictionaries(places, st.integers(0, 10**9), max_size=10))
    sizes = st.one_of(st.just(0), st.integers(1, 50), st.integers(1, 10**6))
    return {place: (start, start + draw(sizes)) for place, start in starts.items()}


@given(backlogs(), st.integers(1, 10**6))
def test_a_cut_begins_where_the_last_one_ended_and_stays_within_the_backlog(
    backlog: dict[TopicPartition, tuple[int, int]], budget: int
) -> None:
    """Each waiting partition gets something; together about the budget at most."""
    sources = SourceOffsets({place: start for place, (start, _) in backlog.items()})
    cuts = sources.cut({place: end for place, (_, end) in backlog.items()}, budget)
    assert set(cuts) == {place for place, (start, end) in backlog.items() if end > start}
    for place, cut in cuts.items():
        start, end = backlog[place]
        assert cut.start == start < cut.end <= end == cut.known_end
    assert sum(cut.end - cut.start for cut in cuts.values()) <= budget + len(cuts)


@given(backlogs(), st.integers(200, 10**6))
def test_repeated_cuts_read_everything_once(
    backlog: dict[TopicPartition, tuple[int, int]], budget: int
) -> None:
    """Until nothing waits; unequal partitions reach their ends in the same epoch or nearly so."""
    small = {place: (start, min(end, start + 50_000)) for place, (start, end) in backlog.items()}
    sources = SourceOffsets({place: start for place, (start, _) in small.items()})
    ends = {place: end for place, (_, end) in small.items()}
    rounds = 0
    while cuts := sources.cut(ends, budget):
        sources.advance(cuts, {})
        rounds += 1
        assert rounds < 5_000
    assert sources.next_offsets == ends
    assert sources.lag(ends) == 0


def test_partitions_of_unequal_volume_keep_step() -> None:
    """A tenth of the backlog is a tenth of each partition's, so event time stays aligned."""
    sources = SourceOffsets({TopicPartition("a", 0): 0, TopicPartition("a", 1): 0})
    ends = {TopicPartition("a", 0): 1_000, TopicPartition("a", 1): 9_000}
    cuts = sources.cut(ends, 1_000)
    assert [cut.end for cut in cuts.values()] == [100, 900]
    assert not any(cut.to_end for cut in cuts.values())


def test_partitions_that_nobody_reads_are_no_lag() -> None:
    """The broker may tell of more than the application reads; an end may lag what is known."""
    sources = SourceOffsets({TopicPartition("a", 0): 10})
    ends = {TopicPartition("a", 0): 4, TopicPartition("b", 0): 99}
    assert sources.lag(ends) == 0
    assert sources.cut(ends, 1_000) == {}


@st.composite
def some_cuts(draw: st.DrawFn) -> dict[TopicPartition, Cut]:
    cuts = {}
    for place, (start, end) in draw(backlogs()).items():
        if end > start:
            cuts[place] = Cut(start, end, end + draw(st.integers(0, 5)))
    return cuts


@given(some_cuts())
def test_each_cut_is_one_range_in_order_of_topic_and_partition(
    cuts: dict[TopicPartition, Cut],
) -> None:
    """The order of ranges is part of a record's order, so it is fixed."""
    floors = {place: n for n, place in enumerate(cuts)}
    ranges = ranges_of(cuts, TOPICS, floors)
    assert [found[:2] for found in ranges] == sorted(
        (TOPICS[place.topic], place.partition) for place in cuts
    )
    by_place = {(TOPICS[place.topic], place.partition): place for place in cuts}
    for found in ranges:
        place = by_place[found.topic_index, found.partition]
        assert (found.start, found.end) == (cuts[place].start, cuts[place].end)
        assert found.floor == floors[place]


def test_a_partition_without_a_known_time_has_no_floor() -> None:
    """-1 is before every timestamp."""
    cuts = {TopicPartition("a", 0): Cut(0, 5, 5), TopicPartition("b", 0): Cut(0, 5, 5)}
    left, right = ranges_of(cuts, TOPICS, {TopicPartition("b", 0): 8})
    assert (left.floor, right.floor) == (-1, 8)
