"""Event time for operators: one clock, whatever event time means to the application.

An operator that does anything by event time gets its clock when it opens
(`KeyedOperator.event_clock`) and uses no other. With ``event_time = watermark`` that is the
application's watermark, which advances when an epoch ends; with ``event_time = stream-time`` it is,
for each key group, the largest timestamp the operator has seen, as for each task of Kafka Streams.
Only `by_event_time` in this module knows which of the two is in use.
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
    """Return one of two arguments, depending on what event time means to the application.

    Example:
        >>> by_event_time(KernelOptions(event_time="stream-time"), watermark="w", stream_time="s")
        's'
    """
    return stream_time if options.event_time == "stream-time" else watermark


class Move(NamedTuple):
    """The row that advanced the event time of a key group to some time.

    Attributes:
        order: Its order.
        row: Its place among the rows that were given with it.
    """

    order: Order
    row: int


class EventClock(ABC):
    """Event time of one operator, in milliseconds; -1 or less while there is none yet."""

    @abstractmethod
    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return, for each row, the event time it is judged by; rows may advance time.

        Args:
            batch: Rows in merged order.
            key_bytes: Their keys.
        """

    @abstractmethod
    def passed_by(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int] | None:
        """Return the event time after each row and before the next one.

        None where rows do not advance time: it advances after all of them, when the epoch ends.
        """

    @abstractmethod
    def move(self, group: int, timestamp: int) -> int | None:
        """Take one record of a key group; return the event time after it, or None."""

    @abstractmethod
    def at(self, group: int, order: Order | None) -> int:
        """Return the event time by which the current record, which was taken before, is judged.

        Args:
            group: Its key group.
            order: Its order, if that is known.
        """

    @abstractmethod
    def closed_until(self, group: int) -> int:
        """Return the time of a key group after all rows so far; what ends before it is closed."""

    def save(self) -> list[int]:
        """Write what later epochs need to know; return the key groups whose time advanced."""
        return []

    def keep_moves(self) -> None:  # noqa: B027 - most clocks do not depend on rows
        """Remember from now on which rows advance time, for `moved_to`."""

    def moved_to(self, group: int, time: int) -> Move | None:
        """Return the first row of this epoch at which a key group reached ``time``, or None."""
        del group, time
        return None

    def kept_ms(self, *, needed: int, retained: int) -> int:
        """Return how far behind event time a row can still be found.

        Args:
            needed: How long a row can make a difference.
            retained: How long the store of Kafka Streams keeps it.
        """
        del retained
        return needed


class WatermarkClock(EventClock):
    """The application's watermark.

    A row is judged by the lower of the epoch's watermark and its own order time minus the
    out-of-orderness of its topic, so that the answer does not depend on where an epoch was cut; but
    never by less than the watermark of the previous epoch, which has closed windows already.

    Args:
        time: That of the epoch.
        lag_ms: How far behind the watermark the operator's input may be, because earlier steps hold
            rows back.
    """

    def __init__(self, time: EpochTime, lag_ms: int = 0) -> None:
        self._time = time
        self._lag_ms = lag_ms

    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return, for each row, the event time it is judged by."""
        del key_bytes
        lag, order = self._lag_ms, batch.order
        if order is None:
            return list(repeat(self._time.watermark - lag, len(batch)))
        times = self._time.judge(order)
        return [time - lag for time in times] if lag else times

    def passed_by(self, batch: Batch, key_bytes: Sequence[bytes]) -> None:
        """Return None: time advances when the epoch ends."""

    def move(self, group: int, timestamp: int) -> None:
        """Return None: time advances when the epoch ends."""

    def at(self, group: int, order: Order | None) -> int:
        """Return the event time by which the current record is judged."""
        del group
        reached = self._time.before if order is None else self._time.judge([order])[0]
        return reached - self._lag_ms

    def closed_until(self, group: int) -> int:
        """Return the watermark minus the lag of the operator's input."""
        del group
        return self._time.watermark - self._lag_ms


class StreamTimeClock(EventClock):
    """The largest timestamp so far of each key group, like that of each task in Kafka Streams.

    Args:
        store: Where it is kept from one epoch to the next; None if it starts again in each.
    """

    def __init__(self, store: LaneStore | None) -> None:
        self._store = store
        self._now: dict[int, int] = {}
        self._saved: dict[int, int] = {}
        self._moves: dict[int, tuple[list[int], list[Move]]] | None = None

    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return, for each row, the time of its key group, including the row itself."""
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
        """Return the row times: windows that a row closes are closed before the next row."""
        return self.row_times(batch, key_bytes)

    def move(self, group: int, timestamp: int) -> int:
        """Take one record; return the time of its key group."""
        now = self._now.get(group)
        if now is None:
            now = self._load(group)
        if timestamp <= now:
            return now
        self._now[group] = timestamp
        return timestamp

    def at(self, group: int, order: Order | None) -> int:
        """Return the time of the key group, including the current record."""
        del order
        return self.closed_until(group)

    def closed_until(self, group: int) -> int:
        """Return the time of a key group after all rows so far."""
        now = self._now.get(group)
        return self._load(group) if now is None else now

    def times(self, groups: Iterable[int]) -> dict[int, int]:
        """Return the times of at least these key groups; they may be changed until `save`."""
        for group in set(groups).difference(self._now):
            self._load(group)
        return self._now

    def save(self) -> list[int]:
        """Write the time of each key group whose time advanced."""
        saved = self._saved
        moved = sorted(group for group, now in self._now.items() if now != saved[group])
        for group in moved:
            saved[group] = now = self._now[group]
            if self._store is not None:
                data = now.to_bytes(_LENGTH, "big", signed=True)
                self._store.group(group).put(STREAM_TIME, data)
        return moved

    def keep_moves(self) -> None:
        """Remember from now on which rows advance time."""
        self._moves = {}

    def moved_to(self, group: int, time: int) -> Move | None:
        """Return the first row of this epoch at which a key group reached ``time``."""
        times, moves = (self._moves or {}).get(group, ((), ()))
        at = bisect_left(times, time)
        return moves[at] if at < len(times) else None

    def kept_ms(self, *, needed: int, retained: int) -> int:
        """Return what Kafka Streams keeps: a row is found while it is younger than ``retained``."""
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
    """The epoch's wall-clock time, for durations in processing time.

    Args:
        time: That of the epoch.
    """

    def __init__(self, time: EpochTime) -> None:
        self._now_ms = time.now_ms

    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return the epoch's time for each row."""
        del key_bytes
        return [self._now_ms] * len(batch)

    def passed_by(self, batch: Batch, key_bytes: Sequence[bytes]) -> None:
        """Return None: the clock does not advance within an epoch."""

    def move(self, group: int, timestamp: int) -> None:
        """Return None: records do not advance it."""

    def at(self, group: int, order: Order | None) -> int:
        """Return the time of the epoch."""
        del group, order
        return self._now_ms

    def closed_until(self, group: int) -> int:
        """Return the time of the epoch."""
        del group
        return self._now_ms
