"""The watermark never goes back, waits for the slowest partition, and tells idle from cut off."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.model import TopicPartition
from mustela.plan.batch import SourceChunk
from mustela.plan.ranges import RangeReport
from mustela.plan.watermark import epoch_time
from mustela.runtime.time.watermark import Look, WatermarkOptions, WatermarkState

A, B, C = (TopicPartition("t", n) for n in range(3))

_step = st.tuples(
    st.sampled_from(["observe", "rest", "cut off"]),
    st.sampled_from([A, B, C]),
    st.integers(-1, 10_000),
    st.integers(0, 500),
)


def _play(state: WatermarkState, steps: list[tuple[str, TopicPartition, int, int]]) -> list[int]:
    values, now = [state.value], 0
    for what, place, timestamp, passed in steps:
        now += passed
        if what == "observe":
            state.observe(place, timestamp, now)
        else:
            state.rest(place, now, read_to_end=what == "rest")
        values.append(state.advance())
    return values


@given(st.lists(_step, max_size=60), st.integers(0, 300), st.integers(1, 1_000))
def test_the_watermark_never_goes_back(
    steps: list[tuple[str, TopicPartition, int, int]], late: int, idleness: int
) -> None:
    """Whatever is read, in whatever order, and whoever falls asleep and wakes up."""
    options = WatermarkOptions(max_out_of_orderness_ms=late, idleness_ms=idleness)
    values = _play(WatermarkState(options), steps)
    assert values == sorted(values)


@given(st.lists(_step, max_size=60), st.integers(0, 300))
def test_the_watermark_is_never_ahead_of_an_active_partition_that_it_has_seen(
    steps: list[tuple[str, TopicPartition, int, int]], late: int
) -> None:
    """As long as nobody is idle, every partition has come at least as far as the watermark."""
    options = WatermarkOptions(max_out_of_orderness_ms=late, idleness_ms=10**9)
    state = WatermarkState(options)
    for place in (A, B, C):
        state.rest(place, 0, read_to_end=True)
    _play(state, steps)
    least = min(time.max_timestamp for time in state.partitions.values())
    assert state.value <= max(-1, least - late)


def test_a_partition_without_a_record_holds_the_watermark() -> None:
    """Nobody knows how far it has come."""
    state = WatermarkState()
    state.rest(A, 0, read_to_end=True)
    state.observe(B, 700, 10)
    assert state.advance() == -1


def test_a_partition_read_to_its_end_for_long_enough_lets_go() -> None:
    """It is idle from the idle period on, not before."""
    state = WatermarkState(WatermarkOptions(idleness_ms=100))
    state.observe(A, 500, 0)
    state.observe(B, 900, 0)
    assert state.advance() == 500
    state.observe(B, 950, 90)
    state.rest(A, 99, read_to_end=True)
    assert state.advance() == 500
    state.rest(A, 100, read_to_end=True)
    assert state.advance() == 950


def test_an_outage_is_not_idleness() -> None:
    """The idle period begins anew whenever the end was not reached."""
    state = WatermarkState(WatermarkOptions(idleness_ms=100))
    state.observe(A, 500, 0)
    state.observe(B, 900, 0)
    state.rest(A, 80, read_to_end=False)
    state.rest(A, 150, read_to_end=True)
    assert state.advance() == 500
    assert not state.partitions[A].idle
    state.rest(A, 180, read_to_end=True)
    assert state.advance() == 900


def test_a_partition_that_wakes_up_behind_the_watermark_does_not_pull_it_back() -> None:
    """Its records are late, and are judged so one by one."""
    state = WatermarkState(WatermarkOptions(idleness_ms=100))
    state.observe(A, 500, 0)
    state.observe(B, 900, 200)
    state.rest(A, 200, read_to_end=True)
    assert state.advance() == 900
    state.observe(A, 510, 300)
    assert state.advance() == 900
    assert not state.partitions[A].idle


def test_a_timestamp_from_far_ahead_pushes_nothing_and_is_counted() -> None:
    """One wrong clock does not close every window, and hides no other timestamp of its range."""
    options = WatermarkOptions(max_future_skew_ms=1_000)
    assert options.latest_ms(500) == 1_500
    state = WatermarkState(options)
    state.track([A], 500)
    chunk = SourceChunk(
        topics=("t",),
        topic_index=0,
        partition=0,
        offsets=[0, 1, 2],
        timestamps=[300, 1_501, 400],
        latest=options.latest_ms(500),
    )
    counting, future = chunk.counting()
    report = RangeReport(0, 0, 0, 3, 3, max(counting), 0, future)
    state = state.after({"t": 0}, Look(now_ms=500), [report])
    assert (state.value, state.future_records) == (400, 1)
    assert chunk.order == [(300, 0, 0, 0), (300, 0, 0, 1), (400, 0, 0, 2)]


def test_when_all_are_idle_it_does_not_matter_who_was_first() -> None:
    """The watermark comes to the largest time that any of them came to, and stands."""
    for first, second in ((A, B), (B, A)):
        state = WatermarkState(WatermarkOptions(idleness_ms=10))
        state.track([A, B, C], 0)
        state.observe(A, 400, 0)
        state.observe(B, 900, 0)
        state.rest(C, 10, read_to_end=True)
        assert state.advance() == 400
        state.rest(first, 20, read_to_end=True)
        state.advance()
        state.rest(second, 20, read_to_end=True)
        assert state.advance() == 900
        assert state.advance() == 900


def test_a_copy_can_be_advanced_alone() -> None:
    """An epoch that does not commit leaves no trace."""
    state = WatermarkState()
    state.observe(A, 400, 0)
    state.advance()
    copy = state.copy()
    copy.observe(A, 800, 10)
    assert copy.advance() == 800
    assert (state.value, state.partitions[A].max_timestamp) == (400, 400)


_epoch = st.fixed_dictionaries(
    {
        "read": st.dictionaries(st.sampled_from([0, 1, 2]), st.integers(-1, 5_000), max_size=3),
        "short": st.sets(st.sampled_from([0, 1, 2])),
        "held": st.sets(st.sampled_from([0, 1, 2])),
        "cut": st.one_of(st.none(), st.integers(0, 5_000)),
        "passed": st.integers(0, 400),
    }
)


@given(st.lists(_epoch, max_size=20), st.integers(0, 300), st.integers(1, 500))
def test_lanes_and_driver_find_the_same_watermark(
    epochs: list[dict[str, Any]], late: int, idleness: int
) -> None:
    """The lanes from the order and the markers before the epoch runs, the driver behind it; and
    without a cut by time both say what observing the partitions one by one says.
    """
    options = WatermarkOptions(max_out_of_orderness_ms=late, idleness_ms=idleness)
    state, now, topics = WatermarkState(options), 0, {"t": 4}
    model = WatermarkState(options)
    for known in (state, model):
        known.track([A, B, C], 0)
    for epoch in epochs:
        now += epoch["passed"]
        short = {TopicPartition("t", number) for number in epoch["short"]}
        held = {TopicPartition("t", number) for number in epoch["held"]}
        look = Look(now_ms=now, short=short, held=held, until_ms=epoch["cut"])
        markers = [RangeReport(4, number, 0, 1, 1, top, 0) for number, top in epoch["read"].items()]
        lanes = epoch_time(state.order(topics, look), markers, now)
        before = state.value
        state = state.after(topics, look, markers)
        assert (lanes.before, lanes.watermark) == (before, state.value)
        assert state.value >= before
        for place in (A, B, C):
            if place.partition in epoch["read"]:
                model.observe(place, epoch["read"][place.partition], now)
            else:
                model.rest(place, now, read_to_end=place not in short | held)
        assert model.partitions == state.partitions
        if all(earlier["cut"] is None for earlier in epochs):
            assert model.advance() == state.value


_RULES = [
    WatermarkOptions(max_out_of_orderness_ms=7, idleness_ms=50),
    WatermarkOptions(idleness_ms=1_000, custom=lambda latest: latest // 2),
    WatermarkOptions(takes_part=False),
]


@given(
    st.lists(_epoch, max_size=20),
    st.integers(0, 300),
    st.integers(1, 500),
    st.one_of(st.none(), st.sampled_from(_RULES)),
)
def test_partitions_that_are_not_read_are_told_of_together(
    epochs: list[dict[str, Any]], late: int, idleness: int, rules: WatermarkOptions | None
) -> None:
    """An order that names only what is read gives the watermark of one that names each partition.

    Of two topics one may have rules of its own.
    """
    options = WatermarkOptions(max_out_of_orderness_ms=late, idleness_ms=idleness)
    state = WatermarkState(options, by_topic={} if rules is None else {"u": rules})
    places = [A, B, TopicPartition("u", 0), TopicPartition("u", 1)]
    state.track(places, 0)
    now, topics = 0, {"t": 4, "u": 5}
    for epoch in epochs:
        now += epoch["passed"]
        look = Look(
            now_ms=now,
            short={places[number] for number in epoch["short"]},
            held={places[number] for number in epoch["held"]},
            until_ms=epoch["cut"],
        )
        read = {places[number]: top for number, top in epoch["read"].items()}
        markers = [
            RangeReport(topics[place.topic], place.partition, 0, 1, 1, top, 0)
            for place, top in read.items()
        ]
        whole, brief = state.order(topics, look), state.order(topics, look, read)
        assert {mark.partition for mark in brief.partitions} <= {p.partition for p in read}
        assert epoch_time(brief, markers, now) == epoch_time(whole, markers, now)
        state = state.after(topics, look, markers)
        assert state.value == epoch_time(whole, markers, now).watermark


_log = st.lists(st.integers(0, 300), min_size=1, max_size=30)


@given(st.lists(_log, min_size=1, max_size=3), st.sets(st.integers(0, 320)), st.integers(0, 40))
def test_where_a_backlog_is_cut_in_time_changes_no_judgement(
    logs: list[list[int]], cuts: set[int], late: int
) -> None:
    """Each row is judged at the same time, in one epoch or in any number that are cut by time."""
    assert _judged(logs, [*sorted(cuts), None], late) == _judged(logs, [None], late)


def _judged(logs: list[list[int]], cuts: list[int | None], late: int) -> list[list[int]]:
    """Read logs up to each cut; return for each record the time at which it is judged."""
    state = WatermarkState(WatermarkOptions(max_out_of_orderness_ms=late))
    places = [TopicPartition("t", number) for number in range(len(logs))]
    state.track(places, 0)
    done = [0] * len(logs)
    judged: list[list[int]] = [[] for _ in logs]
    for cut in cuts:
        markers: list[RangeReport] = []
        chunks: list[SourceChunk] = []
        short: set[TopicPartition] = set()
        for number, log in enumerate(logs):
            behind = (n for n, time in enumerate(log) if cut is not None and time >= cut)
            start, end = done[number], max(done[number], next(behind, len(log)))
            if end < len(log):
                short.add(places[number])
            floor = state.partitions[places[number]].max_timestamp
            chunk = SourceChunk(
                topics=("t",),
                topic_index=0,
                partition=number,
                offsets=list(range(start, end)),
                timestamps=log[start:end],
                floor=floor,
            )
            chunks.append(chunk)
            top = max([floor, *log[start:end]])
            markers.append(RangeReport(0, number, start, end, end - start, top, 0))
            done[number] = end
        look = Look(now_ms=0, short=short, until_ms=cut)
        time = epoch_time(state.order({"t": 0}, look), markers, 0)
        state = state.after({"t": 0}, look, markers)
        for number, chunk in enumerate(chunks):
            judged[number] += time.judge(chunk.order)
    for times in judged:
        assert all(earlier <= later for earlier, later in pairwise(times))
    return judged


def test_a_partition_that_is_held_back_has_not_come_to_the_moment_of_a_cut() -> None:
    """Its records are of any time: an epoch that is cut by time goes no further than they were
    seen to come. One of which the cut leaves records behind it has come to the moment.
    """
    state = WatermarkState(WatermarkOptions(idleness_ms=100))
    state.track([A, B], 0)
    state.observe(A, 200, 0)
    state.observe(B, 300, 0)
    for short, held, expected in (({A, B}, (), 900), ({A, B}, {B}, 300), ({A}, {B}, 300)):
        look = Look(now_ms=500, short=short, held=held, until_ms=900)
        after = state.after({"t": 0}, look, [])
        assert after.value == expected
        assert not after.partitions[B].idle


def test_a_partition_too_far_ahead_is_held_back() -> None:
    """Until the others have come closer, or are idle; one that has no say is never held back."""
    state = WatermarkState(
        WatermarkOptions(idleness_ms=100), by_topic={"u": WatermarkOptions(takes_part=False)}
    )
    other = TopicPartition("u", 0)
    waiting = {A: 1, B: 2, other: 3}
    state.track([A, B, other], 0)
    state.observe(A, 1_000, 0)
    state.observe(other, 9_000, 0)
    state.advance()
    assert state.near(waiting, 50) == waiting
    state.observe(B, 100, 0)
    state.advance()
    assert state.near(waiting, None) == waiting
    assert state.near(waiting, 900) == waiting
    assert state.near(waiting, 899) == {B: 2, other: 3}
    state.rest(B, 100, read_to_end=True)
    assert state.near({A: 1}, 0) == {A: 1}
    assert state.value == 100, "a look changes nothing"


def test_what_is_held_back_goes_on_when_the_others_are_idle() -> None:
    """Though no epoch ran meanwhile, which would have moved the watermark: it has no record."""
    state = WatermarkState(WatermarkOptions(idleness_ms=100))
    state.track([A, B], 0)
    state.observe(A, 1_000, 0)
    state.observe(B, 10, 0)
    state.advance()
    for now in (50, 99):
        state.rest(B, now, read_to_end=True)
        state.rest(A, now, read_to_end=False)
        assert state.near({A: 1}, 500) == {}
    state.rest(B, 100, read_to_end=True)
    assert state.near({A: 1}, 500) == {A: 1}


@pytest.mark.parametrize("custom", [None, lambda time: time - 700])
def test_a_partition_is_not_held_back_by_its_own_lateness(custom: Any) -> None:
    """How far its records may lie behind counts: what it has come to is compared, not its top."""
    options = WatermarkOptions(max_out_of_orderness_ms=700, custom=custom)
    state = WatermarkState(options)
    state.track([A], 0)
    state.observe(A, 1_000, 0)
    assert state.advance() == 300
    assert state.near({A: 1}, 0) == {A: 1}
