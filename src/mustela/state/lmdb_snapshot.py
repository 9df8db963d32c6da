"""A view of the committed state in an LMDB environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import lmdb

from mustela.state.codec import Layer
from mustela.state.interfaces import EnvironmentSpec
from mustela.state.lmdb_files import OpenEnvironment, closed, reported
from mustela.state.lmdb_tables import count_rows, read_many, read_one, read_range
from mustela.state.memory import unknown_store
from mustela.state.ordered import OrderedLayer, merge_layers, prefix_end

__all__ = ["LmdbSnapshot"]


class LmdbSnapshot:
    """A read transaction, overlaid by the pending of the committed epoch.

    Args:
        txn: An open read transaction; the snapshot ends it.
        handle: The environment's databases.
        layer: The decoded pending, by store; empty when the base is the committed state.
        path: For messages.
        spec: For messages.
        on_close: Called once, when the snapshot ends.
    """

    def __init__(
        self,
        txn: lmdb.Transaction[bytes],
        handle: OpenEnvironment,
        layer: Layer,
        path: Path,
        spec: EnvironmentSpec,
        on_close: Callable[[LmdbSnapshot], None],
    ) -> None:
        self._txn: lmdb.Transaction[bytes] | None = txn
        self._handle = handle
        self._layer = layer
        self._ordered = OrderedLayer(layer)
        self._path = path
        self._spec = spec
        self._on_close = on_close

    def get(self, store: str, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        txn = self._open_txn(store)
        layer = self._layer.get(store)
        if layer is not None and key in layer:
            return layer[key]
        with reported(self._path):
            return read_one(txn, self._handle, store, key, self._path)

    def getmulti(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        txn = self._open_txn(store)
        layer = self._layer.get(store)
        wanted = [key for key in keys if key not in layer] if layer else keys
        with reported(self._path):
            found = read_many(txn, self._handle, store, wanted, self._path)
        if layer:
            return [layer[key] if key in layer else found.get(key) for key in keys]
        return list(map(found.get, keys))

    def range(
        self, store: str, low: bytes | None, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        txn = self._open_txn(store)
        with reported(self._path):
            below = read_range(txn, self._handle, store, self._path, low, high, reverse=reverse)
        above = self._ordered.rows(store, low, high)
        if reverse:
            above.reverse()
        rows = merge_layers(below, above, reverse=reverse) if above else below
        return self._reported_rows(rows)

    def prefix(
        self, store: str, prefix: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``, in key order."""
        rows = self.range(store, prefix, prefix_end(prefix), reverse=reverse)
        return (row for row in rows if row[0].startswith(prefix))

    def count(self, store: str) -> int:
        """Return the number of keys."""
        txn = self._open_txn(store)
        layer = self._layer.get(store, {})
        with reported(self._path):
            base = count_rows(txn, self._handle, store)
            had = len(read_many(txn, self._handle, store, list(layer), self._path))
        return base - had + sum(value is not None for value in layer.values())

    def close(self) -> None:
        """End the view."""
        txn, self._txn = self._txn, None
        if txn is not None:
            txn.abort()
            self._on_close(self)

    def _reported_rows(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        if self._closed():
            raise closed(self._path)
        with reported(self._path):
            for row in rows:
                yield row
                if self._txn is None:
                    raise closed(self._path)

    def _closed(self) -> bool:
        return self._txn is None

    def _open_txn(self, store: str) -> lmdb.Transaction[bytes]:
        if self._txn is None:
            raise closed(self._path)
        if store not in self._handle.stores:
            raise unknown_store(store, self._spec)
        return self._txn
