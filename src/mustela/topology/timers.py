"""Timers and punctuators: what a processor asks to be called for besides its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from mustela.errors import UsageError
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec

__all__ = [
    "Cancellable",
    "PunctuationType",
    "Punctuator",
    "TimeDomain",
    "Timer",
    "TimerError",
    "TimerKeyError",
    "interval_ms",
    "moment_ms",
    "timer_store",
]

K = TypeVar("K")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_AT_MAX = 2**62

Punctuator = Callable[[int], Any]
"""Called with the time at which it runs, in milliseconds: stream time or wall-clock time."""


class TimerError(UsageError):
    """A timer or a schedule cannot be set as it was asked for."""

    code = "TIMER"


class TimerKeyError(TimerError):
    """A timer was asked for a key whose state is somewhere else."""

    code = "TIMER_KEY_ELSEWHERE"


class PunctuationType(Enum):
    """By which time a punctuator is called.

    Attributes:
        STREAM_TIME: The time that the records tell; it stands still while none comes.
        WALL_CLOCK_TIME: The time of the clock; it goes on while no record comes.

    Example:
        >>> PunctuationType.STREAM_TIME.value
        'stream-time'
    """

    STREAM_TIME = "stream-time"
    WALL_CLOCK_TIME = "wall-clock-time"


class TimeDomain(Enum):
    """By which time a timer fires.

    Attributes:
        EVENT_TIME: The watermark, or with ``event_time = stream-time`` the stream time of the step.
        PROCESSING_TIME: The clock.

    Example:
        >>> TimeDomain.PROCESSING_TIME.value
        'processing-time'
    """

    EVENT_TIME = "event-time"
    PROCESSING_TIME = "processing-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer(Generic[K]):
    """A timer that fires: what `Processor.on_timer` is given.

    Attributes:
        key: The key that it was registered for.
        timestamp: The time that it was registered for, in milliseconds.
        name: Its name; empty where it was given none.
        domain: By which time it fires.

    Example:
        >>> Timer(key="ann", timestamp=60_000).time.isoformat()
        '1970-01-01T00:01:00+00:00'
    """

    key: K
    timestamp: int
    name: str = ""
    domain: TimeDomain = TimeDomain.EVENT_TIME

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime in UTC."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)


class Cancellable(Protocol):
    """A schedule that can be ended, as `ProcessorContext.schedule` returns it."""

    def cancel(self) -> None:
        """End the schedule: its punctuator is not called again, also not behind a restart."""
        ...


def timer_store(step: str, key: Serde[Any] | None = None) -> StoreSpec:
    """Return the store in which a processor step keeps its timers, schedules and stream time.

    Args:
        step: The step's name.
        key: Serde of the keys that its records come by.

    Example:
        >>> timer_store("sessions").name, timer_store("sessions").logged
        ('sessions-timers', True)
    """
    return StoreSpec(name=f"{step}-timers", kind="timer", key_serde=key)


def moment_ms(at: int | datetime) -> int:
    """Return a moment as milliseconds since 1970-01-01 UTC.

    Raises:
        TimerError: If it is no moment: not an int, a datetime without a time zone, or out of range.

    Example:
        >>> moment_ms(datetime(1970, 1, 1, 0, 1, tzinfo=UTC)), moment_ms(5)
        (60000, 5)
    """
    if isinstance(at, datetime):
        if at.tzinfo is None:
            msg = f"a timer cannot be set for {at.isoformat()}: it has no time zone"
            raise TimerError(msg, fix="datetime(…, tzinfo=UTC)")
        at = (at - _EPOCH) // _MILLISECOND
    if type(at) is not int or not -_AT_MAX <= at < _AT_MAX:
        msg = f"a timer cannot be set for {at!r}"
        raise TimerError(msg, fix="give milliseconds since 1970-01-01 UTC, or an aware datetime")
    return at


def interval_ms(interval: timedelta) -> int:
    """Return the interval of a schedule as milliseconds.

    Raises:
        TimerError: If it is no timedelta, or shorter than a millisecond.

    Example:
        >>> interval_ms(timedelta(seconds=10))
        10000
    """
    given: object = interval
    if not isinstance(given, timedelta):
        msg = f"the interval of a schedule is a timedelta, not {given!r}"
        raise TimerError(msg, fix="schedule(timedelta(seconds=10), …)")
    if given < _MILLISECOND:
        msg = f"a schedule cannot have the interval {given}"
        raise TimerError(msg, why="time goes on in milliseconds", fix="use one millisecond or more")
    return given // _MILLISECOND
