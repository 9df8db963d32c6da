"""Calls to the outside in the simulated world: they end when the seed says so."""

from __future__ import annotations

from mustela.clock import Clock
from mustela.testing.calls import DriverCalls, DriverStepCalls
from mustela.topology.async_calls import AsyncNode
from tests.simulation.world import SimWorld

__all__ = ["HALF", "SimDesk"]

HALF = 0.5
POLL_MS = 2_000
"""Tasks look again after so long, at most, whether the process lives that makes their calls."""


class SimDesk(DriverCalls):
    """The calls of one process; they die with it.

    Args:
        world: The world.
        clock: The clocks of the machine.
    """

    def __init__(self, world: SimWorld, clock: Clock) -> None:
        self._world = world
        super().__init__(clock, held=True)
        world.ids += 1
        self.lives = world.ids

    def step(self, node: AsyncNode) -> DriverStepCalls:
        """Return the calls of one step."""
        found = self._steps.get(node.name)
        if found is None:
            found = self._steps[node.name] = _StepCalls(self, node)
        return found

    @property
    def held(self) -> bool:
        """Whether a call that is asked for now has not ended yet."""
        return self._world.random.random() < HALF

    @held.setter
    def held(self, _held: bool) -> None:
        """It is never said, but drawn."""

    def end_some(self) -> set[str]:
        """Let some calls end; return their steps."""
        waiting = self.waiting()
        if not waiting:
            return set()
        return self.end(call for call in waiting if self._world.random.random() < HALF)


class _StepCalls(DriverStepCalls):
    """The calls of one step."""

    def poll_ms(self, age_ms: int | None) -> int:
        """Return after how long to look again."""
        return min(POLL_MS, super().poll_ms(age_ms))
