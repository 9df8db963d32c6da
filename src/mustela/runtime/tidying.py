"""When an idle application frees disk space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mustela.clock import Clock

__all__ = ["Place", "Tidying"]

Place = tuple[int, int]
"""A stage and a key group."""

QUIET_S: Final = 10.0
"""After so many idle seconds everything is tidied."""

SOON_S: Final = 1.0
"""After so many, what is quickly done, if much work came before."""

_SHARE: Final = 0.1
"""What is tidied soon takes at most this share of the time that epochs take."""

_LEAST_S: Final = 0.5
_SAVED_MAX_S: Final = 10.0


class Tidying:
    """Tidies once in each idle period, in rounds between which the application looks for records.

    Files that grew in a backlog are tidied as soon as it ends. A load that stops every few seconds
    would have them written anew as often, so that takes no more than a share of the time that
    epochs take; what is left waits until the application is idle for longer.

    Args:
        clock: Monotonic time.

    Example:
        >>> from mustela.clock import ManualClock
        >>> clock = ManualClock()
        >>> tidying = Tidying(clock)
        >>> tidying.worked(0.2)
        >>> clock.advance(9_000)
        >>> tidying.is_due
        False
        >>> clock.advance(1_000)
        >>> tidying.is_due
        True
        >>> tidying.round(lambda places, soon: [(1, 4)])
        >>> tidying.is_under_way
        True
        >>> tidying.round(lambda places, soon: [])
        >>> tidying.is_under_way, tidying.is_due
        (False, False)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._worked_at: float | None = None
        self._saved_s = 0.0
        self._left: Sequence[Place] = ()
        self._is_soon = False
        self._was_soon = False

    def worked(self, seconds: float) -> None:
        """Note that an epoch ran.

        Args:
            seconds: How long its job took.
        """
        self._worked_at = self._clock.monotonic()
        self._saved_s = min(self._saved_s + seconds * _SHARE, _SAVED_MAX_S)
        self._left, self._was_soon = (), False

    @property
    def is_under_way(self) -> bool:
        """Whether there is more to tidy at once."""
        return bool(self._left)

    @property
    def is_due(self) -> bool:
        """Whether to tidy for a round now."""
        if self._left:
            return True
        if self._worked_at is None:
            return False
        quiet_s = self._clock.monotonic() - self._worked_at
        if quiet_s >= QUIET_S:
            return True
        return quiet_s >= SOON_S and self._saved_s >= _LEAST_S and not self._was_soon

    def round(self, tidy: Callable[[Sequence[Place], bool], Sequence[Place]]) -> None:
        """Tidy for a round.

        Args:
            tidy: Tidies some places, or all if none are named, for a fraction of a second; with
                True, only what is quickly done. Returns the places that there was no time for.
        """
        begun, left = self._clock.monotonic(), self._left
        if not left:
            assert self._worked_at is not None, "only what worked is tidied"
            self._is_soon = begun - self._worked_at < QUIET_S
        self._left = ()
        try:
            self._left = tidy(left, self._is_soon)
        finally:
            if self._is_soon:
                self._saved_s -= self._clock.monotonic() - begun
                self._was_soon = True
            elif not self._left:
                self._worked_at = None
