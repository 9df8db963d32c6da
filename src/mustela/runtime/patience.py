"""How long a fault of the broker is borne before it ends the application."""

from __future__ import annotations

from mustela.clock import Clock
from mustela.errors import EnvironmentFault

__all__ = ["Patience"]


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
