"""When the next epoch begins."""

from __future__ import annotations

__all__ = ["Pace"]

_LEAST_S = 0.005
_MOST_S = 0.05
_GROWTH = 1.5


class Pace:
    """The pause between epochs: the commit interval while records come, longer while none do.

    Args:
        interval: Least seconds between the starts of two epochs.

    Example:
        >>> pace = Pace(0.1)
        >>> round(pace.pause(busy=True, seconds=0.04, lag=0), 3)
        0.06
        >>> pace.pause(busy=True, seconds=0.04, lag=5_000)
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
