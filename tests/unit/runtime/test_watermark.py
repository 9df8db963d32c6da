"""The watermark never goes back, waits for the slowest partition, and tells idle from cut off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mustela.model import TopicPartition
from mustela.runtime.watermark import WatermarkOptions, WatermarkState

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
    """One wrong clock does not close every window."""
    state = WatermarkState(WatermarkOptions(max_future_skew_ms=1_000))
    state.observe(A, 400, 500)
    state.observe(A, 1_501, 500)
    assert state.advance() == 400
    assert state.future_records == 1
    state.observe(A, 1_500, 500)
    assert state.advance() == 1_500


def test_when_all_are_idle_the_watermark_stands() -> None:
    """There is nothing to take a minimum of."""
    state = WatermarkState(WatermarkOptions(idleness_ms=1))
    state.observe(A, 400, 0)
    state.advance()
    state.rest(A, 10, read_to_end=True)
    assert state.advance() == 400


def test_a_copy_can_be_advanced_alone() -> None:
    """An epoch that does not commit leaves no trace."""
    state = WatermarkState()
    state.observe(A, 400, 0)
    state.advance()
    copy = state.copy()
    copy.observe(A, 800, 10)
    assert copy.advance() == 800
    assert (state.value, state.partitions[A].max_timestamp) == (400, 400)
