"""Windows as the kernel sees them: in milliseconds, and with the time when they are over.

What users write is in `mustela.api.windows`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from mustela.model import TIME_MAX

__all__ = [
    "JoinSpans",
    "JoinWindowSpec",
    "SessionWindowSpec",
    "SlidingWindowSpec",
    "TimeWindowSpec",
    "UnlimitedWindowSpec",
    "WindowEmit",
    "WindowSpec",
]

WindowEmit = Literal["update", "close"]
"""``update``: each change of a window is sent on. ``close``: each window once, when it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindowSpec:
    """Tumbling and hopping windows: [start, end), start a multiple of the advance.

    Attributes:
        size_ms: Length of a window.
        advance_ms: From one window's start to the next one's.
        grace_ms: How long after its end a window still takes late records.

    Example:
        >>> TimeWindowSpec(size_ms=10, advance_ms=5, grace_ms=0).starts(12)
        [5, 10]
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    @property
    def retention_ms(self) -> int:
        """How long a window is kept after its start, at least."""
        return self.size_ms + self.grace_ms

    @property
    def lag_ms(self) -> int:
        """How far before the time of its closing a window's result may be stamped."""
        return self.size_ms + self.grace_ms

    @property
    def key_size_ms(self) -> int:
        """From a window's start to its end, if that is the same for all windows."""
        return self.size_ms

    @property
    def told(self) -> str:
        """The windows in words."""
        return f"{self.kept_as}, grace {self.grace_ms} ms"

    @property
    def kept_as(self) -> str:
        """The windows of a store's rows; recorded with the store."""
        every = f" every {self.advance_ms} ms" if self.advance_ms != self.size_ms else ""
        return f"windows of {self.size_ms} ms{every}"

    def starts(self, timestamp: int) -> list[int]:
        """Return the starts of the windows that hold a time, ascending; none is negative."""
        last = timestamp - timestamp % self.advance_ms
        first = timestamp - self.size_ms + self.advance_ms
        first = max(0, first - first % self.advance_ms)
        return list(range(first, last + 1, self.advance_ms))

    def closes_at(self, _start: int, end: int) -> int:
        """Return the event time from which on a window takes no more records."""
        return end + self.grace_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlimitedWindowSpec:
    """One window from a start to the end of time; earlier records are left out.

    Attributes:
        start_ms: The start.
    """

    start_ms: int = 0

    @property
    def retention_ms(self) -> int | None:
        """For ever."""
        return None

    @property
    def lag_ms(self) -> int:
        """Nothing is held back: the window never closes."""
        return 0

    @property
    def key_size_ms(self) -> int:
        """Longer than any time that remains."""
        return TIME_MAX

    @property
    def told(self) -> str:
        """The window in words."""
        return self.kept_as

    @property
    def kept_as(self) -> str:
        """The windows of a store's rows; recorded with the store."""
        return f"one window from {self.start_ms} ms on"

    def starts(self, timestamp: int) -> list[int]:
        """Return the start, if the time is not before it."""
        return [self.start_ms] if timestamp >= self.start_ms else []

    def closes_at(self, _start: int, _end: int) -> int:
        """Return the end of time."""
        return TIME_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowSpec:
    """Windows that slide with the records: for each record's time t, up to t and from t + 1 on.

    These are [t - difference, t] and [t + 1, t + 1 + difference], both ends inclusive.

    Attributes:
        difference_ms: How far apart two records of a window may be.
        grace_ms: How long after its end a window still takes late records.
    """

    difference_ms: int
    grace_ms: int

    @property
    def retention_ms(self) -> int:
        """How long a window is kept after its start, at least: later windows begin with it."""
        return 2 * self.difference_ms + self.grace_ms

    @property
    def lag_ms(self) -> int:
        """How far before the time of its closing a window's result may be stamped."""
        return self.difference_ms + self.grace_ms + 1

    @property
    def key_size_ms(self) -> int:
        """From a window's start to its end."""
        return self.difference_ms

    @property
    def told(self) -> str:
        """The windows in words."""
        return f"{self.kept_as}, grace {self.grace_ms} ms"

    @property
    def kept_as(self) -> str:
        """The windows of a store's rows; recorded with the store."""
        return f"sliding windows of {self.difference_ms} ms"

    def closes_at(self, _start: int, end: int) -> int:
        """Return the event time from which on a window takes no more records."""
        return end + self.grace_ms + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindowSpec:
    """Sessions: records of a key without a pause between them that is longer than the gap.

    A session is [time of its first record, time of its last record], both inclusive.

    Attributes:
        gap_ms: The longest pause inside a session.
        grace_ms: How long after that pause a session still takes late records.
    """

    gap_ms: int
    grace_ms: int

    @property
    def retention_ms(self) -> int:
        """How long a session is kept after its end, at least."""
        return self.gap_ms + self.grace_ms

    @property
    def lag_ms(self) -> int:
        """How far before the time of its closing a session's result may be stamped."""
        return self.gap_ms + self.grace_ms + 1

    @property
    def told(self) -> str:
        """The sessions in words."""
        return f"{self.kept_as}, grace {self.grace_ms} ms"

    @property
    def kept_as(self) -> str:
        """The sessions of a store's rows; recorded with the store."""
        return f"sessions with pauses up to {self.gap_ms} ms"

    def closes_at(self, _start: int, end: int) -> int:
        """Return the event time from which on a session takes no more records."""
        return end + self.gap_ms + self.grace_ms + 1


WindowSpec = TimeWindowSpec | UnlimitedWindowSpec | SlidingWindowSpec | SessionWindowSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindowSpec:
    """Which right records are joined with a left record.

    Attributes:
        before_ms: How much older than the left record a right one may be; negative if it must be
            younger.
        after_ms: How much younger it may be; negative if it must be older.
        grace_ms: How long after the end of its window a record without a partner waits for one.

    Example:
        >>> JoinWindowSpec(before_ms=5, after_ms=20, grace_ms=1).retention_ms
        26
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    @property
    def size_ms(self) -> int:
        """From the oldest to the youngest right record that may be joined with a left one."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """How long Kafka Streams keeps a record, by the time of the record's own side."""
        return self.size_ms + self.grace_ms

    @property
    def kept_ms(self) -> int:
        """How long a record is kept, by the time of both sides: until it cannot find a partner."""
        return max(self.size_ms, self.before_ms, self.after_ms) + self.grace_ms

    @property
    def segment_ms(self) -> int:
        """Length of the spans of time in which records are kept, and dropped together.

        A longer one means fewer rows to search, a shorter one fewer rows kept beyond their time.
        """
        return max(self.kept_ms, min(4 * self.kept_ms, 60_000), 1_000)

    @property
    def block_ms(self) -> int:
        """Length of the longest span of time that a row of what waits covers."""
        return self.segment_ms // 16

    @property
    def kept_as(self) -> str:
        """Which partners a store's rows are kept for; recorded with the store."""
        return f"partners up to {self.before_ms} ms before and {self.after_ms} ms after"

    @property
    def lag_ms(self) -> int:
        """How far before the time of its closing a result may be stamped."""
        return max(self.before_ms, self.after_ms, 0) + self.grace_ms + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpans:
    """Functions that give the window of a left record; None where it is the widest.

    Attributes:
        before: Gives how much older a right record may be, as a timedelta.
        after: How much younger.
    """

    before: Callable[[Any], timedelta] | None = None
    after: Callable[[Any], timedelta] | None = None
