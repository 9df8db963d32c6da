"""How long is waited: for a broker that fails, and for a source that has nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mustela.clock import Clock
from mustela.errors import EnvironmentFault

__all__ = ["IdleWait", "Patience"]

_PAUSE_S = 0.2

T = TypeVar("T")


class Patience:
    """Bears faults that may pass, for a limited time without a break.

    Args:
        clock: Monotonic time.
        limit: Seconds after the first fault of a row.

    Example:
        >>> from mustela.clock import ManualClock
        >>> patience = Patience(ManualClock(), limit=60.0)
        >>> patience.is_tried
        False
    """

    def __init__(self, clock: Clock, *, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._since: float | None = None

    @property
    def is_tried(self) -> bool:
        """Whether a fault is being borne."""
        return self._since is not None

    def bear(self, fault: EnvironmentFault) -> None:
        """Note a fault; raise it if it cannot pass, or has lasted too long."""
        if not fault.retryable:
            raise fault
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._since > self._limit:
            raise fault

    def rest(self) -> None:
        """Note that all is well."""
        self._since = None

    def insist(self, act: Callable[[], T], on_fault: Callable[[BaseException], None]) -> T:
        """Do ``act`` until it succeeds, bearing its faults.

        Args:
            act: What to do; it must be fit to be done again.
            on_fault: Is told of each fault that is borne.

        Raises:
            EnvironmentFault: The fault that could not be borne.
        """
        while True:
            try:
                result = act()
            except EnvironmentFault as fault:
                self.bear(fault)
                on_fault(fault)
                self._clock.sleep(_PAUSE_S)
            else:
                self.rest()
                return result


class IdleWait:
    """Waits for sources that have nothing, so that topics are merged in time order.

    Args:
        clock: Monotonic time.
        limit: Seconds to wait; Kafka Streams' ``max.task.idle.ms``.

    Example:
        >>> from mustela.clock import ManualClock
        >>> clock = ManualClock()
        >>> wait = IdleWait(clock, 1.0)
        >>> wait.is_over(True)
        False
        >>> clock.advance(1_000)
        >>> wait.is_over(True)
        True
    """

    def __init__(self, clock: Clock, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._since: float | None = None

    def is_over(self, some_are_empty: bool) -> bool:
        """Return whether records may be handled now, though some sources have none."""
        if not some_are_empty or self._limit <= 0:
            self._since = None
            return True
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since >= self._limit
