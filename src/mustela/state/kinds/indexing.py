"""The lines of indexes: derived from rows, wherever rows are written.

Layout, format 1. A store with indexes has a second table in its environment, which no changelog
has. For each row and index: the index's name, ``00``, the entry (ordered_value.py) and the row's
key; what is stored is where the key begins, in four bytes. Whoever writes rows to an environment
(an epoch, a restore) writes lines with them; lines that other indexes left are replaced by all that
the rows give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from mustela.state.faults import IndexEntryError, StoreError
from mustela.state.index import (
    NOTHING_KNOWN,
    Index,
    KnownRows,
    Line,
    Lines,
    index_table,
    indexes_digest,
)
from mustela.state.interfaces import Rows, StoreSpec
from mustela.state.kinds.headers import without_headers
from mustela.state.kinds.timed import TIMED_BYTES
from mustela.state.ordered_value import ordered_bytes

__all__ = ["Indexer", "digest_of", "key_of", "tables_of", "with_lines"]

_END: Final = b"\x00"
_AT_BYTES: Final = 4

_PLACES_MAX: Final = 4_096
"""So many entries of an index are remembered with their bytes."""


def tables_of(stores: Iterable[StoreSpec]) -> list[str]:
    """Return the names of all tables that stores have.

    Example:
        >>> tables_of([StoreSpec(name="counts")])
        ['counts']
    """
    listed = list(stores)
    lines = [index_table(spec.name) for spec in listed if spec.indexes]
    return [*(spec.name for spec in listed), *lines]


def digest_of(spec: StoreSpec) -> str:
    """Return what says whether lines on disk are those of a program; empty without indexes."""
    if not spec.indexes:
        return ""
    version = 0 if spec.row_versions is None else spec.row_versions.version
    return indexes_digest(spec.indexes, spec.layout, version)


def key_of(line: Line) -> bytes:
    """Return the key of the row that a line is of."""
    return line[0][int.from_bytes(line[1], "big") :]


class _Head:
    """One index, as lines are made: what they begin with, and the places of its last entries."""

    __slots__ = ("head", "name", "none", "places", "take", "unique")

    def __init__(self, name: str, index: Index) -> None:
        self.name = name
        self.head = name.encode() + _END
        self.take: Callable[[Any], Any] = index.entry if isinstance(index.of, str) else index.of
        self.none, self.unique = index.none, index.unique
        self.places: dict[str, Line] = {}

    def place(self, entry: Any) -> Line:
        """Return what a line begins with, and that place's length as it is stored."""
        place = self.head + ordered_bytes(entry)
        found = place, len(place).to_bytes(_AT_BYTES, "big")
        if type(entry) is str:  # equal values of other types may have other bytes
            if len(self.places) >= _PLACES_MAX:
                self.places.clear()
            self.places[entry] = found
        return found


class Indexer:
    """Makes the lines of a store's rows.

    Args:
        spec: The store.

    Example:
        >>> from mustela.serdes.primitives import IntSerde
        >>> from mustela.state.index import Index
        >>> half = Index(lambda number: number // 2)
        >>> spec = StoreSpec(name="s", kind="key_value", value_serde=IntSerde(),
        ...                  indexes=(("half", half),))
        >>> (line,) = Indexer(spec).lines(b"key", IntSerde().serialize(6))
        >>> line[0].startswith(Indexer(spec).place("half", 3)), key_of(line)
        (True, b'key')
    """

    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self._serde: Any = spec.rows_of(spec.read_serde)
        self._timed, self._headed = spec.traits.timed, spec.with_headers
        self._decode: Callable[[bytes], Any] = self._serde.deserialize
        self._heads = [_Head(name, index) for name, index in spec.indexes]
        self.unique = {one.head for one in self._heads if one.unique}

    def place(self, name: str, *entry: Any) -> bytes:
        """Return what the lines of an index begin with, or those of an entry.

        Raises:
            StoreError: If the store has no such index, or the entry has no order.
        """
        head = next((one.head for one in self._heads if one.name == name), None)
        if head is None:
            known = ", ".join(one.name for one in self._heads) or "none"
            msg = f"store {self.spec.name!r} has no index {name!r}"
            fix = 'use one of them, or add it with index={"...": ...}'
            raise StoreError(msg, evidence={"indexes": known}, fix=fix)
        return head + b"".join(map(ordered_bytes, entry))

    def lines(self, key: bytes, row: bytes | None) -> Lines:
        """Return the lines of a row; none if there is no row.

        Raises:
            IndexEntryError: If a function fails, or gives what has no order.
        """
        if row is None:
            return ()
        if self._headed:
            row = without_headers(row)
        value = self._decode(row[TIMED_BYTES:] if self._timed else row)
        found: Lines = ()
        for head in self._heads:
            try:
                entry = head.take(value)
                if entry is not None or head.none:
                    known = head.places.get(entry) if type(entry) is str else None
                    place, at = known or head.place(entry)
                    found += ((place + key, at),)
            except Exception as error:
                raise self._failed(head.name, key, error) from error
        return found

    def changes(
        self,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
        known: Mapping[bytes, Lines] = MappingProxyType({}),
    ) -> Rows:
        """Return how rows that change their values change the lines.

        Lines that go come first, then those that come, each in order.

        Args:
            keys: The keys of the rows, each once.
            before: The rows as they were.
            after: The rows as they become.
            known: Lines of rows as they become, by key, where they are known.
        """
        gone: list[Line] = []
        come: list[Line] = []
        lines, is_single = self.lines, len(self._heads) == 1
        for key, old, new, now in zip(keys, before, after, map(known.get, keys), strict=True):
            if old == new:
                continue
            if now is None:
                now = lines(key, new)
            was = lines(key, old)
            if was == now:
                continue
            if is_single:
                gone += was
                come += now
            else:
                gone += [line for line in was if line not in now]
                come += [line for line in now if line not in was]
        come.sort()
        return [*((place, None) for place in sorted([place for place, _ in gone])), *come]

    def shown(self, key: bytes) -> object:
        """Return a key as the user knows it."""
        serde = self.spec.key_serde
        return key if serde is None else serde.deserialize(key)

    def _failed(self, name: str, key: bytes, error: Exception) -> IndexEntryError:
        return IndexEntryError(
            f"index {name!r} of store {self.spec.name!r} fails for key {self.shown(key)!r}: "
            f"{type(error).__name__}: {getattr(error, 'what', error)}",
            why="each row needs a place in the index, or None for no place",
            fix="return None for values that have no entry",
            fields={"store": self.spec.name, "index": name},
        )


def with_lines(
    stores: Iterable[StoreSpec],
    changes: Mapping[str, Rows],
    read: Callable[[str, list[bytes]], Sequence[bytes | None]],
    known: Mapping[str, KnownRows] = NOTHING_KNOWN,
) -> dict[str, Rows]:
    """Return an epoch's changes with those of the lines.

    Args:
        stores: The stores of the environment.
        changes: Rows sorted by key, by store.
        read: Called with a store and keys; returns their rows before the changes.
        known: What is known of the rows already, by store.
    """
    found = dict(changes)
    for spec in stores:
        rows = changes.get(spec.name)
        if spec.indexes and rows:
            keys = [key for key, _ in rows]
            told = known.get(spec.name) or KnownRows()
            missing = [key for key in keys if key not in told.before]
            read_now = dict(zip(missing, read(spec.name, missing), strict=True))
            old = [read_now[key] if key in read_now else told.before[key] for key in keys]
            lines = Indexer(spec).changes(keys, old, [row for _, row in rows], told.lines)
            if lines:
                found[index_table(spec.name)] = lines
    return found
