"""What time it is for an operator: one clock, whatever time means to the application.

An operator that does anything by event time is given its clock when it opens
(`KeyedOperator.event_clock`), and asks nobody else. With ``event_time = watermark`` that is the
application's watermark, which moves when an epoch ends; with ``event_time = stream-time`` each key
group has the largest timestamp that came to the operator, as each task of Kafka Streams has.
Which of them it is, is decided here (`by_event_time`) and seen nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final, NamedTuple, TypeVar

from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.core.options import KernelOptions
from mustela.plan.batch import Batch, Order
from mustela.plan.time import EpochTime
from mustela.state.kinds.layout import STREAM_TIME

__all__ = [
    "EventClock",
    "Move",
    "StreamTimeClock",
    "WallClock",
    "WatermarkClock",
    "by_event_time",
]

T = TypeVar("T")

_LENGTH: Final = 8
_NOTHING_CAME: Final = -1


def by_event_time(options: KernelOptions, *, watermark: T, stream_time: T) -> T:
    """Return one of two things, by what event time means to the application.

    Example:
        >>> by_event_time(KernelOptions(event_time="stream-time"), watermark="w", stream_time="s")
        's'
    """
    return stream_time if options.event_time == "stream-time" else watermark


class Move(NamedTuple):
    """The row by which the event time of a key group came to some time.

    Attributes:
        order: Its order.
        row: Its place among the rows that were given with it.
    """

    order: Order
    row: int


class EventClock(ABC):
    """Event time of one operator, in milliseconds; -1 or less where there is none yet."""

    @abstractmethod
    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return for each row the time at which it is judged; rows may move time.

        Args:
            batch: Rows in merged order.
            key_bytes: Their keys.
        """

    @abstractmethod
    def passed_by(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int] | None:
        """Return the time that has passed behind each row, before the next one is looked at.

        None where no row lets time pass: it passes behind all of them, when the epoch ends.
        """

    @abstractmethod
    def move(self, group: int, timestamp: int) -> int | None:
        """Let one record of a key group come; return the time that has passed then, or None."""

    @abstractmethod
    def at(self, group: int, order: Order | None) -> int:
        """Return the time at which a record in hand is judged that has come before.

        Args:
            group: Its key group.
            order: Its order, if that is known.
        """

    @abstractmethod
    def closed_until(self, group: int) -> int:
        """Return the time of a key group behind all rows so far; what ends before it is over."""

    def save(self) -> list[int]:
        """Write what an epoch after this one has to know; return the key groups that moved."""
        return []

    def keep_moves(self) -> None:  # noqa: B027 - most clocks are moved by no row
        """Remember from now on which rows move time, for `moved_to`."""

    def moved_to(self, group: int, time: int) -> Move | None:
        """Return the first row of this epoch at which a key group was that far, if there is one."""
        del group, time
        return None

    def kept_ms(self, *, needed: int, retained: int) -> int:
        """Return how far behind event time a row is still met.

        Args:
            needed: So long a row can make a difference.
            retained: So long the store of Kafka Streams keeps it.
        """
        del retained
        return needed


class WatermarkClock(EventClock):
    """The application's watermark.

    A row is judged by the lower of the epoch's watermark and its own order time less how far
    records of its topic may lie behind, so that the answer does not depend on where an epoch was
    cut, and never by less than the watermark of the epoch before, which has closed windows already.

    Args:
        time: That of the epoch.
        lag_ms: How far behind the watermark the operator's input may lie, because steps before it
            hold rows back.
    """

    def __init__(self, time: EpochTime, lag_ms: int = 0) -> None:
        self._time = time
        self._lag_ms = lag_ms

    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return for each row the time at which it is judged."""
        del key_bytes
        lag, order = self._lag_ms, batch.order
        if order is None:
            return list(repeat(self._time.watermark - lag, len(batch)))
        times = self._time.judge(order)
        return [time - lag for time in times] if lag else times

    def passed_by(self, batch: Batch, key_bytes: Sequence[bytes]) -> None:
        """Return None: time passes when the epoch ends."""

    def move(self, group: int, timestamp: int) -> None:
        """Return None: time passes when the epoch ends."""

    def at(self, group: int, order: Order | None) -> int:
        """Return the time at which a record in hand is judged."""
        del group
        reached = self._time.before if order is None else self._time.judge([order])[0]
        return reached - self._lag_ms

    def closed_until(self, group: int) -> int:
        """Return the watermark, as the operator's input comes to it."""
        del group
        return self._time.watermark - self._lag_ms


