"""What windowed operators share: late records, and windows that are emitted on close."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count, repeat
from operator import itemgetter
from struct import Struct
from typing import Any, Final

from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.event_time import EventClock
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.windows.window_headers import WindowHeaders
from mustela.model import TIME_MAX, Headers, SessionWindowed, Windowed
from mustela.plan.batch import SOURCE_ORDER, Batch, Order, Origins
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.layout import (
    TIME_BYTES,
    TIME_MIN,
    RowView,
    first_row,
    pack_time,
    time_rows,
    unpack_time,
)
from mustela.state.kinds.session import SessionRows
from mustela.state.kinds.window import WindowRows, window_keys
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["CLOSED_KEY", "WindowCloser", "drop_late", "in_merged_order", "windowed_keys"]

_START = Struct(">q")

CLOSED_KEY: Final = b"\x00c"
"""The key under which a store keeps, for each key group, how far windows have been emitted."""


class LateRecord(Exception):
    """A record came too late for its window."""


_Over = tuple[int, int, bytes, int, int, int, int, bytes, Headers]
"""A closed window: its moment, start, key, key group, its place among those of its key group, end,
closing time, row and headers. The moment is the start, or the end of a session. No two have the
same start and key, so windows are forwarded in the order of these tuples."""


def _told_until(view: RowView) -> int:
    stored = view.get(CLOSED_KEY)
    return 0 if stored is None else unpack_time(stored)


def drop_late(operator: KeyedOperator[Any], batch: Batch, rows: Sequence[int]) -> None:
    """Drop records that came too late; ``rows`` has a record once for each window it missed.

    All windowed steps drop records through this function only.
    """
    operator.count("dropped_late", len(rows))
    letters, order = operator.options.late_letters, batch.order
    if not letters or order is None:
        return
    bury, encode = operator.late_failures(), _value_encoder(operator)
    for row in dict.fromkeys(rows):
        if order[row][1] in letters:
            told = LateRecord("its window has closed")
            bury.one(batch, row, told, encode=encode)


def _value_encoder(operator: KeyedOperator[Any]) -> Callable[[Any], bytes | None] | None:
    """Return the encoder for values whose original bytes are not known."""
    node: WindowAggregateNode = operator.node
    if operator.step.role == "merge" and node.kind != "reduce":
        return None  # partial results
    if node.kind == "reduce" and node.store.value_serde is not None:
        return node.store.value_serde.serialize
    encode = ValueSerde().serialize
    if len(node.parents) > 1:  # each value is paired with the number of its parent
        return lambda tagged: encode(tagged[1])
    return encode


def in_merged_order(inputs: Sequence[Batch]) -> Batch:
    """Return the rows of several inputs by order, each value with the number of its input.

    The rows of a single input are returned unchanged.
    """
    if len(inputs) == 1:
        return inputs[0]
    tagged = [
        batch.with_values([(number, value) for value in batch.values])
        for number, batch in enumerate(inputs)
    ]
    return Batch.merge(tagged)


_new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def windowed_keys(
    keys: Iterable[Any], starts: Iterable[int], ends: Iterable[int], *, sessions: bool = False
) -> list[Windowed[Any]]:
    """Return many windowed keys; four times as fast as calling the class.

    Example:
        >>> windowed_keys(["a"], [0], [10])
        [Windowed(key='a', start=0, end=10)]
    """
    made: Any = SessionWindowed if sessions else Windowed
    return list(map(_new, repeat(made), zip(keys, starts, ends, strict=True)))


class WindowCloser:
    """Emits each window once, with its last value, when no record can change it any more.

    How far it has got is kept in the store, because the store may hold windows after they close.

    Args:
        operator: The aggregation.
        store: The store of its windows.
        clock: Its event time.
        codec: Of the rows of the store.
        headers: The headers of each window's last record, if they are forwarded.
    """

    def __init__(
        self,
        operator: KeyedOperator[WindowAggregateNode],
        store: LaneStore,
        clock: EventClock,
        codec: StoreCodec,
        *,
        headers: WindowHeaders | None = None,
    ) -> None:
        self._headers = headers
        self._operator = operator
        self._store = store
        self._clock = clock
        self._codec = codec
        self._node = operator.node
        if self._node.emit == "close":
            clock.keep_moves()

    def windows_over(self, last_start: Callable[[int], int], horizon: int) -> Batch | None:
        """Return the closed windows of all key groups.

        Args:
            last_start: Returns the start of the last closed window at an event time.
            horizon: Milliseconds from a window's start to its closing.
        """
        found: list[_Over] = []
        for group in self._store.groups:
            view = self._store.group(group)
            first, last = _told_until(view), last_start(self._clock.closed_until(group))
            if last < first:
                continue
            over = list(WindowRows(view).scan(first, last))
            if over:
                view.put(CLOSED_KEY, pack_time(last + 1))
                found += self._windows_of(group, over, horizon)
        return self._batch(found)

    def _windows_of(
        self, group: int, rows: Sequence[tuple[int, bytes, bytes]], horizon: int
    ) -> list[_Over]:
        """Return a key group's closed windows, from the rows of its store."""
        size = self._size()
        starts, keys, stored = zip(*rows, strict=True)
        headers: Iterable[Headers] = repeat(())
        if self._headers is not None:
            headers = self._headers.take(group, window_keys(starts, keys))
        ends = [min(start + size, TIME_MAX) for start in starts]
        closings = [start + horizon for start in starts]
        columns = (starts, starts, keys, repeat(group), count(), ends, closings, stored, headers)
        return list(zip(*columns, strict=False))  # some columns are infinite

    def sessions_over(self, horizon: int, retention: int | None) -> Batch | None:
        """Return the closed sessions of all key groups; remove expired ones.

        Args:
            horizon: Milliseconds from a session's end to its closing.
            retention: For how many milliseconds after its end a session is kept; None for ever.
        """
        found: list[_Over] = []
        for group in self._store.groups:
            view = self._store.group(group)
            now = self._clock.closed_until(group)
            first, last = _told_until(view), now - horizon
            floor = TIME_MIN if retention is None else now - retention
            ended = SessionRows(view).settle(last + 1, floor)
            over = [session for session in ended if session[2] >= first]  # others were told before
            if over:
                view.put(CLOSED_KEY, pack_time(last + 1))
                found += self._sessions_of(group, over, horizon)
        return self._batch(found)

    def _sessions_of(
        self, group: int, over: list[tuple[bytes, int, int, bytes]], horizon: int
    ) -> list[_Over]:
        """Return a key group's closed sessions, from the rows of its store."""
        over.sort(key=itemgetter(2, 1, 0))
        keys, starts, ends, rows = zip(*over, strict=True)
        headers: Iterable[Headers] = repeat(())
        if self._headers is not None:
            headers = self._headers.take(group, window_keys(ends, keys))
        closings = [end + horizon for end in ends]
        columns = (ends, starts, keys, repeat(group), count(), ends, closings, rows, headers)
        return list(zip(*columns, strict=False))  # some columns are infinite

    def due_times(self, horizon: int) -> dict[int, int]:
        """Return when the next window of each key group closes."""
        due: dict[int, int] = {}
        for group in self._store.groups:
            view = self._store.group(group)
            row = first_row(view, _told_until(view))
            if row is not None:
                due[group] = unpack_time(row[0]) + horizon
        return due

    def sessions_due(self, horizon: int) -> dict[int, int]:
        """Return when the next session of each key group may close; see `SessionRows.settle`."""
        due: dict[int, int] = {}
        for group in self._store.groups:
            view = self._store.group(group)
            bound = self._clock.closed_until(group) - horizon + 1
            row = first_row(view, bound)
            ends = [] if row is None else [unpack_time(row[0])]
            # Sessions that are closed and still kept hide the others of their key.
            kept = [stored[TIME_BYTES:] for stored, _ in time_rows(view, to=bound - 1)]
            for sessions in SessionRows(view).load_many(kept):
                ends += [end for _, end, _ in sessions if end >= bound]
            if ends:
                due[group] = min(ends) + horizon
        return due

    def windowed_bytes(self, inner: Sequence[bytes], starts: Sequence[int]) -> list[bytes]:
        """Return the bytes of windowed keys, from the bytes of the inner keys and the starts."""
        pack, some = _START.pack, set(starts)
        if len(some) * 2 > len(starts):
            return [key + pack(start) for key, start in zip(inner, starts, strict=True)]
        tails = {start: pack(start) for start in some}
        return [key + tails[start] for key, start in zip(inner, starts, strict=True)]

    def _size(self) -> int:
        windows: Any = self._node.windows
        return windows.key_size_ms

    def _batch(self, found: list[_Over]) -> Batch | None:
        if not found:
            return None
        found.sort()
        _, starts, inner, groups, numbers, ends, at, rows, headers = zip(*found, strict=True)
        serde: Any = self._node.key or self._node.store.key_serde
        keys, sessions = serde.deserialize_many(inner), self._node.is_session
        windowed = windowed_keys(keys, starts, ends, sessions=sessions)
        values, times = self._codec.decode_many(rows)
        if self._node.is_session:
            times = list(ends)
        order: list[Order] = [
            (*(cause.order[:SOURCE_ORDER] if cause else (time, -1, -1, -1)), group, number)
            for group, number, time, cause in zip(
                groups, numbers, at, map(self._clock.moved_to, groups, at), strict=True
            )
        ]
        wants_old = self._operator.step.wants_old
        window_key: Serde[Any] = self._node.window_key
        key_bytes: list[Any] = window_key.serialize_many(windowed)
        return Batch(
            windowed,
            values,
            Origins(times, list(headers) if any(headers) else None, order),
            olds=[None] * len(found) if wants_old else None,
            key_bytes=key_bytes,
        )
