"""An ordered map of bytes for each record key: what a custom store keeps its state in.

Layout, format 1: ``01``, the length of the record key in two bytes, the record key, and the map's
own key. What is stored is the map's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from typing import Final

from mustela.state.faults import StoreError
from mustela.state.kinds.layout import KEY_ROW, RowView, read_only
from mustela.state.kinds.views import GroupedView
from mustela.state.ordered import prefix_end

__all__ = ["OrderedRows", "record_keys"]

_LENGTH_BYTES: Final = 2
_HEAD_BYTES: Final = 1 + _LENGTH_BYTES
_KEY_BYTES_MAX: Final = (1 << 8 * _LENGTH_BYTES) - 1


class OrderedRows:
    """The ordered map of one record key, from bytes to bytes.

    What is written is part of the epoch's commit and of the store's changelog, as the rows of every
    store are. Keys sort by their bytes; `mustela.stores.ordered_bytes` makes such keys of values.

    Args:
        view: The rows of the key's key group.
        store: The store's name, for messages.
        key: The record key's bytes.
        writes: Whether rows may be written.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="s", kind="key_value"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("s")
        >>> rows = OrderedRows(view, "s", b"ann")
        >>> rows.put_many({b"b": b"2", b"a": b"1", b"c": b"3"})
        >>> list(rows.range(b"b")), rows.first(reverse=True)
        ([(b'b', b'2'), (b'c', b'3')], (b'c', b'3'))
    """

    __slots__ = ("_end", "_head", "_store", "_view", "_writes")

    def __init__(self, view: RowView, store: str, key: bytes, *, writes: bool = True) -> None:
        if len(key) > _KEY_BYTES_MAX:
            msg = f"store {store!r} was given a key of {len(key)} bytes"
            raise StoreError(msg, fix=f"use keys of at most {_KEY_BYTES_MAX} bytes")
        self._view = view
        self._store = store
        self._writes = writes
        self._head = KEY_ROW + len(key).to_bytes(_LENGTH_BYTES, "big") + key
        self._end = prefix_end(self._head)

    def get(self, row: bytes) -> bytes | None:
        """Return what is stored under ``row``, or None."""
        return self._view.get(self._head + row)

    def get_many(self, rows: Sequence[bytes]) -> list[bytes | None]:
        """Return what is stored under each of ``rows``, or None; faster than many `get` calls."""
        head = self._head
        return self._view.getmulti([head + row for row in rows])

    def put(self, row: bytes, value: bytes | None) -> None:
        """Set what is stored under ``row``; None deletes.

        Raises:
            StoreError: If the store can only be read here.
        """
        if not self._writes:
            raise read_only(self._store)
        self._view.put(self._head + row, value)

    def put_many(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Set what is stored under many keys; None deletes.

        Raises:
            StoreError: If the store can only be read here.
        """
        if not self._writes:
            raise read_only(self._store)
        head = self._head
        self._view.put_many({head + row: value for row, value in rows.items()})

    def delete(self, row: bytes) -> None:
        """Remove ``row``; an absent one is fine."""
        self.put(row, None)

    def clear(self) -> None:
        """Remove everything that is stored for the key."""
        self.put_many({row: None for row, _ in self.range()})

    def range(
        self, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= row <= high in order, as it is now; None leaves the end open."""
        head = self._head
        cut, end = len(head), self._end if high is None else head + high
        for row, value in self._view.range(head + low, end, reverse=reverse):
            if row.startswith(head):
                yield row[cut:], value

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows that start with ``prefix``, in order."""
        rows = self.range(prefix, prefix_end(prefix), reverse=reverse)
        return (row for row in rows if row[0].startswith(prefix))

    def first(
        self, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that `range` would yield; cheaper than beginning to iterate."""
        head = self._head
        end = self._end if high is None else head + high
        found = self._view.first(head + low, end, reverse=reverse)
        if found is None or found[0].startswith(head):
            return None if found is None else (found[0][len(head) :], found[1])
        return next(self.range(low, high, reverse=reverse), None)


def record_keys(groups: GroupedView) -> Iterator[bytes]:
    """Iterate over the record keys that have rows, by length, then by their bytes."""
    found = merge(*map(_keys_of, groups.all()))
    last: tuple[int, bytes] | None = None
    for key in found:  # a processor may write keys other than its record's: once is enough
        if key != last:
            yield key[1]
        last = key


def _keys_of(view: RowView) -> Iterator[tuple[int, bytes]]:
    low: bytes | None = KEY_ROW
    while low is not None:
        row = view.first(low)
        if row is None or not row[0].startswith(KEY_ROW):
            return
        size = int.from_bytes(row[0][1:_HEAD_BYTES], "big")
        end = _HEAD_BYTES + size
        yield size, row[0][_HEAD_BYTES:end]
        low = prefix_end(row[0][:end])
