"""The only clocks: code that needs the time is given one of these."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """Wall-clock time for records and the people who read them, monotonic time for durations."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when a test moves it.

    Example:
        >>> clock = ManualClock(1_000)
        >>> clock.advance(500)
        >>> clock.now_ms()
        1500
    """

    milliseconds: int = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self.milliseconds

    def monotonic(self) -> float:
        """Seconds, by the same clock."""
        return self.milliseconds / 1000

    def sleep(self, seconds: float) -> None:
        """Move forward at once."""
        self.advance(int(seconds * 1000))

    def advance(self, milliseconds: int) -> None:
        """Move forward."""
        if milliseconds < 0:
            msg = "a clock does not go back"
            raise ValueError(msg)
        self.milliseconds += milliseconds
