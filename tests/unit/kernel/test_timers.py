"""Timers and schedules of an epoch above what is stored, against dicts and lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.api.timers import PunctuationType, TimeDomain, TimerError
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.processors.punctuation import GroupSchedules
from mustela.kernel.processors.timers import TIMER_CHAIN_MAX, GroupTimers, StepTimers
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.prefixed import PrefixedView
from mustela.state.kinds.timer import CLOCK_ROW, StoredTimer, TimerRows
from tests.unit.state.epochs import backends, keys, steps, world

TIMER = StoreSpec(name="t", kind="timer")
EVENT, CLOCK = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME

times = st.integers(-5, 30)
names = st.sampled_from([b"", b"n"])
places = st.tuples(keys, names)


@given(
    backends,
    st.sampled_from([b"", CLOCK_ROW]),
    st.lists(
        st.one_of(
            st.tuples(st.just("register"), places, times),
            st.tuples(st.just("delete"), places),
            st.tuples(st.just("fire"), times),
            steps,
        ),
        max_size=30,
    ),
)
def test_timers_fire_once_in_order_of_time_however_epochs_are_cut(backend, prefix, ops):
    """What is registered, replaced, deleted and fired in an epoch is as if it were stored at once.

    Timers that fire see each other's places free: one may be set again in the same epoch.
    """
    model: dict[tuple[bytes, bytes], int] = {}
    with world(backend, TIMER) as epochs:

        def opened() -> GroupTimers:
            return GroupTimers(PrefixedView(epochs.view, prefix) if prefix else epochs.view)

        timers = opened()
        for op in ops:
            match op:
                case "register", place, time:
                    timers.register(time, *place)
                    model[place] = time
                case "delete", place:
                    timers.delete(*place)
                    model.pop(place, None)
                case "fire", now:
                    due = sorted((time, *place) for place, time in model.items() if time <= now)
                    fired: list[Any] = []
                    while (found := timers.pop_due(now)) is not None:
                        fired.append(found[:3])
                    assert fired == due
                    assert timers.due_time(now) is None
                    model = {place: time for place, time in model.items() if time > now}
                case (step,):
                    timers.save()
                    assert timers.next_time() == min(model.values(), default=None)
                    epochs.step(step)
                    timers = opened()
        timers.save()
        view = PrefixedView(epochs.view, prefix) if prefix else epochs.view
        left = [(timer.time, timer.key, timer.name) for timer in TimerRows(view).due()]
        assert left == sorted((time, *place) for place, time in model.items())


@given(backends, st.lists(st.tuples(keys, times), min_size=1, max_size=8), times, times)
def test_timers_registered_while_others_fire_join_them(backend, first, again, now):
    """A timer that is due when it is registered is the next to fire, or comes in its turn."""
    with world(backend, TIMER) as epochs:
        stored = GroupTimers(epochs.view)
        for key, time in first:
            stored.register(time, key, b"")
        stored.save()
        epochs.commit()
        timers = GroupTimers(epochs.view)
        fired: list[int] = []
        while (found := timers.pop_due(now)) is not None:
            fired.append(found.time)
            if found.name == b"":
                timers.register(again, found.key, b"again")
        assert len(fired) == sum(t <= now for t in dict(first).values()) * (1 + (again <= now))
        assert all(time <= now for time in fired)
        assert again > now or fired.count(again) >= len(fired) // 2


@given(backends)
def test_both_kinds_of_time_share_a_store_and_no_timer(backend):
    """A timer by the clock and one by event time of the same key and name are two."""
    with world(backend, TIMER) as epochs:
        timers = StepTimers(_lane(epochs.view))
        timers.register(EVENT, 0, StoredTimer(5, b"k"))
        timers.register(CLOCK, 0, StoredTimer(7, b"k"))
        timers.save()
        epochs.commit()
        timers = StepTimers(_lane(epochs.view))
        assert timers.next_times(EVENT) == {0: 5}
        assert timers.next_times(CLOCK) == {0: 7}
        assert timers.pop_due(EVENT, 0, 100) == StoredTimer(5, b"k")
        assert timers.pop_due(EVENT, 0, 100) is None
        timers.save()
        assert timers.next_times(EVENT) == {}
        assert timers.next_times(CLOCK) == {0: 7}


def test_what_was_not_changed_is_not_written():
    """An epoch that registers a timer as it was, or one that it takes back, logs nothing."""
    with world("memory", TIMER) as epochs:
        timers = GroupTimers(epochs.view)
        timers.register(50, b"k", b"")
        timers.save()
        epochs.commit()
        logged = len(epochs.log)
        timers = GroupTimers(epochs.view)
        timers.register(60, b"k", b"")
        timers.register(50, b"k", b"")
        timers.register(9, b"other", b"")
        assert timers.pop_due(10) == StoredTimer(9, b"other")
        timers.save()
        epochs.commit()
        assert len(epochs.log) == logged


@pytest.mark.parametrize("other", [EVENT, CLOCK])
def test_a_chain_of_timers_without_an_end_is_an_error(other):
    """Each may set one more that is due, for some time; then somebody made a mistake."""
    with world("memory", TIMER) as epochs:
        timers = StepTimers(_lane(epochs.view))
        timers.register(EVENT, 0, StoredTimer(5, b"k"))
        domains = [EVENT, other]
        for fired in range(TIMER_CHAIN_MAX):
            assert timers.pop_due(domains[fired % 2], 0, 10) is not None
            timers.register(domains[(fired + 1) % 2], 0, StoredTimer(5, b"k"))
            timers.settle()
        timers.pop_due(domains[TIMER_CHAIN_MAX % 2], 0, 10)
        with pytest.raises(TimerError) as error:
            timers.register(EVENT, 0, StoredTimer(5, b"k"))
        assert error.value.evidence["for"] == "5"


def test_a_chain_that_goes_on_in_time_has_an_end():
    """However long it is."""
    with world("memory", TIMER) as epochs:
        timers = StepTimers(_lane(epochs.view))
        timers.register(EVENT, 0, StoredTimer(0, b"k"))
        fired = 0
        while (found := timers.pop_due(EVENT, 0, 2 * TIMER_CHAIN_MAX)) is not None:
            fired += 1
            timers.register(EVENT, 0, StoredTimer(found.time + 1, b"k"))
            timers.settle()
        assert fired == 2 * TIMER_CHAIN_MAX + 1


def _lane(view: Any) -> LaneStore:
    return LaneStore("t", {0: view}, 1)


class Kafka:
    """The schedules of Kafka Streams: a queue of ticks, as PunctuationQueue has it."""

    def __init__(self) -> None:
        self.ticks: dict[int, tuple[int, int]] = {}

    def add(self, number: int, interval: int, first: int) -> None:
        self.ticks[number] = (first, interval)

    def punctuate(self, now: int) -> list[int]:
        called: list[int] = []
        for number, (tick, interval) in sorted(self.ticks.items(), key=lambda one: one[1][0]):
            if tick <= now:
                called.append(number)
                following = tick + interval
                if now >= following:
                    following = tick + ((now - tick) // interval + 1) * interval
                self.ticks[number] = (following, interval)
        return called


@given(
    backends,
    st.lists(st.integers(1, 20), max_size=3),
    st.lists(st.one_of(st.integers(0, 25), steps), max_size=20),
    st.sampled_from([STREAM, WALL]),
)
def test_punctuators_are_called_as_by_kafka_streams(backend, intervals, moves, kind):
    """Also where an epoch, or the disk, is lost in between: a schedule goes on where it stood."""
    kafka, now, start = Kafka(), 100, 100
    for number, interval in enumerate(intervals):
        kafka.add(number, interval, 0 if kind is STREAM else start + interval)
    with world(backend, TIMER) as epochs:

        def opened() -> GroupSchedules:
            schedules = GroupSchedules(epochs.view)
            for number, interval in enumerate(intervals):
                schedules.add(kind, interval, lambda _, n=number: called.append(n), now_ms=now)
            schedules.seal()
            return schedules

        called: list[int] = []
        schedules = opened()
        for move in moves:
            if isinstance(move, tuple):
                schedules.save()
                epochs.step(*move)
                schedules = opened()
                continue
            now += move
            called.clear()
            for schedule in schedules.due(kind, now):
                schedule.punctuator(now)
            assert sorted(called) == sorted(kafka.punctuate(now))
        ticks = [tick for tick, _ in kafka.ticks.values()]
        if ticks:
            assert schedules.next_ms(kind) == min(ticks)


@given(backends)
def test_a_cancelled_schedule_stays_cancelled(backend):
    """Its processor is made anew for each epoch, and schedules it again: that is the same one."""
    with world(backend, TIMER) as epochs:
        for called in ([15], [], []):
            schedules = GroupSchedules(epochs.view)
            schedule = schedules.add(WALL, 10, print, now_ms=5)
            found: list[int] = []
            for due in schedules.due(WALL, 15):
                found.append(due.next_ms)
                schedule.cancel()
            assert found == called
            schedules.save()
            epochs.restore()
        assert schedules.next_ms(WALL) > 15


def test_another_interval_is_another_schedule():
    """It begins anew, and what is no longer scheduled is forgotten."""
    with world("memory", TIMER) as epochs:
        schedules = GroupSchedules(epochs.view)
        schedules.add(WALL, 10, print, now_ms=0).cancel()
        schedules.add(WALL, 20, print, now_ms=0)
        schedules.save()
        epochs.commit()
        schedules = GroupSchedules(epochs.view)
        assert schedules.add(WALL, 11, print, now_ms=3).next_ms == 14
        schedules.save()
        assert epochs.view.count() == 1


def test_schedules_are_made_in_init():
    """Behind it nobody would know of them in the next epoch."""
    with world("memory", TIMER) as epochs:
        schedules = GroupSchedules(epochs.view)
        schedules.seal()
        with pytest.raises(TimerError, match="after init"):
            schedules.add(WALL, 10, print, now_ms=0)
