"""How long to wait for a source that has no records."""

from __future__ import annotations

from mustela.clock import Clock

__all__ = ["IdleWait"]


class IdleWait:
    """Waits for sources that have no records, so that topics are merged in time order.

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
