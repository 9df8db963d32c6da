"""Timers and punctuators: calls that a processor asks for besides those for records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import CodeType
from typing import Any, Generic, Protocol, TypeVar

from mustela.errors import UsageError
from mustela.model import FixedKeyRecord, Record, fixed_key_record
from mustela.serdes.base import Serde
from mustela.spans import span_ms
from mustela.state.interfaces import StoreSpec

__all__ = [
    "Cancellable",
    "FixedKeyTimer",
    "PunctuationType",
    "Punctuator",
    "TimeDomain",
    "Timer",
    "TimerError",
    "TimerKeyError",
    "acts_on_time",
    "interval_ms",
    "moment_ms",
    "timer_store",
]

K = TypeVar("K")
V = TypeVar("V")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_AT_MAX = 2**62
_BASES = frozenset(
    {
        *("Processor", "FixedKeyProcessor", "ContextualProcessor", "ContextualFixedKeyProcessor"),
        "WrappedProcessor",
    }
)
_ROOM = "mustela.api."

Punctuator = Callable[[int], Any]
"""Called with the time at which it runs, in milliseconds: stream time or wall-clock time."""


class TimerError(UsageError):
    """A timer or a schedule cannot be set as requested."""

    code = "TIMER"


class TimerKeyError(TimerError):
    """A timer was requested for a key whose state is in another key group."""

    code = "TIMER_KEY_ELSEWHERE"


class PunctuationType(Enum):
    """The clock by which a punctuator is called.

    Attributes:
        STREAM_TIME: The time given by the records; it stands still while none arrive.
        WALL_CLOCK_TIME: The wall clock; it advances while no records arrive.

    Example:
        >>> PunctuationType.STREAM_TIME.value
        'stream-time'
    """

    STREAM_TIME = "stream-time"
    WALL_CLOCK_TIME = "wall-clock-time"


class TimeDomain(Enum):
    """The clock by which a timer fires.

    Attributes:
        EVENT_TIME: The watermark, or with ``event_time = stream-time`` the stream time of the step.
        PROCESSING_TIME: The wall clock.

    Example:
        >>> TimeDomain.PROCESSING_TIME.value
        'processing-time'
    """

    EVENT_TIME = "event-time"
    PROCESSING_TIME = "processing-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer(Generic[K]):
    """A timer that fires: the argument of `Processor.on_timer`.

    Attributes:
        key: The key for which it was registered.
        timestamp: The time for which it was registered, in milliseconds.
        name: Its name; empty if it has none.
        domain: The clock by which it fires.

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

    def with_value(self, value: V) -> Record[K, V]:
        """Return a record with the timer's key and timestamp, to be forwarded.

        Example:
            >>> Timer(key="ann", timestamp=60_000).with_value("gone")
            Record(key='ann', value='gone', timestamp=60000)
        """
        return Record(self.key, value, max(self.timestamp, 0))


class FixedKeyTimer(Timer[K]):
    """A timer of a `FixedKeyProcessor`: records made from it have its key."""

    __slots__ = ()

    def with_value(self, value: V) -> FixedKeyRecord[K, V]:  # type: ignore[override]
        """Return a record with the timer's key and timestamp, to be forwarded.

        Example:
            >>> FixedKeyTimer(key="ann", timestamp=60_000).with_value("gone")
            FixedKeyRecord(key='ann', value='gone', timestamp=60000)
        """
        return fixed_key_record(self.key, value, max(self.timestamp, 0))


class Cancellable(Protocol):
    """A schedule that can be ended; returned by `ProcessorContext.schedule`."""

    def cancel(self) -> None:
        """End the schedule: its punctuator is not called again, not even after a restart.

        Example:
            >>> class Once:
            ...     def init(self, context):
            ...         by_clock = PunctuationType.WALL_CLOCK_TIME
            ...         self.schedule = context.schedule(timedelta(seconds=10), by_clock, self.call)
            ...
            ...     def call(self, now):
            ...         self.schedule.cancel()
        """
        ...


def timer_store(name: str, key: Serde[Any] | None = None) -> StoreSpec:
    """Return the store in which a processor step keeps its timers, schedules and stream time.

    Args:
        name: The store's name.
        key: Serde of the keys of the step's records.

    Example:
        >>> timer_store("sessions.timers").kind, timer_store("sessions.timers").logged
        ('timer', True)
    """
    return StoreSpec(name=name, kind="timer", key_serde=key)


def acts_on_time(processor: type[Any]) -> bool:
    """Say whether processors of a class may register timers or schedule punctuators.

    Their step then has a store for that, and runs where the state of a key is. They may if the
    class has an ``on_timer``, if it has ``punctuates = True``, or if one of its methods calls
    something named ``schedule``; ``punctuates = False`` says that this is something else.

    Example:
        >>> class Hourly:
        ...     def init(self, context):
        ...         context.schedule(timedelta(hours=1), PunctuationType.WALL_CLOCK_TIME, print)
        >>> class Plain:
        ...     def process(self, record):
        ...         print(record)
        >>> acts_on_time(Hourly), acts_on_time(Plain)
        (True, False)
    """
    own = [base for base in processor.__mro__ if not _is_ours(base)]
    if any("on_timer" in vars(base) for base in own):
        return True
    said: bool | None = getattr(processor, "punctuates", None)
    if said is not None:
        return said
    members = (member for base in own for member in vars(base).values())
    codes = (getattr(getattr(m, "__func__", m), "__code__", None) for m in members)
    return any(_names(code, "schedule") for code in codes if code is not None)


def _is_ours(base: type[Any]) -> bool:
    return base.__qualname__ in _BASES and base.__module__.startswith(_ROOM)


def _names(code: CodeType, name: str) -> bool:
    """Whether a function, or one inside it, mentions an attribute or a global of that name."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return name in code.co_names or any(_names(one, name) for one in inner)


def moment_ms(at: int | datetime) -> int:
    """Return a moment as milliseconds since 1970-01-01 UTC.

    Raises:
        TimerError: If it is neither an int nor a datetime with a time zone, or is out of range.

    Example:
        >>> moment_ms(datetime(1970, 1, 1, 0, 1, tzinfo=UTC)), moment_ms(5)
        (60000, 5)
    """
    if isinstance(at, datetime):
        if at.tzinfo is None:
            msg = f"a timer cannot be set for {at.isoformat()}: it has no time zone"
            raise TimerError(msg, fix="write datetime(…, tzinfo=UTC)")
        at = (at - _EPOCH) // _MILLISECOND
    if type(at) is not int or not -_AT_MAX <= at < _AT_MAX:
        msg = f"a timer cannot be set for {at!r}"
        raise TimerError(msg, fix="give milliseconds since 1970-01-01 UTC, or an aware datetime")
    return at


def interval_ms(interval: timedelta) -> int:
    """Return the interval of a schedule as milliseconds.

    Raises:
        TimerError: If it is not a timedelta of whole milliseconds, at least one.

    Example:
        >>> interval_ms(timedelta(seconds=10))
        10000
    """
    return span_ms("schedule", "interval", interval, error=TimerError, sign="positive")
