"""The lines of indexes in an LMDB environment: with a restore's rows, and anew from all rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from mustela.state.index import index_table
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.indexing import Indexer
from mustela.state.lmdb_files import OpenEnvironment
from mustela.state.lmdb_tables import apply_rows, empty, read_many, read_range

if TYPE_CHECKING:
    import lmdb

    Txn = lmdb.Transaction[bytes]

__all__ = ["lines_anew", "restored_lines"]

_ROWS_AT_ONCE = 20_000

_log = logging.getLogger(__name__)


def restored_lines(
    txn: Txn,
    handle: OpenEnvironment,
    spec: StoreSpec,
    keys: Sequence[bytes],
    values: Sequence[bytes | None],
    path: Path,
) -> None:
    """Write the lines of rows that are about to be restored."""
    if spec.indexes:
        found = read_many(txn, handle, spec.name, keys, path)
        lines = Indexer(spec).changes(keys, [found.get(key) for key in keys], values)
        table = index_table(spec.name)
        rows = [row for _, row in lines]
        apply_rows(txn, handle, table, [place for place, _ in lines], rows, path)


def lines_anew(txn: Txn, handle: OpenEnvironment, spec: StoreSpec, path: Path) -> None:
    """Make all lines of a store from its rows."""
    table = index_table(spec.name)
    empty(txn, handle, table)
    indexer, count = Indexer(spec), 0
    rows = read_range(txn, handle, spec.name, path, None, None, reverse=False)
    for part in _parts(rows):
        count += len(part)
        lines = dict(sorted(line for row in part for line in indexer.lines(*row)))
        apply_rows(txn, handle, table, list(lines), list(lines.values()), path)
    if count:
        told = ", ".join(repr(name) for name, _ in spec.indexes)
        _log.info("built index %s of store %r from %d rows in %s", told, spec.name, count, path)


def _parts(rows: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        yield part
