"""Buffers: rows that wait until they are due.

Two shapes, both format 1, and a third one. Times, and what first bytes mean: see layout.py.

*Slots*, one for each key (suppress): ``01`` and the record key hold the slot's time and the value,
so that a later update of the key is one row and keeps the slot; time and record key, with an empty
value, bring the slots into order.

*Records*, any number for each key (a join that waits): time, record key and a sequence number of
four bytes hold the value.

In both, ``00 n`` holds how many rows wait and the total size of their keys and values in bytes; in
the second, ``00 s`` holds the next sequence number. Where slots are weighed, ``00 w`` holds their
total weight; code that does not weigh them removes it. Rows that leave are deleted in the changelog
too.

*Headers*, format 2 (windows that wait in their own store): the start of a window and the record key
hold the headers of its last record, an array of (name, value) in msgpack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from struct import Struct
from typing import ClassVar, Final, NamedTuple

from mustela.errors import InvariantError
from mustela.state.kinds.layout import (
    TIME_BYTES,
    TIME_MAX,
    TIME_MIN,
    RowView,
    first_row,
    key_row,
    key_rows,
    pack_time,
    time_key,
    time_rows,
    unpack_time,
)
from mustela.state.store_kind import StoreKind

__all__ = [
    "BUFFER",
    "BUFFER_FORMAT",
    "HEADERS_FORMAT",
    "Buffered",
    "RecordBuffer",
    "SlotBuffer",
    "WeighedSlotBuffer",
]

BUFFER_FORMAT = 1
HEADERS_FORMAT = 2

BUFFER: Final = StoreKind(name="buffer")
"""Only the step that owns such a store can read it."""

_FILL_KEY: Final = b"\x00n"
_SEQUENCE_KEY: Final = b"\x00s"
_WEIGHT_KEY: Final = b"\x00w"
_FILL = Struct(">QQ")
_WEIGHT_BYTES = 8
_SEQUENCE_BYTES = 4
_SEQUENCE_MASK = (1 << 32) - 1


class Buffered(NamedTuple):
    """A waiting row."""

    time: int
    key: bytes
    value: bytes


class _Filled:
    """Counts rows and bytes; `save_fill` writes the counts."""

    def __init__(self, view: RowView) -> None:
        self.view = view
        stored = view.get(_FILL_KEY)
        self._count, self._bytes = (0, 0) if stored is None else _FILL.unpack(stored)

    @property
    def count(self) -> int:
        """How many rows wait."""
        return self._count

    @property
    def bytes(self) -> int:
        """The total size of the keys and values of the waiting rows, in bytes."""
        return self._bytes

    def _fill(self, count: int, size: int) -> None:
        self._count += count
        self._bytes += size
        if min(self._count, self._bytes) < 0:
            msg = "more rows leave than wait"
            raise _contradiction(msg, rows=self._count, bytes=self._bytes)
        self.view.put(_FILL_KEY, _FILL.pack(self._count, self._bytes) if self._count else None)


class SlotBuffer(_Filled):
    """One waiting value for each key of a key group, in order of (time, key).

    Args:
        view: The rows of the store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="b", kind="buffer"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("b")
        >>> buffer = SlotBuffer(view)
        >>> buffer.put_many([b"apple", b"pear", b"apple"], [5, 7, 9], [b"1", b"2", b"3"])
        >>> buffer.load_many([b"apple"])
        [(5, b'3')]
        >>> buffer.count, buffer.bytes
        (2, 11)
        >>> list(buffer.due(5))
        [Buffered(time=5, key=b'apple', value=b'3')]
        >>> buffer.remove([b"apple"])
        >>> buffer.oldest()
        Buffered(time=7, key=b'pear', value=b'2')
    """

    _weighs: ClassVar[bool] = False

    def __init__(self, view: RowView) -> None:
        super().__init__(view)
        if not self._weighs and view.get(_WEIGHT_KEY) is not None:
            view.put(_WEIGHT_KEY, None)

    def load_many(self, keys: Sequence[bytes]) -> list[tuple[int, bytes] | None]:
        """Return (time, value) of each waiting key, with one fetch."""
        return [
            None if stored is None else (unpack_time(stored), stored[TIME_BYTES:])
            for stored in self.view.getmulti(key_rows(keys))
        ]

    def put_many(
        self, keys: Sequence[bytes], times: Sequence[int], values: Sequence[bytes]
    ) -> None:
        """Set the values of keys; a key that is waiting already keeps its time."""
        places = key_rows(keys)
        now = dict(zip(places, self.view.getmulti(places), strict=True))
        rows: dict[bytes, bytes | None] = {}
        count = size = 0
        for key, place, time, value in zip(keys, places, times, values, strict=True):
            stored = now[place]
            if stored is None:
                head = pack_time(time)
                rows[head + key] = b""
                count += 1
                size += len(key) + len(value)
            else:
                head = stored[:TIME_BYTES]
                size += len(value) - (len(stored) - TIME_BYTES)
            rows[place] = now[place] = head + value
        self.view.put_many(rows)
        self._fill(count, size)

    def due(self, until: int = TIME_MAX) -> Iterator[Buffered]:
        """Iterate over the rows with time <= until, by time, then by key; remove nothing."""
        keys = [stored[TIME_BYTES:] for stored, _ in time_rows(self.view, to=until)]
        for key, stored in zip(keys, self.view.getmulti(key_rows(keys)), strict=True):
            if stored is None:
                msg = "a slot has a time and no value"
                raise _contradiction(msg, key=key)
            yield Buffered(unpack_time(stored), key, stored[TIME_BYTES:])

    def oldest(self) -> Buffered | None:
        """Return the row that `due` would yield first, or None."""
        row = first_row(self.view)
        if row is None:
            return None
        key = row[0][TIME_BYTES:]
        stored = self.view.get(key_row(key))
        if stored is None:
            msg = "a slot has a time and no value"
            raise _contradiction(msg, key=key)
        return Buffered(unpack_time(stored), key, stored[TIME_BYTES:])

    def remove(self, keys: Iterable[bytes]) -> None:
        """Remove the rows of keys, if they are waiting."""
        names = list(dict.fromkeys(keys))
        rows: dict[bytes, bytes | None] = {}
        count = size = 0
        for key, stored in zip(names, self.view.getmulti(key_rows(names)), strict=True):
            if stored is not None:
                rows[key_row(key)] = rows[stored[:TIME_BYTES] + key] = None
                count += 1
                size += len(key) + len(stored) - TIME_BYTES
        if rows:
            self.view.put_many(rows)
            self._fill(-count, -size)


class WeighedSlotBuffer(SlotBuffer):
    """A buffer of slots that knows their total weight.

    Args:
        view: The rows of the store.
        weigh: Returns the weight of a slot, from its key and value.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="b", kind="buffer"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("b")
        >>> buffer = WeighedSlotBuffer(view, lambda key, value: 10 * len(value))
        >>> buffer.put_many([b"apple", b"pear", b"apple"], [5, 7, 9], [b"1", b"2", b"33"])
        >>> buffer.weight
        30
    """

    _weighs = True

    def __init__(self, view: RowView, weigh: Callable[[bytes, bytes], int]) -> None:
        super().__init__(view)
        self._weigh = weigh
        self._weight = 0
        stored = view.get(_WEIGHT_KEY)
        if stored is not None:
            self._weight = int.from_bytes(stored, "big")
        elif self.count:
            self._add(sum(weigh(row.key, row.value) for row in self.due()))

    @property
    def weight(self) -> int:
        """The total weight of the waiting slots."""
        return self._weight

    def put_many(
        self, keys: Sequence[bytes], times: Sequence[int], values: Sequence[bytes]
    ) -> None:
        """Set the values of keys; a key that is waiting already keeps its time."""
        before = self._weight_of(keys)
        super().put_many(keys, times, values)
        last = dict(zip(keys, values, strict=True))
        self._add(sum(map(self._weigh, last.keys(), last.values())) - before)

    def remove(self, keys: Iterable[bytes]) -> None:
        """Remove the rows of keys, if they are waiting."""
        names = list(keys)
        gone = self._weight_of(names)
        super().remove(names)
        self._add(-gone)

    def _weight_of(self, keys: Iterable[bytes]) -> int:
        names = list(dict.fromkeys(keys))
        found = zip(names, self.load_many(names), strict=True)
        return sum(self._weigh(key, slot[1]) for key, slot in found if slot is not None)

    def _add(self, weight: int) -> None:
        self._weight += weight
        if self._weight < 0:
            msg = "more weight leaves than waits"
            raise _contradiction(msg, weight=self._weight)
        packed = self._weight.to_bytes(_WEIGHT_BYTES, "big")
        self.view.put(_WEIGHT_KEY, packed if self.count else None)


class RecordBuffer(_Filled):
    """Waiting records of a key group, in order of (time, key, arrival).

    Args:
        view: The rows of the store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="b", kind="buffer"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("b")
        >>> buffer = RecordBuffer(view)
        >>> buffer.put_many([b"pear", b"apple", b"pear"], [7, 5, 7], [b"1", b"2", b"3"])
        >>> [(row.time, row.key, row.value) for row in buffer.take_due(7)]
        [(5, b'apple', b'2'), (7, b'pear', b'1'), (7, b'pear', b'3')]
        >>> buffer.count
        0
    """

    def put_many(
        self, keys: Sequence[bytes], times: Sequence[int], values: Sequence[bytes]
    ) -> None:
        """Add records."""
        if not keys:
            return
        stored = self.view.get(_SEQUENCE_KEY)
        sequence = 0 if stored is None else int.from_bytes(stored, "big")
        rows: dict[bytes, bytes | None] = {}
        size = 0
        for key, time, value in zip(keys, times, values, strict=True):
            tail = (sequence & _SEQUENCE_MASK).to_bytes(_SEQUENCE_BYTES, "big")
            rows[time_key(time, key) + tail] = value
            sequence += 1
            size += len(key) + len(value)
        rows[_SEQUENCE_KEY] = (sequence & _SEQUENCE_MASK).to_bytes(_SEQUENCE_BYTES, "big")
        self.view.put_many(rows)
        self._fill(len(keys), size)

    def due(self, until: int = TIME_MAX) -> Iterator[Buffered]:
        """Iterate over the records with time <= until, in order; remove nothing."""
        for stored, value in _in_order(time_rows(self.view, to=until)):
            yield Buffered(unpack_time(stored), stored[TIME_BYTES:-_SEQUENCE_BYTES], value)

    def take_due(self, until: int = TIME_MAX) -> list[Buffered]:
        """Remove the records with time <= until, and return them in order."""
        rows = list(_in_order(time_rows(self.view, to=until)))
        if not rows:
            return []
        found = [
            Buffered(unpack_time(stored), stored[TIME_BYTES:-_SEQUENCE_BYTES], value)
            for stored, value in rows
        ]
        self.view.put_many((stored, None) for stored, _ in rows)
        self._fill(-len(found), -sum(len(row.key) + len(row.value) for row in found))
        return found

    def next_time(self) -> int | None:
        """Return the time of the first record, or None."""
        row = first_row(self.view, TIME_MIN, TIME_MAX)
        return None if row is None else unpack_time(row[0])


def _in_order(rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Sort the records of each time by key, because one key may be a prefix of another."""
    for _, same in groupby(rows, key=lambda row: row[0][:TIME_BYTES]):
        yield from sorted(
            same, key=lambda row: (row[0][TIME_BYTES:-_SEQUENCE_BYTES], row[0][-_SEQUENCE_BYTES:])
        )


def _contradiction(what: str, **evidence: object) -> InvariantError:
    """Return the error for contradictory rows, which mean that the copy differs from its log."""
    why = "the copy has rows that its changelog does not have, or lacks some"
    what = f"the rows of a buffer contradict each other: {what}"
    return InvariantError(what, evidence=evidence, why=why)
