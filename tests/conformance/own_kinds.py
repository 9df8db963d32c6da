"""Two kinds of stores that the library does not know.

`Bags` lays out its rows as it likes. `Indexed` is a key-value store with an index by value, which
every step can write that writes rows by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mustela.serdes.primitives import StrSerde
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.key_value import KeyValueStore
from mustela.state.kinds.layout import key_row, key_rows
from mustela.state.kinds.record_rows import RecordRows
from mustela.state.kinds.typed import TypedStore
from mustela.state.ordered import prefix_end
from mustela.state.store_kind import StoreKind
from mustela.stores import StoreBuilder

__all__ = ["BAGS", "CARTS", "INDEXED", "Bags", "Indexed"]


class Bags(TypedStore[str, str, int]):
    """A bag of values for each key: a value is in it as often as it was added.

    Layout: the key's length in two bytes, the key and the value; what is stored is how often.
    """

    def add(self, key: str, value: str) -> int:
        """Put a value into the bag of a key; return how often it is there."""
        rows, place = self._rows(key), self._place(key) + self._value.serialize(value)
        count = 1 + int(rows.get(place) or 0)
        rows.put(place, str(count).encode())
        return count

    def discard(self, key: str, value: str) -> None:
        """Take all of a value out of the bag of a key."""
        self._rows(key).put(self._place(key) + self._value.serialize(value), None)

    def bag(self, key: str) -> dict[str, int]:
        """Return what is in the bag of a key, in the order of the values' bytes."""
        place = self._place(key)
        rows = self._rows(key).range(place, prefix_end(place))
        inside = ((row[len(place) :], count) for row, count in rows if row.startswith(place))
        return {self._value_of(value): int(count) for value, count in inside}

    def all(self) -> Iterator[tuple[str, int]]:
        """Iterate over keys, one for each value in its bag, and how often that is there."""
        for rows in self._groups.all():
            for row, count in rows.range():
                end = 2 + int.from_bytes(row[:2], "big")
                yield self._key_of(row[2:end]), int(count)

    def _rows(self, key: str) -> Any:
        return self._groups.of(self._key_bytes(key))

    def _place(self, key: str) -> bytes:
        data = self._key_bytes(key)
        return len(data).to_bytes(2, "big") + data


BAGS = StoreKind(name="bags", store=Bags)
CARTS = StoreBuilder(
    supplier=StoreSpec(name="carts", own_kind=BAGS), key=StrSerde(), value=StrSerde()
)


class IndexedRows(RecordRows):
    """Rows by record key; and for each ``02``, the row, ``00`` and the record key: empty."""

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Write rows, and move their keys in the index."""
        fresh = dict(rows)
        written: dict[bytes, bytes | None] = {}
        for key, before in zip(fresh, self.view.getmulti(key_rows(list(fresh))), strict=True):
            row = written[key_row(key)] = fresh[key]
            if before is not None:
                written[self.line(before) + key] = None
            if row is not None:
                written[self.line(row) + key] = b""
        self.view.put_many(written)

    def keys_of(self, row: bytes) -> list[bytes]:
        """Return the keys that have a row."""
        line = self.line(row)
        found = self.view.range(line, prefix_end(line))
        return [place[len(line) :] for place, _ in found if place.startswith(line)]

    @staticmethod
    def line(row: bytes) -> bytes:
        """Return what a line of the index begins with."""
        return b"\x02" + row + b"\x00"


class Indexed(KeyValueStore[str, Any]):
    """A key-value store that knows who has a value."""

    def keys_of(self, value: Any) -> list[str]:
        """Return the keys that have a value, in order."""
        row = self._value.serialize(value)
        views: Any = self._groups.all()
        return sorted(self._key_of(key) for rows in views for key in rows.keys_of(row))


INDEXED = StoreKind(
    name="indexed", store=Indexed, rows=lambda view, _spec: IndexedRows(view), by_key=True
)
