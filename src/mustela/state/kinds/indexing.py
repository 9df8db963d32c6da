"""The lines of indexes: derived from rows, wherever rows are written.

Layout, format 1. A store with indexes has a second table in its environment, which no changelog
has. For each row and index: the index's name, ``00``, the entry (ordered_value.py) and the row's
key; what is stored is where the key begins, in four bytes. Whoever writes rows to an environment
(an epoch, a restore) writes lines with them; lines that other indexes left are replaced by all that
the rows give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from mustela.state.faults import IndexEntryError, StoreError
from mustela.state.index import index_table, indexes_digest
from mustela.state.interfaces import Rows, StoreSpec
from mustela.state.kinds.headers import without_headers
from mustela.state.kinds.timed import TIMED_BYTES
from mustela.state.ordered_value import ordered_bytes

__all__ = ["Indexer", "Line", "Lines", "digest_of", "key_of", "tables_of", "with_lines"]

Line = tuple[bytes, bytes]
Lines = tuple[Line, ...]

_END: Final = b"\x00"
_AT_BYTES: Final = 4


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
        self._heads = [(name, name.encode() + _END, index) for name, index in spec.indexes]
        self.unique = {head for _, head, index in self._heads if index.unique}

    def place(self, name: str, *entry: Any) -> bytes:
        """Return what the lines of an index begin with, or those of an entry.

        Raises:
            StoreError: If the store has no such index, or the entry has no order.
        """
        head = next((head for known, head, _ in self._heads if known == name), None)
        if head is None:
            known = ", ".join(name for name, _, _ in self._heads) or "none"
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
        value = self._serde.deserialize(row[TIMED_BYTES:] if self._timed else row)
        found: list[Line] = []
        for name, head, index in self._heads:
            try:
                entry = index.entry(value)
                if entry is not None or index.none:
                    place = head + ordered_bytes(entry)
                    found.append((place + key, len(place).to_bytes(_AT_BYTES, "big")))
            except Exception as error:
                raise self._failed(name, key, error) from error
        return tuple(found)

    def changes(
        self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]
    ) -> Rows:
        """Return how rows that change their values change the lines, in order."""
        found: dict[bytes, bytes | None] = {}
        for key, old, new in zip(keys, before, after, strict=True):
            if old != new:
                found.update((place, None) for place, _ in self.lines(key, old))
                found.update(self.lines(key, new))
        return sorted(found.items())

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
) -> dict[str, Rows]:
    """Return an epoch's changes with those of the lines.

    Args:
        stores: The stores of the environment.
        changes: Rows sorted by key, by store.
        read: Called with a store and keys; returns their rows before the changes.
    """
    found = dict(changes)
    for spec in stores:
        rows = changes.get(spec.name)
        if spec.indexes and rows:
            keys = [key for key, _ in rows]
            lines = Indexer(spec).changes(keys, read(spec.name, keys), [row for _, row in rows])
            if lines:
                found[index_table(spec.name)] = lines
    return found
