"""Calls that the test driver, and the simulator, hold: how long they may take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mustela import StreamsBuilder
from mustela.calls import AsyncOptions
from mustela.plan.calls import CallRequest
from mustela.planner.planner import plan
from mustela.testing.calls import DriverCalls, DriverStepCalls
from mustela.topology.async_calls import AsyncNode

HOUR_MS = 3_600_000


@dataclass
class Clocks:
    """A clock on a wall that somebody sets, and one that nobody does."""

    wall_ms: int = HOUR_MS
    seconds: float = 0.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def held(clocks: Clocks) -> DriverStepCalls:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    options = AsyncOptions(timeout=timedelta(seconds=2))
    words.map_values_async(str.upper, options, name="call").to("out", value=str)
    steps = [step for stage in plan(builder.build()).stages for step in stage.steps]
    (node,) = [step.node for step in steps if isinstance(step.node, AsyncNode)]
    calls = DriverCalls(clocks, held=True).step(node)
    calls.begin(0)
    assert calls.start(CallRequest("first", 0, b'"a"', b'"x"'))
    calls.park("first")
    return calls


def test_a_clock_that_is_set_ends_no_call() -> None:
    """An hour forward it would be over at once, an hour back it would last for an hour more."""
    for step_ms in (HOUR_MS, -HOUR_MS):
        clocks = Clocks()
        calls = held(clocks)
        clocks.wall_ms += step_ms
        clocks.seconds += 1.5
        assert calls.arrived({"first"}) == []
        assert calls.poll_ms(0) == 500
        clocks.seconds += 0.5
        (outcome,) = calls.arrived({"first"})
        assert outcome.error == "TimeoutError"
