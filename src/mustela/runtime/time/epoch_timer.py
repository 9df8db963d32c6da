"""When the next epoch begins."""

from __future__ import annotations

from mustela.plan.plan import Plan
from mustela.topology.async_calls import AsyncNode

__all__ = ["EpochTimer", "call_wait_ms"]

_LEAST_S = 0.005
_MOST_S = 0.05
_GROWTH = 1.5


def call_wait_ms(plan: Plan, interval: float, *, lanes: int, cores: int) -> int:
    """Return how long a lane waits for external calls before it parks them, in milliseconds.

    All waits of an epoch together, over the stages that make calls and the lanes that share a core,
    take half the commit interval.

    Args:
        plan: The running plan.
        interval: The commit interval in seconds.
        lanes: Number of lanes.
        cores: How many lanes run at once.

    Example:
        >>> call_wait_ms(Plan(stages=(), topics=(), fingerprint=""), 0.1, lanes=4, cores=2)
        25
    """
    callers = sum(
        any(isinstance(step.node, AsyncNode) for step in stage.steps) for stage in plan.stages
    )
    rounds = -(-lanes // max(1, cores))
    return int(interval * 1000 / 2 / max(1, callers) / max(1, rounds))


class EpochTimer:
    """The pause between epochs: the commit interval while records arrive, longer otherwise.

    Args:
        interval: Minimum seconds between the starts of two epochs.

    Example:
        >>> timer = EpochTimer(0.1)
        >>> round(timer.pause(busy=True, seconds=0.04, lag=0), 3)
        0.06
        >>> timer.pause(busy=True, seconds=0.04, lag=5_000)
        0.0
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._idle = _LEAST_S

    def pause(self, *, busy: bool, seconds: float, lag: int) -> float:
        """Return the seconds to wait.

        Args:
            busy: Whether an epoch was run.
            seconds: How long it took.
            lag: Records that are waiting already: with a backlog there is no pause.
        """
        if not busy:
            pause = self._idle
            self._idle = min(_MOST_S, self._idle * _GROWTH)
            return pause
        self._idle = _LEAST_S
        if lag > 0:
            return 0.0
        return max(0.0, self._interval - seconds)
