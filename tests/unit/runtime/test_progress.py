"""Cuts and ranges: everything is read once, nothing twice, and work is shared evenly."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mustela.model import TopicPartition
from mustela.runtime.progress import Cut, Progress, assign_ranges

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
    progress = Progress({place: start for place, (start, _) in backlog.items()})
    cuts = progress.cut({place: end for place, (_, end) in backlog.items()}, budget)
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
    progress = Progress({place: start for place, (start, _) in small.items()})
    ends = {place: end for place, (_, end) in small.items()}
    rounds = 0
    while cuts := progress.cut(ends, budget):
        progress.advance(cuts)
        rounds += 1
        assert rounds < 5_000
    assert progress.next_offsets == ends
    assert progress.lag(ends) == 0


def test_partitions_of_unequal_volume_keep_step() -> None:
    """A tenth of the backlog is a tenth of each partition's, so event time stays aligned."""
    progress = Progress({TopicPartition("a", 0): 0, TopicPartition("a", 1): 0})
    ends = {TopicPartition("a", 0): 1_000, TopicPartition("a", 1): 9_000}
    cuts = progress.cut(ends, 1_000)
    assert [cut.end for cut in cuts.values()] == [100, 900]
    assert not any(cut.to_end for cut in cuts.values())


def test_partitions_that_nobody_reads_are_no_lag() -> None:
    """The broker may tell of more than the application reads; an end may lag what is known."""
    progress = Progress({TopicPartition("a", 0): 10})
    ends = {TopicPartition("a", 0): 4, TopicPartition("b", 0): 99}
    assert progress.lag(ends) == 0
    assert progress.cut(ends, 1_000) == {}


@st.composite
def some_cuts(draw: st.DrawFn) -> dict[TopicPartition, Cut]:
    cuts = {}
    for place, (start, end) in draw(backlogs()).items():
        if end > start:
            cuts[place] = Cut(start, end, end + draw(st.integers(0, 5)))
    return cuts


@given(some_cuts(), st.integers(1, 9), st.integers(1, 3_000))
def test_ranges_cover_the_cuts_exactly_and_in_order(
    cuts: dict[TopicPartition, Cut], tasks: int, least: int
) -> None:
    """Joined, the pieces of a partition are its cut; only the last one says so."""
    floors = {place: n for n, place in enumerate(cuts)}
    assigned = assign_ranges(cuts, TOPICS, floors, tasks, least=least)
    joined: dict[tuple[int, int], list[tuple[int, int, bool]]] = {}
    flat = [piece for ranges in assigned for piece in ranges]
    assert flat == sorted(flat, key=lambda piece: piece[:3])
    for piece in flat:
        assert piece.start < piece.end
        joined.setdefault((piece.topic_index, piece.partition), []).append(
            (piece.start, piece.end, piece.last)
        )
    assert set(joined) == {(TOPICS[place.topic], place.partition) for place in cuts}
    for place, cut in cuts.items():
        pieces = joined[TOPICS[place.topic], place.partition]
        assert pieces[0][0] == cut.start
        assert pieces[-1][1] == cut.end
        assert all(left[1] == right[0] for left, right in pairwise(pieces))
        assert [last for _, _, last in pieces] == [False] * (len(pieces) - 1) + [True]
    by_place = {(TOPICS[place.topic], place.partition): n for place, n in floors.items()}
    assert all(by_place[piece.topic_index, piece.partition] == piece.floor for piece in flat)


@given(some_cuts(), st.integers(1, 9), st.integers(1, 3_000))
def test_no_task_is_idle_and_none_has_much_more_than_its_share(
    cuts: dict[TopicPartition, Cut], tasks: int, least: int
) -> None:
    """At most as many tasks as cores; a share is the even part, or the least that is worth it."""
    assigned = assign_ranges(cuts, TOPICS, {}, tasks, least=least)
    assert len(assigned) <= tasks
    assert all(assigned)
    total = sum(cut.end - cut.start for cut in cuts.values())
    share = max(least, -(-total // tasks))
    for ranges in assigned:
        assert sum(piece.end - piece.start for piece in ranges) <= share * 9 / 8 + 1


def test_one_partition_keeps_all_cores_busy() -> None:
    """There is no partition ceiling."""
    cuts = {TopicPartition("a", 0): Cut(0, 40_000, 40_000)}
    assigned = assign_ranges(cuts, TOPICS, {}, 4)
    assert [(r.start, r.end) for (r,) in assigned] == [
        (0, 10_000),
        (10_000, 20_000),
        (20_000, 30_000),
        (30_000, 40_000),
    ]


def test_a_partition_without_a_known_time_has_no_floor() -> None:
    """-1 is before every timestamp."""
    cuts = {TopicPartition("a", 0): Cut(0, 5, 5), TopicPartition("b", 0): Cut(0, 5, 5)}
    ((left, right),) = assign_ranges(cuts, TOPICS, {TopicPartition("b", 0): 8}, 4)
    assert (left.floor, right.floor) == (-1, 8)


def test_nothing_to_read_gives_no_task() -> None:
    """An empty epoch has no ranges."""
    assert assign_ranges({}, TOPICS, {}, 4) == ()
