"""Windows as users write them: how records are grouped by time.

All windows state their grace: how long after its end a window still takes late records. There is no
default, because it decides which records are lost and how long results wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mustela.api.errors import BadOptionError
from mustela.api.option import Option
from mustela.api.origin import user_origin
from mustela.api.spans import milliseconds
from mustela.api.window_specs import (
    SessionWindowSpec,
    SlidingWindowSpec,
    TimeWindowSpec,
    UnlimitedWindowSpec,
    WindowEmit,
    WindowSpec,
)
from mustela.errors import Origin
from mustela.model import TIME_MAX

__all__ = [
    "EmitStrategy",
    "SessionWindows",
    "SlidingWindows",
    "TimeWindows",
    "UnlimitedWindows",
    "check_windows_for",
    "window_spec",
]

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindows(Option):
    """Windows of a fixed size: tumbling, or hopping if the advance is smaller than the size.

    A window is [start, end): the start belongs to it, the end does not. Starts are multiples of
    the advance, counted from 1970-01-01 UTC; none is before that.

    Args:
        size: Length of a window.
        advance: From one window's start to the next one's; the size if not given.
        grace: How long after its end a window still takes late records; ``timedelta(0)`` for
            none.

    Raises:
        BadOptionError: If the size is not positive, the advance not positive or larger than the
            size, or the grace negative.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
        >>> clicks.windowed_by(minutes).count(store="clicks").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     click = driver.create_input_topic("clicks")
        ...     click.pipe_input("ann", "home", timestamp=1_000)
        ...     click.pipe_input("ann", "shop", timestamp=61_000)
        ...     for window, count in driver.create_output_topic("counts").read_key_values_to_list():
        ...         print(window, count)
        [ann@0/60000] 1
        [ann@60000/120000] 1
    """

    size: timedelta
    advance: timedelta | None = None
    grace: timedelta

    def __post_init__(self) -> None:
        """Check the spans."""
        self.spec()

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        """Return start and end of each window that holds a moment, the earliest first.

        Args:
            timestamp: The moment, in milliseconds.

        Example:
            >>> second = timedelta(seconds=1)
            >>> hops = TimeWindows(size=2 * second, advance=second, grace=0 * second)
            >>> hops.windows_for(5_300)
            [(4000, 6000), (5000, 7000)]
        """
        spec = self.spec()
        return [(start, start + spec.size_ms) for start in spec.starts(timestamp)]

    def spec(self) -> TimeWindowSpec:
        """Return the windows in milliseconds."""
        at = user_origin()
        size = milliseconds("TimeWindows", "size", self.size, at=at, sign="positive")
        said = self.size if self.advance is None else self.advance
        advance = milliseconds("TimeWindows", "advance", said, at=at, sign="positive")
        if advance > size:
            msg = f"TimeWindows cannot advance by {said} with a size of {self.size}"
            raise BadOptionError(
                msg,
                at=at,
                why="records between two windows would belong to none",
                fix="make advance at most size, or leave it out for tumbling windows",
                fields={"option": "advance", "value": said},
            )
        grace = milliseconds("TimeWindows", "grace", self.grace, at=at)
        return TimeWindowSpec(size_ms=size, advance_ms=advance, grace_ms=grace)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindows(Option):
    """Windows that slide with the records: one for each set of records that are close together.

    A record with timestamp t belongs to every window around it: [t - time_difference, t] and, once
    there is a later record inside, [t + 1, t + 1 + time_difference]. Both ends belong to a window,
    and windows that would hold the same records are one. No window starts before 1970-01-01 UTC:
    earlier ones are all replaced by the first. Records without a value are left out.

    Args:
        time_difference: How far apart two records of a window may be.
        grace: How long after its end a window still takes late records; ``timedelta(0)`` for
            none.

    Raises:
        BadOptionError: If a span is negative.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> alarms = builder.stream("alarms", key=str, value=str).group_by_key()
        >>> close = SlidingWindows(time_difference=timedelta(seconds=10), grace=timedelta(0))
        >>> alarms.windowed_by(close).count(store="alarms").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     alarm = driver.create_input_topic("alarms")
        ...     alarm.pipe_input("pump", "hot", timestamp=20_000)
        ...     alarm.pipe_input("pump", "hot", timestamp=25_000)
        ...     driver.create_output_topic("counts").read_values_to_list()
        [1, 1, 2]
    """

    time_difference: timedelta
    grace: timedelta

    def __post_init__(self) -> None:
        """Check the spans."""
        self.spec()

    def spec(self) -> SlidingWindowSpec:
        """Return the windows in milliseconds."""
        at = user_origin()
        difference = milliseconds("SlidingWindows", "time_difference", self.time_difference, at=at)
        grace = milliseconds("SlidingWindows", "grace", self.grace, at=at)
        return SlidingWindowSpec(difference_ms=difference, grace_ms=grace)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindows(Option):
    """Sessions: records of a key that follow one another without a long pause.

    A session is [time of its first record, time of its last record]. A record no further than the
    gap from a session extends it, and a record between two sessions merges them.

    Args:
        inactivity_gap: The longest pause inside a session.
        grace: How long after that pause a session still takes late records; ``timedelta(0)`` for
            none.

    Raises:
        BadOptionError: If the gap is not positive or the grace negative.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> visits = builder.stream("visits", key=str, value=str).group_by_key()
        >>> sessions = SessionWindows(inactivity_gap=timedelta(minutes=30), grace=timedelta(0))
        >>> visits.windowed_by(sessions).count(store="visits").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     visit = driver.create_input_topic("visits")
        ...     visit.pipe_input("ann", "home", timestamp=0)
        ...     visit.pipe_input("ann", "shop", timestamp=60_000)
        ...     driver.create_output_topic("counts").read_values_to_list()
        [1, None, 2]
    """

    inactivity_gap: timedelta
    grace: timedelta

    def __post_init__(self) -> None:
        """Check the spans."""
        self.spec()

    def spec(self) -> SessionWindowSpec:
        """Return the windows in milliseconds."""
        at = user_origin()
        gap = milliseconds(
            "SessionWindows", "inactivity_gap", self.inactivity_gap, at=at, sign="positive"
        )
        grace = milliseconds("SessionWindows", "grace", self.grace, at=at)
        return SessionWindowSpec(gap_ms=gap, grace_ms=grace)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlimitedWindows(Option):
    """One window that begins at a moment and never ends; earlier records are left out.

    Args:
        start: Where the window begins: an aware datetime, or milliseconds; 1970-01-01 UTC if not
            given.

    Raises:
        BadOptionError: If the start is a datetime without a time zone, or before 1970.

    Example:
        >>> from datetime import UTC, datetime
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> sales = builder.stream("sales", key=str, value=int).group_by_key()
        >>> this_year = UnlimitedWindows(start=datetime(2026, 1, 1, tzinfo=UTC))
        >>> totals = sales.windowed_by(this_year).reduce(int.__add__, store="totals")
    """

    start: datetime | int = _EPOCH

    def __post_init__(self) -> None:
        """Check the start."""
        self.spec()

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        """Return start and end of the window if it holds a moment; the end is `TIME_MAX`.

        Args:
            timestamp: The moment, in milliseconds.

        Example:
            >>> UnlimitedWindows().windows_for(5)
            [(0, 9223372036854775807)]
        """
        return [(start, TIME_MAX) for start in self.spec().starts(timestamp)]

    def spec(self) -> UnlimitedWindowSpec:
        """Return the start in milliseconds."""
        at = user_origin()
        start: Any = self.start
        if type(start) is int and 0 <= start < TIME_MAX:
            return UnlimitedWindowSpec(start_ms=start)
        if not isinstance(start, datetime) or start.tzinfo is None or start < _EPOCH:
            msg = f"UnlimitedWindows cannot start at {start!r}"
            raise BadOptionError(
                msg,
                at=at,
                why="a moment needs a time zone, and no record is from before 1970",
                fix="write start=datetime(2026, 1, 1, tzinfo=UTC), or milliseconds since 1970",
                fields={"option": "start", "value": start},
            )
        return UnlimitedWindowSpec(start_ms=(start - _EPOCH) // _MILLISECOND)


def window_spec(windows: object, *, at: Origin) -> WindowSpec:
    """Return windows in milliseconds.

    Args:
        windows: What the user gave to ``windowed_by``.
        at: The user's line.

    Raises:
        BadOptionError: If they are not windows, or choose the windows of a moment by themselves.
    """
    if not isinstance(windows, TimeWindows | SlidingWindows | UnlimitedWindows | SessionWindows):
        msg = f"windowed_by needs windows, not {windows!r}"
        raise BadOptionError(
            msg,
            at=at,
            fix="pass TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows",
            fields={"option": "windows"},
        )
    check_windows_for(windows, at=at)
    return windows.spec()


def check_windows_for(windows: object, *, at: Origin) -> None:
    """Refuse windows of a class with its own ``windows_for``: nothing would call it.

    Raises:
        BadOptionError: If the class has one.
    """
    kind = type(windows)
    owner = next((one for one in kind.__mro__ if "windows_for" in vars(one)), None)
    if owner is None or owner.__module__ == __name__:
        return
    msg = f"{kind.__name__} cannot choose the windows of a moment by its own windows_for"
    raise BadOptionError(
        msg,
        at=at,
        why="windows begin at multiples of their advance; records are put into them in batches, "
        "and they are closed and dropped, by that rule alone",
        fix="use the options of Mustela's own windows, or make the window a part of the key: "
        'group_by(lambda key, value: f"{key}@{day_of(value)}", key=str), with your own function',
        fields={"option": "windows", "class": kind.__name__},
    )


@dataclass(frozen=True, slots=True)
class EmitStrategy:
    """When a windowed aggregation sends on a window's result; made by one of its two methods.

    Example:
        >>> EmitStrategy.on_window_close()
        EmitStrategy(emit='close')
    """

    emit: WindowEmit

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Return the default: each change of a window is sent on."""
        return cls("update")

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Return the strategy that sends on each window once, with its last value, when it is over.

        A window is over when event time has reached its end plus its grace.
        """
        return cls("close")
