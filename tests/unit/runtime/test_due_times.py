"""What wants to run without a record is known, told to the lanes, and has its turn once."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.api.schedule import CatchUp, EverySchedule
from mustela.plan.epoch import TaskReport
from mustela.plan.keygroups import schedule_group
from mustela.plan.plan import Plan, Stage
from mustela.plan.step import Step
from mustela.plan.time import AT_ONCE, FULL, NEVER, NOTHING_DUE, Due, EpochTime
from mustela.runtime.time.due_times import DueTimes
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Node
from mustela.topology.scheduled import ScheduledSourceNode

STORE = StoreSpec(name="timers", kind="timer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Node):
    """A step that acts on time."""

    @property
    def acts_on_time(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling(Waiting):
    """A step that acts on time before any record has come."""

    @property
    def acts_at_start(self) -> bool:
        return True


def plan() -> Plan:
    waits = Step(name="waits", inputs=(), node=Waiting(name="waits"))
    plain = Step(name="plain", inputs=(), node=Node(name="plain"))
    stages = (
        Stage(index=0),
        Stage(index=1, steps=(plain,), stores=(STORE,)),
        Stage(index=2, steps=(plain, waits), stores=(STORE,)),
    )
    return Plan(stages=stages, topics=(), fingerprint="")


def test_only_stages_that_act_on_time_are_asked() -> None:
    """Behind a restart each of their key groups once, over fresh state none."""
    assert DueTimes(plan(), 2, known=False).order() == {2: (AT_ONCE, AT_ONCE)}
    fresh = DueTimes(plan(), 2, known=True)
    assert fresh.order() == {2: (NOTHING_DUE, NOTHING_DUE)}
    assert fresh.first == NOTHING_DUE


def test_stages_with_schedules_begin_by_themselves() -> None:
    """Each of their key groups has a turn over fresh state, to say when it wants the next."""
    schedules = Step(name="ticks", inputs=(), node=Scheduling(name="ticks"))
    stages = (Stage(index=0), Stage(index=1, steps=(schedules,), stores=(STORE,)))
    times = DueTimes(Plan(stages=stages, topics=(), fingerprint=""), 2, known=True)
    assert times.order() == {1: (AT_ONCE, AT_ONCE)}
    due = {0: Due(wall_ms=90), 1: NOTHING_DUE}
    times.learn([TaskReport(stage=1, task=0, due=due)], watermark=-1, now_ms=5)
    assert times.first == Due(NEVER, 90)


def test_the_earliest_of_each_kind_counts() -> None:
    """What a lane does not speak of stays as it was."""
    times = DueTimes(plan(), 3, known=False)
    due = {0: Due(event_ms=50), 1: Due(wall_ms=7), 2: Due(event_ms=40, wall_ms=90)}
    times.learn([TaskReport(stage=2, task=0, due=due)], watermark=10, now_ms=5)
    assert times.first == Due(40, 7)
    times.learn([TaskReport(stage=2, task=0, due={2: NOTHING_DUE})], watermark=41, now_ms=5)
    assert times.first == Due(50, 7)
    times.learn([TaskReport(stage=1, task=0, due={0: Due(event_ms=1)})], watermark=41, now_ms=5)
    assert times.first == Due(50, 7)


def test_nothing_is_read_while_a_step_is_full() -> None:
    """What all key groups have parked counts together; to be woken does not change it."""
    times = DueTimes(plan(), 3, known=False)
    third = -(-FULL // 3)
    full = {group: Due(wall_ms=7, parked=third) for group in range(3)}
    times.learn([TaskReport(stage=2, task=0, due=full)], watermark=10, now_ms=5)
    assert times.is_full
    times.wake([(2, 0)], 6)
    assert times.is_full
    less = {1: Due(wall_ms=7, parked=third - 9)}
    times.learn([TaskReport(stage=2, task=0, due=less)], watermark=10, now_ms=5)
    assert not times.is_full


def test_what_stays_due_waits_until_time_goes_on() -> None:
    """Else epochs without input would follow each other without a pause."""
    times = DueTimes(plan(), 1, known=False)
    report = TaskReport(stage=2, task=0, due={0: Due(event_ms=5, wall_ms=6)})
    times.learn([report], watermark=20, now_ms=30)
    assert times.first == Due(21, 31)
    assert not times.first.reached(20, 30)
    assert times.first.reached(21, 30)
    assert times.first.reached(20, 31)


def test_a_clock_that_is_set_back_holds_nobody_up() -> None:
    """Who wanted to look again in a second, by a clock an hour ahead, would wait for an hour."""
    times = DueTimes(plan(), 2, known=False)
    hour = 3_600_000
    times.wake([], hour)
    due = {0: Due(event_ms=5, wall_ms=hour + 1_000), 1: Due(event_ms=5)}
    times.learn([report(2, due)], watermark=1, now_ms=hour)
    times.wake([], hour + 10)
    assert times.first == Due(5, hour + 1_000)
    times.wake([], 20)
    assert times.order() == {2: (Due(5, 20), Due(5, NEVER))}
    times.learn([report(2, {0: Due(wall_ms=1_020)})], watermark=1, now_ms=20)
    times.wake([], 21)
    assert times.first == Due(5, 1_020)


def test_lanes_open_the_key_groups_whose_time_has_come() -> None:
    """By the watermark behind the epoch's rows, or by the clock."""
    time = EpochTime(before=5, watermark=9, now_ms=100)
    dues = (Due(event_ms=9), Due(event_ms=10), Due(wall_ms=100), Due(wall_ms=101), NOTHING_DUE)
    assert time.due_groups(dues) == {0, 2}
    assert Due.first([]) == Due(NEVER, NEVER)


