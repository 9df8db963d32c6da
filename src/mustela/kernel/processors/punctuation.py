"""The schedules of a processor: which punctuators are due, and when they are due again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import msgspec

from mustela.api.timers import PunctuationType, Punctuator, TimerError
from mustela.plan.time import NEVER
from mustela.state.kinds.layout import RowView
from mustela.state.kinds.timer import SCHEDULE_ROW

__all__ = ["GroupSchedules", "Schedule"]

_NUMBER_BYTES = 4


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The stored form of a schedule.

    Attributes:
        kind: A `PunctuationType`.
        interval_ms: From one tick to the next.
        next_ms: The next tick.
        cancelled: Whether it has ended.
    """

    kind: str
    interval_ms: int
    next_ms: int
    cancelled: bool = False


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(_Stored).decode


class Schedule:
    """One schedule of a key group; users get its `cancel`.

    Args:
        kind: The kind of time that it follows.
        interval_ms: From one tick to the next.
        next_ms: The next tick.
        punctuator: What is called.
        cancelled: Whether it has ended.
    """

    __slots__ = ("cancelled", "interval_ms", "kind", "next_ms", "punctuator")

    def __init__(
        self,
        kind: PunctuationType,
        interval_ms: int,
        next_ms: int,
        *,
        punctuator: Punctuator,
        cancelled: bool = False,
    ) -> None:
        self.kind = kind
        self.interval_ms = interval_ms
        self.next_ms = next_ms
        self.punctuator = punctuator
        self.cancelled = cancelled

    def cancel(self) -> None:
        """End the schedule."""
        self.cancelled = True

    def move(self, now_ms: int) -> None:
        """Move to the first tick after ``now_ms``; those in between are skipped.

        Example:
            >>> schedule = Schedule(
            ...     PunctuationType.STREAM_TIME, 10, 0, punctuator=print)
            >>> schedule.move(45)
            >>> schedule.next_ms
            50
        """
        self.next_ms += ((now_ms - self.next_ms) // self.interval_ms + 1) * self.interval_ms


class GroupSchedules:
    """The schedules of a processor in one key group, during an epoch.

    A processor is created again for each epoch, and its ``init`` makes the same schedules as the
    last time: the nth schedule of an ``init`` continues the nth stored one, if both have the same
    type and interval. A cancelled one stays cancelled.

    Args:
        view: The rows of the store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="t", kind="timer"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("t")
        >>> schedules = GroupSchedules(view)
        >>> schedule = schedules.add(PunctuationType.WALL_CLOCK_TIME, 10, print, now_ms=5)
        >>> [due.next_ms for due in schedules.due(PunctuationType.WALL_CLOCK_TIME, 40)]
        [15]
        >>> schedules.next_ms(PunctuationType.WALL_CLOCK_TIME)
        45
    """

    __slots__ = ("_known", "_schedules", "_sealed", "_view")

    def __init__(self, view: RowView) -> None:
        self._view = view
        self._schedules: list[Schedule] = []
        self._known: list[bytes | None] = []
        self._sealed = False

    def add(
        self,
        kind: PunctuationType,
        interval_ms: int,
        punctuator: Punctuator,
        *,
        now_ms: int,
        start_ms: int | None = None,
    ) -> Schedule:
        """Return the next schedule of ``init``: a new one, or the stored one that it continues.

        A new stream-time schedule begins at time 0, so that all are in step; a wall-clock schedule
        has its first tick one interval from now. With a start, all ticks are whole intervals from
        it, and the first wall-clock tick is never in the past.

        Raises:
            TimerError: If ``init`` is over.
        """
        if self._sealed:
            msg = "schedule was called after init"
            raise TimerError(
                msg,
                why="a processor is created again for each epoch, and its only schedules are "
                "those that its init makes",
                fix="schedule it in init, or register a timer, which lives in a store",
            )
        stored = self._view.get(_row(len(self._schedules)))
        known = None if stored is None else _DECODE(stored)
        goes_on = (
            known is not None
            and (known.kind, known.interval_ms) == (kind.value, interval_ms)
            and (start_ms is None or (known.next_ms - start_ms) % interval_ms == 0)
        )
        if known is not None and goes_on:
            next_ms, cancelled = known.next_ms, known.cancelled
        else:
            by_stream, cancelled = kind is PunctuationType.STREAM_TIME, False
            next_ms = 0 if by_stream else now_ms + interval_ms
            if start_ms is not None:
                passed = 0 if by_stream else -((start_ms - now_ms) // interval_ms)
                next_ms = start_ms + max(0, passed) * interval_ms
        schedule = Schedule(kind, interval_ms, next_ms, punctuator=punctuator, cancelled=cancelled)
        self._schedules.append(schedule)
        self._known.append(stored)
        return schedule

    def seal(self) -> None:
        """Refuse further schedules: ``init`` is over."""
        self._sealed = True

    def due(self, kind: PunctuationType, now_ms: int) -> Iterator[Schedule]:
        """Iterate over the schedules with a tick <= now_ms, by tick, each once.

        A schedule moves to its next tick after ``now_ms`` when the following one is requested.
        """
        ticking = [s for s in self._schedules if s.kind is kind and s.next_ms <= now_ms]
        ticking.sort(key=lambda schedule: schedule.next_ms)
        for schedule in ticking:
            if not schedule.cancelled:
                yield schedule
                schedule.move(now_ms)

    def next_ms(self, kind: PunctuationType) -> int:
        """Return the first tick of a kind of time, or `NEVER`."""
        ticks = (s.next_ms for s in self._schedules if s.kind is kind and not s.cancelled)
        return min(ticks, default=NEVER)

    def save(self) -> None:
        """Write what has changed, and remove what ``init`` no longer schedules."""
        view = self._view
        for number, (schedule, known) in enumerate(zip(self._schedules, self._known, strict=True)):
            stored = _ENCODE(
                _Stored(
                    schedule.kind.value,
                    schedule.interval_ms,
                    schedule.next_ms,
                    schedule.cancelled,
                )
            )
            if stored != known:
                view.put(_row(number), stored)
        for number in count(len(self._schedules)):
            if view.get(_row(number)) is None:
                return
            view.put(_row(number), None)


def _row(number: int) -> bytes:
    return SCHEDULE_ROW + number.to_bytes(_NUMBER_BYTES, "big")
