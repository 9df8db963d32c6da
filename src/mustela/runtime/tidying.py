"""When an application that has nothing to do gives disk back."""

from __future__ import annotations

from mustela.clock import Clock

__all__ = ["Tidying"]

QUIET_S = 10.0
"""How long there must have been nothing to do."""


class Tidying:
    """Says once in each quiet time, some seconds after the last epoch, that it is a good moment.

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
        """Return whether to tidy now; the answer is yes only once."""
        if self._worked_at is None or self._clock.monotonic() - self._worked_at < QUIET_S:
            return False
        self._worked_at = None
        return True
