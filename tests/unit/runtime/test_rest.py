"""When the loop waits for a record, and what ends that."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import BrokerUnavailable
from mustela.model import TopicPartition
from mustela.plan.time import NEVER, Due
from mustela.runtime.epoch.rest import Rest
from mustela.runtime.time.watermark import Look
from mustela.topology.async_calls import AsyncNode
from tests.unit.runtime.test_coordinator import Told

PLACE = TopicPartition("lines", 0)
ENDS = {PLACE: 7}
NOTHING = Due(NEVER, NEVER, 0)


class Bell:
    """Rings at a time, and lets time go by; or fails."""

    def __init__(self, clock: ManualClock, rings_ms: int = 1 << 40) -> None:
        self.clock = clock
        self.rings_ms = rings_ms
        self.fails = False
        self.waits = 0
        self.hushed = 0

    def wait(self, ends: dict[TopicPartition, int], seconds: float) -> bool:
        assert ends == ENDS
        if self.fails:
            what = "no broker"
            raise BrokerUnavailable(what, fix="start one")
        self.waits += 1
        ms = min(round(seconds * 1000), max(0, self.rings_ms - self.clock.now_ms()))
        self.clock.advance(ms)
        return self.clock.now_ms() >= self.rings_ms

    def hush(self) -> None:
        self.hushed += 1


class World:
    """A loop with nothing to do."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bell = Bell(self.clock)
        self.told = Told()
        self.run: Any = SimpleNamespace(
            clock=self.clock,
            world=SimpleNamespace(bell=self.bell),
            listener=self.told,
            look=Look(now_ms=0),
            due=SimpleNamespace(first=NOTHING),
            failures=0,
            faults=SimpleNamespace(is_tried=False),
            plan=SimpleNamespace(stages=()),
        )
        self.rest = Rest(self.run)
        self.wanted = False

    def settle(self) -> None:
        assert not self.wait(), "an application with work a moment ago is not at rest"
        self.clock.advance(1_000)

    def wait(self) -> bool:
        return self.rest.wait(ENDS, lambda: self.wanted)


@pytest.fixture
def world() -> World:
    return World()


def test_at_rest_it_looks_around_once_a_second(world: World) -> None:
    """And hears of a record at once."""
    world.settle()
    began = world.clock.now_ms()
    assert world.wait()
    assert world.clock.now_ms() == began + 1_000
    world.bell.rings_ms = began + 1_230
    assert world.wait()
    assert world.clock.now_ms() == began + 1_230
    assert world.bell.hushed == 1


def test_after_a_ring_it_looks_often_for_a_while(world: World) -> None:
    """A bell that rings for what is no work must not make the loop run without a pause."""
    world.settle()
    world.bell.rings_ms = world.clock.now_ms()
    assert world.wait()
    world.settle()
    assert world.wait()


def test_work_ends_the_rest(world: World) -> None:
    world.settle()
    assert world.wait()
    world.rest.ends()
    assert world.bell.hushed == 1
    world.settle()
    assert world.wait()


def test_whoever_wants_something_is_heard_soon(world: World) -> None:
    """Within a tenth of a second; meanwhile the loop does not rest at all."""
    world.settle()
    began = world.clock.now_ms()
    world.rest.wait(ENDS, lambda: world.clock.now_ms() > began + 250)
    assert world.clock.now_ms() == began + 300
    world.wanted = True
    assert not world.wait()


def step(node: object) -> Any:
    return SimpleNamespace(stages=[SimpleNamespace(steps=[SimpleNamespace(node=node)])])


@pytest.mark.parametrize(
    "change",
    [
        lambda run: setattr(run, "look", None),
        lambda run: setattr(run, "look", Look(now_ms=0, short={PLACE})),
        lambda run: setattr(run, "look", Look(now_ms=0, held={PLACE})),
        lambda run: setattr(run, "failures", 1),
        lambda run: setattr(run.faults, "is_tried", True),
        lambda run: setattr(run, "plan", step(AsyncNode.__new__(AsyncNode))),
        lambda run: setattr(run.due, "first", Due(NEVER, run.clock.now_ms() + 30, 0)),
        lambda run: setattr(run.world, "bell", None),
    ],
    ids=["no look", "unread", "held", "failed", "fault", "calls", "timer", "no bell"],
)
def test_it_does_not_rest_where_more_than_a_record_may_come(
    world: World, change: Callable[[Any], None]
) -> None:
    world.settle()
    change(world.run)
    assert not world.wait()
    assert not world.bell.waits


@pytest.mark.parametrize(
    ("event_ms", "wall_in_ms", "rests_ms"),
    [(NEVER, 400, 400), (5, NEVER, 200), (5, 150, 150), (NEVER, 5_000, 1_000)],
)
def test_a_rest_ends_when_time_is_due(
    world: World, event_ms: int, wall_in_ms: int, rests_ms: int
) -> None:
    """Timers by the wall clock to the moment; event time advances where partitions become idle."""
    world.settle()
    began = world.clock.now_ms()
    wall_ms = wall_in_ms if wall_in_ms == NEVER else began + wall_in_ms
    world.run.due.first = Due(event_ms, wall_ms, 0)
    assert world.wait()
    assert world.clock.now_ms() == began + rests_ms


def test_a_bell_that_fails_is_told_and_the_loop_looks_for_itself(world: World) -> None:
    world.settle()
    world.bell.fails = True
    assert not world.wait()
    assert [type(error) for error in world.told.errors] == [BrokerUnavailable]
    world.bell.fails = False
    world.settle()
    assert world.wait()