class StreamTimeClock(EventClock):
    """For each key group the largest timestamp so far, as each task of Kafka Streams has it.

    Args:
        store: Where it is kept from one epoch to the next; None if it begins anew with each.
    """

    def __init__(self, store: LaneStore | None) -> None:
        self._store = store
        self._now: dict[int, int] = {}
        self._saved: dict[int, int] = {}
        self._moves: dict[int, tuple[list[int], list[Move]]] | None = None

    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return for each row the time of its key group, which it may have moved itself."""
        assert self._store is not None
        groups = self._store.groups_of(key_bytes)
        now = self.times(groups)
        times: list[int] = []
        for timestamp, group in zip(batch.timestamps, groups, strict=True):
            time = now[group]
            if timestamp > time:
                now[group] = time = timestamp
            times.append(time)
        if self._moves is not None and batch.order is not None:
            self._remember(self._moves, zip(times, groups, batch.order, strict=True))
        return times

    def passed_by(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return the same: what a row moves time beyond is over before the next row."""
        return self.row_times(batch, key_bytes)

    def move(self, group: int, timestamp: int) -> int:
        """Let one record come; return the time of its key group."""
        now = self._now.get(group)
        if now is None:
            now = self._load(group)
        if timestamp <= now:
            return now
        self._now[group] = timestamp
        return timestamp

    def at(self, group: int, order: Order | None) -> int:
        """Return the time of the key group: the record in hand has moved it."""
        del order
        return self.closed_until(group)

    def closed_until(self, group: int) -> int:
        """Return the time of a key group behind all rows so far."""
        now = self._now.get(group)
        return self._load(group) if now is None else now

    def times(self, groups: Iterable[int]) -> dict[int, int]:
        """Return the times of key groups, and maybe of others; they may be changed until `save`."""
        for group in set(groups).difference(self._now):
            self._load(group)
        return self._now

    def save(self) -> list[int]:
        """Write the time of each key group in which it moved."""
        saved = self._saved
        moved = sorted(group for group, now in self._now.items() if now != saved[group])
        for group in moved:
            saved[group] = now = self._now[group]
            if self._store is not None:
                data = now.to_bytes(_LENGTH, "big", signed=True)
                self._store.group(group).put(STREAM_TIME, data)
        return moved

    def keep_moves(self) -> None:
        """Remember from now on which rows move time."""
        self._moves = {}

    def moved_to(self, group: int, time: int) -> Move | None:
        """Return the first row of this epoch at which a key group was that far."""
        times, moves = (self._moves or {}).get(group, ((), ()))
        at = bisect_left(times, time)
        return moves[at] if at < len(times) else None

    def kept_ms(self, *, needed: int, retained: int) -> int:
        """Return what Kafka Streams keeps: a row is found while it is younger than that."""
        del needed
        return retained - 1

    @staticmethod
    def _remember(
        moves: dict[int, tuple[list[int], list[Move]]], rows: Iterable[tuple[int, int, Order]]
    ) -> None:
        for row, (time, group, order) in enumerate(rows):
            times, places = moves.setdefault(group, ([], []))
            if not times or time > times[-1]:
                times.append(time)
                places.append(Move(order, row))

    def _load(self, group: int) -> int:
        data = None if self._store is None else self._store.group(group).get(STREAM_TIME)
        found = _NOTHING_CAME if data is None else int.from_bytes(data, "big", signed=True)
        self._now[group] = self._saved[group] = found
        return found


class WallClock(EventClock):
    """The epoch's wall-clock time, for what lasts a time by the clock.

    Args:
        time: That of the epoch.
    """

    def __init__(self, time: EpochTime) -> None:
        self._now_ms = time.now_ms

    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return the one time of the epoch for each row."""
        del key_bytes
        return [self._now_ms] * len(batch)

    def passed_by(self, batch: Batch, key_bytes: Sequence[bytes]) -> None:
        """Return None: the clock stands still in an epoch."""

    def move(self, group: int, timestamp: int) -> None:
        """Return None: records do not move it."""

    def at(self, group: int, order: Order | None) -> int:
        """Return the time of the epoch."""
        del group, order
        return self._now_ms

    def closed_until(self, group: int) -> int:
        """Return the time of the epoch."""
        del group
        return self._now_ms
