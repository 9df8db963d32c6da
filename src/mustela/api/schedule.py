"""When a scheduled source ticks, and what happens to ticks that were missed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Final, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from mustela.api.errors import BadOptionError
from mustela.api.spans import milliseconds
from mustela.config.units import show_duration

__all__ = ["CatchUp", "CronSchedule", "EverySchedule", "Schedule"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_TICKS_MAX: Final = 1_000
_ON_TIME: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """What happens to ticks that were missed because the application was down or busy.

    Attributes:
        kind: The name of the class method that made it.
        ticks_max: For ``all``: how many ticks one epoch handles at most; the others follow in the
            next.
        tolerance: For ``none``: how late a tick may be handled and still count as on time.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import StreamsBuilder
        >>> ticks = StreamsBuilder().scheduled(
        ...     "beat",
        ...     lambda tick: [("beat", tick.number)],
        ...     every=timedelta(seconds=10),
        ...     catch_up=CatchUp.none(tolerance=timedelta(seconds=2)),
        ... )
    """

    kind: Literal["all", "last", "none"]
    ticks_max: int = _TICKS_MAX
    tolerance: timedelta = _ON_TIME

    def __post_init__(self) -> None:
        """Check the limits."""
        ticks_max: object = self.ticks_max
        if type(ticks_max) is not int or ticks_max < 1:
            msg = f"an epoch cannot catch up on {ticks_max!r} ticks"
            raise BadOptionError(msg, fix="write CatchUp.all(ticks_max=1_000)")
        milliseconds("CatchUp", "tolerance", self.tolerance)

    @classmethod
    def all(cls, *, ticks_max: int = _TICKS_MAX) -> CatchUp:
        """Handle each missed tick, the oldest first, each with its own time.

        Args:
            ticks_max: How many ticks one epoch handles at most.

        Raises:
            BadOptionError: If it is not a positive number.

        Example:
            >>> CatchUp.all(ticks_max=10).ticks_max
            10
        """
        return cls(kind="all", ticks_max=ticks_max)

    @classmethod
    def last(cls) -> CatchUp:
        """Handle only the last of the ticks that are due.

        Example:
            >>> CatchUp.last().kind
            'last'
        """
        return cls(kind="last")

    @classmethod
    def none(cls, *, tolerance: timedelta = _ON_TIME) -> CatchUp:
        """Skip missed ticks.

        Args:
            tolerance: The last of the ticks that are due is handled if it is no later than this.

        Raises:
            BadOptionError: If it is negative.

        Example:
            >>> CatchUp.none().tolerance
            datetime.timedelta(seconds=60)
        """
        return cls(kind="none", tolerance=tolerance)

    def choose(self, schedule: Schedule, handled: int, now: int) -> tuple[list[int], int]:
        """Return the ticks to handle now, and the time up to which ticks are then done.

        Args:
            schedule: When ticks are due.
            handled: The time up to which ticks are done, in milliseconds.
            now: The present, in milliseconds.

        Example:
            >>> minutes = EverySchedule(every_ms=60_000)
            >>> CatchUp.all(ticks_max=2).choose(minutes, 0, 200_000)
            ([60000, 120000], 120000)
            >>> CatchUp.last().choose(minutes, 0, 200_000)
            ([180000], 180000)
            >>> CatchUp.none(tolerance=timedelta(seconds=5)).choose(minutes, 0, 200_000)
            ([], 180000)
        """
        if self.kind == "all":
            due = list(islice(schedule.between(handled, now), self.ticks_max))
            return due, due[-1] if due else handled
        last = schedule.last(handled, now)
        if last is None:
            return [], handled
        on_time = self.kind == "last" or now - last <= self.tolerance // _MILLISECOND
        return [last] if on_time else [], last


@dataclass(frozen=True, slots=True, kw_only=True)
class EverySchedule:
    """Ticks at all multiples of an interval since 1970-01-01 UTC, moved by an offset.

    Attributes:
        every_ms: The interval.
        offset_ms: Less than the interval.

    Example:
        >>> quarters = EverySchedule(every_ms=900, offset_ms=100)
        >>> quarters.after(100), list(quarters.between(0, 2_000)), quarters.last(0, 2_000)
        (1000, [100, 1000, 1900], 1900)
    """

    every_ms: int
    offset_ms: int = 0

    @property
    def told(self) -> str:
        """The schedule in words."""
        offset = f" + {_show(self.offset_ms)}" if self.offset_ms else ""
        return f"every {_show(self.every_ms)}{offset}"

    @property
    def zone(self) -> tzinfo:
        """The time zone in which a tick's time is given."""
        return UTC

    def after(self, time: int) -> int | None:
        """Return the first tick after a time."""
        passed = (time - self.offset_ms) // self.every_ms
        return (passed + 1) * self.every_ms + self.offset_ms

    def between(self, behind: int, until: int) -> Iterator[int]:
        """Iterate over the ticks with behind < tick <= until."""
        tick = self.after(behind)
        while tick is not None and tick <= until:
            yield tick
            tick = tick + self.every_ms

    def last(self, behind: int, until: int) -> int | None:
        """Return the last tick with behind < tick <= until."""
        tick = (until - self.offset_ms) // self.every_ms * self.every_ms + self.offset_ms
        return tick if tick > behind else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """Ticks at the times of a cron expression, by the clock of a time zone.

    Where clocks go forward, a tick at a fixed time in the hour that is skipped comes at the end of
    that hour; where they go back, it comes once. This is what Debian's cron does.

    Attributes:
        expression: Five fields, or six with the seconds first.
        time_zone: Name of the time zone.

    Example:
        >>> six = CronSchedule(expression="0 6 * * *", time_zone="Europe/Berlin")
        >>> first = six.after(0)
        >>> datetime.fromtimestamp(first / 1000, six.zone).isoformat()
        '1970-01-01T06:00:00+01:00'
    """

    expression: str
    time_zone: str = "UTC"

    @property
    def told(self) -> str:
        """The schedule in words."""
        return f"cron {self.expression}, {self.time_zone}"

    @property
    def zone(self) -> tzinfo:
        """The time zone in which a tick's time is given."""
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)

    def check(self) -> None:
        """Check that the expression can be read, and is ever true.

        Raises:
            ValueError: If it cannot be read, or is never true.
        """
        try:
            found = self.after(0)
        except CronSimError as error:
            raise ValueError(str(error)) from error
        if found is None:
            msg = "no date matches it"
            raise ValueError(msg)

    def after(self, time: int) -> int | None:
        """Return the first tick after a time, None if there is none in fifty years."""
        return next(self._ticks(time), None)

    def between(self, behind: int, until: int) -> Iterator[int]:
        """Iterate over the ticks with behind < tick <= until."""
        for tick in self._ticks(behind):
            if tick > until:
                return
            yield tick

    def last(self, behind: int, until: int) -> int | None:
        """Return the last tick with behind < tick <= until."""
        # Ticks are searched forwards; the library's backward search only finds where to begin.
        for begin in (max(behind, self._near(until)), behind):
            newest = deque(self.between(begin, until), maxlen=1)
            if newest:
                return newest[0]
        return None

    def _near(self, until: int) -> int:
        """Return a time not far before the last tick that is not after ``until``."""
        backwards = CronSim(
            self.expression, self._local(until) + timedelta(seconds=1), reverse=True
        )
        earlier = [_milliseconds(moment) for moment in islice(backwards, 2)]
        return min(earlier, default=until) - 1

    def _ticks(self, behind: int) -> Iterator[int]:
        """Iterate over the ticks after a time; each one is later than the one before."""
        for moment in CronSim(self.expression, self._local(behind)):
            tick = _milliseconds(moment)
            if tick > behind:
                yield tick
                behind = tick

    def _local(self, time: int) -> datetime:
        return (_EPOCH + timedelta(milliseconds=time)).astimezone(self.zone)


Schedule = EverySchedule | CronSchedule


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _show(milliseconds: int) -> str:
    return show_duration(timedelta(milliseconds=milliseconds))
