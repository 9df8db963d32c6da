"""What a takeover took, part by part."""

from __future__ import annotations

from collections.abc import Callable

from mustela.clock import Clock
from mustela.runtime.events import EpochDone, Event

__all__ = ["TakeoverTimes"]


class TakeoverTimes:
    """Measures a takeover, and says at the first commit what it took; see `runtime.events`.

    Args:
        clock: Monotonic time.
        say: Receives the message.

    Example:
        >>> from mustela.clock import ManualClock
        >>> clock = ManualClock(0)
        >>> times = TakeoverTimes(clock, print)
        >>> times.heard()
        >>> clock.advance(1_200)
        >>> times.ends("silence")
        >>> clock.advance(100)
        >>> times.ends("claim")
        >>> clock.advance(300)
        >>> times.on_event(EpochDone(epoch=5, records=10, lag=0, seconds=0.25, job_seconds=0.2,
        ...                          watermark=-1, counters={}, reports=()))
        took over in 1.60 s: silence 1.20, claim 0.10, wait 0.05, first-epoch 0.20, commit 0.05
    """

    def __init__(self, clock: Clock, say: Callable[[str], None]) -> None:
        self._clock = clock
        self._say = say
        self._began: float | None = None
        self._last = 0.0
        self._parts: dict[str, float] = {}
        self._is_over = False

    def heard(self) -> None:
        """Note that the other instance was heard of: a takeover begins after the last time."""
        self._began = self._last = self._clock.monotonic()
        self._parts.clear()

    def ends(self, part: str) -> None:
        """Note the end of a part.

        Args:
            part: Its name; it began where the one before ended.
        """
        now = self._clock.monotonic()
        self._parts[part] = now - self._last
        self._last = now

    def on_event(self, event: Event) -> None:
        """Say what it took, at the first commit."""
        if self._began is None or self._is_over or not isinstance(event, EpochDone):
            return
        self._is_over = True
        now = self._clock.monotonic()
        commit = event.seconds - event.job_seconds
        self._parts |= {
            "wait": max(0.0, now - self._last - event.seconds),
            "first-epoch": event.job_seconds,
            "commit": commit,
        }
        told = ", ".join(f"{part} {seconds:.2f}" for part, seconds in self._parts.items())
        self._say(f"took over in {now - self._began:.2f} s: {told}")

    def on_error(self, error: BaseException) -> None:
        """Ignore an error."""
