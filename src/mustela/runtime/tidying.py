"""When an idle application frees disk space."""

from __future__ import annotations

from mustela.clock import Clock

__all__ = ["Tidying"]

QUIET_S = 10.0
"""How long an application must have been idle, in seconds."""


class Tidying:
    """Becomes due once in each idle period, some seconds after the last epoch.

    Args:
        clock: Monotonic time.

    Example:
        >>> from mustela.clock import ManualClock
        >>> clock = ManualClock()
        >>> tidying = Tidying(clock)
        >>> tidying.worked()
        >>> tidying.is_due()
        False
        >>> clock.advance(11_000)
        >>> tidying.is_due(), tidying.is_due()
        (True, False)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._worked_at: float | None = None

    def worked(self) -> None:
        """Note that an epoch ran."""
        self._worked_at = self._clock.monotonic()

    def is_due(self) -> bool:
        """Return whether to tidy now; True only once per idle period."""
        if self._worked_at is None or self._clock.monotonic() - self._worked_at < QUIET_S:
            return False
        self._worked_at = None
        return True
