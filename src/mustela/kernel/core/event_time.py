"""What time it is for an operator: by the app's watermark, or by the records it has seen itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.core.operator import OperatorContext
from mustela.plan.batch import Batch, Order

__all__ = ["STREAM_TIME_KEY", "EventClock"]

STREAM_TIME_KEY: Final = b"\x00"
"""Where a store keeps the stream time of its key group. Kinds whose store keys are longer than one
byte never use it for a row."""

_LENGTH = 8


class EventClock:
    """Event time of one operator.

    With ``event_time = watermark`` a row is judged by the lower of the epoch's watermark and its
    own order time less how far records of its topic may lie behind, so that the answer does not
    depend on where an epoch was cut, and never by less than the watermark of the epoch before,
    which has closed windows already. With ``event_time = stream-time`` each key group has a
    largest timestamp of its own, kept in the operator's store, as each task of Kafka Streams has.

    Args:
        context: The stage around the operator.
        store: Where stream time is kept.
        lag_ms: How far behind the watermark the operator's input may lie, because steps before it
            hold rows back.
    """

    def __init__(self, context: OperatorContext, store: LaneStore, *, lag_ms: int = 0) -> None:
        self._by_stream = context.options.event_time == "stream-time"
        self._time = context.time
        self._store = store
        self._lag_ms = lag_ms
        self._now: dict[int, int] = {}
        self._moved: set[int] = set()
        self._moves: dict[int, tuple[list[int], list[Order]]] | None = None

    def keep_moves(self) -> None:
        """Remember from now on which rows move stream time, for `moved_to`."""
        if self._by_stream:
            self._moves = {}

    def moved_to(self, group: int, time: int) -> Order | None:
        """Return the order of the row by which a key group reached a stream time in this epoch.

        None by watermark, which no row moves, and where rows have no order.
        """
        times, places = (self._moves or {}).get(group, ((), ()))
        at = bisect_left(times, time)
        return places[at] if at < len(times) else None

    def row_times(self, batch: Batch, key_bytes: Sequence[bytes]) -> list[int]:
        """Return for each row the time at which it is judged; stream time moves with the rows.

        Args:
            batch: Rows in merged order.
            key_bytes: Their keys.
        """
        if self._by_stream:
            groups = self._store.groups_of(key_bytes)
            judged = self.advance(batch.timestamps, groups)
            if self._moves is not None and batch.order is not None:
                self._remember(self._moves, zip(judged, groups, batch.order, strict=True))
            return judged
        lag, order = self._lag_ms, batch.order
        if order is None:
            return list(repeat(self._time.watermark - lag, len(batch)))
        times = self._time.judge(order)
        return [time - lag for time in times] if lag else times

    def closed_until(self, group: int) -> int:
        """Return the time of a key group behind all rows so far; what ends before it is over."""
        if not self._by_stream:
            return self._time.watermark - self._lag_ms
        now = self._now.get(group)
        return self._load(group) if now is None else now

    def save(self) -> list[int]:
        """Write the stream time of each key group in which it moved; return these groups."""
        moved = sorted(self._moved)
        for group in moved:
            data = self._now[group].to_bytes(_LENGTH, "big", signed=True)
            self._store.group(group).put(STREAM_TIME_KEY, data)
        self._moved.clear()
        return moved

    def advance(self, timestamps: Sequence[int], groups: Sequence[int]) -> list[int]:
        """Move the stream time of key groups with their rows; return it for each row."""
        now = self._now
        for group in set(groups).difference(now):
            self._load(group)
        times: list[int] = []
        for timestamp, group in zip(timestamps, groups, strict=True):
            time = now[group]
            if timestamp > time:
                now[group] = time = timestamp
                self._moved.add(group)
            times.append(time)
        return times

    @staticmethod
    def _remember(
        moves: dict[int, tuple[list[int], list[Order]]], rows: Iterable[tuple[int, int, Order]]
    ) -> None:
        for time, group, place in rows:
            times, places = moves.setdefault(group, ([], []))
            if not times or time > times[-1]:
                times.append(time)
                places.append(place)

    def _load(self, group: int) -> int:
        data = self._store.group(group).get(STREAM_TIME_KEY)
        found = -1 if data is None else int.from_bytes(data, "big", signed=True)
        self._now[group] = found
        return found
