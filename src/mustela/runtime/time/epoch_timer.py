"""When the next epoch begins."""

from __future__ import annotations

from typing import Self

from mustela.config.settings import Settings
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
    """The pause between epochs while records arrive, and between looks while none do.

    Epochs begin at the commit interval, or as much later as leaves their results in time: a record
    that just missed an epoch waits for the next one, and then for as long as that takes.

    Args:
        interval: Minimum seconds between the starts of two epochs.
        target: Seconds within which results should be visible; 0 for the interval alone.

    Example:
        >>> timer = EpochTimer(0.1)
        >>> round(timer.pause(busy=True, seconds=0.04, lag=0), 3)
        0.06
        >>> timer.pause(busy=True, seconds=0.04, lag=5_000)
        0.0
        >>> round(EpochTimer(0.1, target=1.0).pause(busy=True, seconds=0.04, lag=0), 3)
        0.92
    """

    def __init__(self, interval: float, *, target: float = 0.0) -> None:
        self._interval = interval
        self._target = target
        self._idle = _LEAST_S

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the timer that the settings ask for."""
        target = settings.latency_target
        return cls(
            settings.commit_interval.total_seconds(),
            target=0.0 if target is None else target.total_seconds(),
        )

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
        return max(0.0, max(self._interval, self._target - seconds) - seconds)