def scheduled(*names: str) -> Plan:
    steps = tuple(
        Step(
            name=name,
            inputs=(),
            node=ScheduledSourceNode(
                name=name,
                function=lambda _tick: [],
                schedule=EverySchedule(every_ms=100),
                catch_up=CatchUp.all(),
                progress=StoreSpec(name=f"{name}-schedule", kind="key_value"),
            ),
        )
        for name in names
    )
    stores = (STORE, *(store for step in steps for store in step.node.stores))
    waits = Step(name="waits", inputs=(), node=Waiting(name="waits"))
    stages = (Stage(index=0), Stage(index=1, steps=(*steps, waits), stores=stores))
    return Plan(stages=stages, topics=(), fingerprint="")


def test_a_scheduled_source_begins_at_once_in_its_key_group() -> None:
    """Over fresh state nobody else would wake it, and the other key groups need not."""
    times = DueTimes(scheduled("beat"), 4, known=True)
    home = schedule_group("beat", 4)
    assert times.order()[1] == tuple(AT_ONCE if g == home else NOTHING_DUE for g in range(4))
    assert times.scheduled_ms == -1
    times.learn([report(1, {home: Due(NEVER, 100)})], watermark=-1, now_ms=30)
    assert times.scheduled_ms == 100
    assert times.first == Due(NEVER, 100)
    assert DueTimes(plan(), 4, known=True).scheduled_ms is None


def test_ticks_that_are_left_are_due_at_once_and_the_same_tick_is_not() -> None:
    """Epochs follow each other while they get on with it, and not when they do not."""
    times = DueTimes(scheduled("beat"), 1, known=True)
    times.learn([report(1, {0: Due(NEVER, 300)})], watermark=-1, now_ms=1_000)
    assert times.first.wall_ms == 300
    times.learn([report(1, {0: Due(NEVER, 500)})], watermark=-1, now_ms=1_000)
    assert times.first.wall_ms == 500
    times.learn([report(1, {0: Due(NEVER, 500)})], watermark=-1, now_ms=1_000)
    assert times.first.wall_ms == 1_001


def test_event_time_waits_for_the_slowest_schedule() -> None:
    """No source may have ticks behind it that are still to be handled."""
    times = DueTimes(scheduled("beat", "pulse"), 64, known=True)
    homes = [schedule_group(name, 64) for name in ("beat", "pulse")]
    assert len(set(homes)) == 2
    times.learn([report(1, {homes[0]: Due(NEVER, 100)})], watermark=-1, now_ms=30)
    assert times.scheduled_ms == -1
    times.learn([report(1, {homes[1]: Due(NEVER, 70)})], watermark=-1, now_ms=30)
    assert times.scheduled_ms == 70


def report(stage: int, due: dict[int, Due]) -> TaskReport:
    return TaskReport(stage=stage, task=0, due=due)
