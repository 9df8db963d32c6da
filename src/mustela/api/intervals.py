"""A custom store of intervals, which finds those that overlap a span."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from mustela.api.custom_stores import CustomStore, query_method
from mustela.state.faults import StoreError
from mustela.state.kinds.layout import TIME_BYTES, pack_time, unpack_time
from mustela.state.kinds.row_map import OrderedRows

__all__ = ["Interval", "Intervals", "Point"]

Point = int | datetime
"""A whole number, or an aware datetime, which is kept in microseconds."""

_SINCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOWEST: Final = -(1 << 62)
_HIGHEST: Final = (1 << 62) - 1
_NUMBER: Final = b"n"
_MOMENT: Final = b"t"


class Interval(NamedTuple):
    """An interval, with its start but without its end, and what was stored for it."""

    start: Any
    end: Any
    value: Any


class Intervals(CustomStore):
    """Values of intervals for each key; those at a point, or that overlap a span, in log n.

    An interval has its start and not its end. A key has one value for each pair of start and end.

    Layout of a key's map, format 1: ``n`` for numbers or ``t`` for moments, in how many bits the
    length fits, then start and end in eight bytes each, which sort as numbers do. Those that
    overlap a span start at most their length before it, so that for each size few rows are read
    that do not.

    Example:
        >>> from mustela.testing import MockProcessorContext
        >>> rooms = MockProcessorContext().add_state_store(Intervals().builder("rooms", key=str))
        >>> rooms.put("blue", 9, 11, "Ann")
        >>> rooms.put("blue", 10, 17, "Bob")
        >>> [interval.value for interval in rooms.at("blue", 10)]
        ['Ann', 'Bob']
        >>> list(rooms.overlapping("blue", 11, 12))
        [Interval(start=10, end=17, value='Bob')]
    """

    def put(self, key: Any, start: Point, end: Point, value: Any) -> None:
        """Set the value of an interval; None deletes.

        Raises:
            StoreError: If it does not end after its start, or start and end are of two types.
        """
        kind, low, high = _span(start, end)
        data = None if value is None else self.encode(value)
        self.rows(key).put(_row(kind, low, high), data)

    def delete(self, key: Any, start: Point, end: Point) -> None:
        """Remove an interval; an absent one is fine."""
        self.rows(key).delete(_row(*_span(start, end)))

    @query_method
    def get(self, key: Any, start: Point, end: Point) -> Any:
        """Return the value of exactly this interval, or None."""
        data = self.rows(key).get(_row(*_span(start, end)))
        return None if data is None else self.decode(data)

    @query_method
    def at(self, key: Any, point: Point) -> list[Interval]:
        """Return the intervals with a point in them, by start, then by end."""
        kind, place = _place(point)
        return self._found(key, kind, place, place + 1)

    @query_method
    def overlapping(self, key: Any, start: Point, end: Point) -> list[Interval]:
        """Return the intervals that overlap another one, by start, then by end."""
        return self._found(key, *_span(start, end))

    def _found(self, key: Any, kind: bytes, low: int, high: int) -> list[Interval]:
        rows = self.rows(key)
        found = [
            (start, end, value)
            for bits in _sizes(rows, kind)
            for start, end, value in _of_size(rows, kind, bits, low - (1 << bits), high)
            if end > low
        ]
        found.sort(key=lambda one: one[:2])
        point = _point_of(kind)
        return [Interval(point(one), point(two), self.decode(data)) for one, two, data in found]


def _place(point: object) -> tuple[bytes, int]:
    if type(point) is int:
        place, kind = point, _NUMBER
    elif isinstance(point, datetime) and point.tzinfo is not None:
        kind, place = _MOMENT, (point - _SINCE) // timedelta(microseconds=1)
    else:
        msg = f"{point!r} cannot be a point of an interval"
        raise StoreError(msg, fix="use a whole number, or a datetime with a time zone")
    if not _LOWEST <= place <= _HIGHEST:
        msg = f"{point!r} is out of bounds"
        raise StoreError(msg, fix="use numbers from -2**62 to 2**62 - 1")
    return kind, place


def _span(start: object, end: object) -> tuple[bytes, int, int]:
    (kind, low), (other, high) = _place(start), _place(end)
    if kind != other or low >= high:
        msg = f"{start!r} to {end!r} is not an interval"
        why = "it has its start and not its end, so that its end is greater"
        raise StoreError(msg, why=why, fix="pass two numbers or two moments, the smaller one first")
    return kind, low, high


def _point_of(kind: bytes) -> Callable[[int], Point]:
    return int if kind == _NUMBER else _moment


def _moment(place: int) -> datetime:
    return _SINCE + timedelta(microseconds=place)


def _row(kind: bytes, low: int, high: int) -> bytes:
    bits = (high - low).bit_length()
    return kind + bytes((bits,)) + pack_time(low) + pack_time(high)


def _sizes(rows: OrderedRows, kind: bytes) -> Iterator[int]:
    """Iterate over the sizes of which a key has intervals; at most 63."""
    bits = 0
    while (found := rows.first(kind + bytes((bits,)), kind + b"\xff")) is not None:
        yield found[0][1]
        bits = found[0][1] + 1


def _of_size(
    rows: OrderedRows, kind: bytes, bits: int, above: int, below: int
) -> Iterator[tuple[int, int, bytes]]:
    """Iterate over the intervals of a size that start above one point and below another."""
    head = kind + bytes((bits,))
    low = head + pack_time(max(above, _LOWEST))
    for row, value in rows.range(low, head + pack_time(below)):
        start = unpack_time(row[2 : 2 + TIME_BYTES])
        if row.startswith(head) and start < below:
            yield start, unpack_time(row[2 + TIME_BYTES :]), value
