"""How a fold is cut into several transactions, so that the file stays near the size of its data.

LMDB copies each page that a transaction changes, and uses the old one again two transactions later.
An epoch with rows in no order changes nearly all pages of a key group: in one transaction after the
other, a file has its pages three times. A fold that is cut uses the pages again that its own
first transactions left.

The base says meanwhile which epoch's rows it has in part (`Standing.folding`). That epoch's pending
stays until the last transaction, and lies over the base wherever it is read, so a process that dies
in between leaves the committed state: the next fold applies all rows again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mustela.state.lmdb_files import OpenEnvironment
from mustela.state.lmdb_packing import learn
from mustela.state.lmdb_tables import apply_rows

if TYPE_CHECKING:
    import lmdb

    from mustela.state.codec import Layer

    Txn = lmdb.Transaction[bytes]

__all__ = ["Part", "apply_part", "parts_of"]


_FEW = 32
"""So many rows are written in one transaction, without a look at the tables."""

_PARTS_MAX = 16
"""More transactions would free little more, and each of them counts for an open reader."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table, in the order of their keys, for one transaction."""

    table: str
    keys: list[bytes]
    values: list[bytes | None]


def parts_of(
    txn: Txn, handle: OpenEnvironment, layer: Layer, size: int, pages: int
) -> list[list[Part]]:
    """Return a pending's rows, by transaction: one, or several and one without rows.

    Args:
        txn: Knows how large the tables are.
        handle: Where they are; rows of tables that are not are left out: those are lines of indexes
            that were dropped since.
        layer: The pending.
        size: Its bytes.
        pages: About how many pages a transaction may change; more if there would be very many.
    """
    known = {table: rows for table, rows in layer.items() if rows and table in handle.stores}
    if sum(map(len, known.values())) <= _FEW or _most_pages(txn, handle, known, size) <= pages:
        return [[Part(table, list(rows), list(rows.values())) for table, rows in known.items()]]
    changed = {table: _changed_pages(txn, handle, table, rows) for table, rows in known.items()}
    most = max(pages, sum(changed.values()) / _PARTS_MAX)
    parts: list[list[Part]] = [[]]
    room = most
    for table, rows in known.items():
        keys, values, each, at = list(rows), list(rows.values()), changed[table] / len(rows), 0
        while at < len(keys):
            if room < each and parts[-1]:
                parts.append([])
                room = most
            end = at + max(1, int(room / each))
            parts[-1].append(Part(table, keys[at:end], values[at:end]))
            room -= (end - at) * each
            at = end
    # Pages that a transaction leaves are used by the second after it: the next pending is put into
    # one of its own.
    return [*parts, []] if len(parts) > 1 else parts


def _most_pages(txn: Txn, handle: OpenEnvironment, layer: Mapping[str, Sized], size: int) -> float:
    """Return how many pages a pending may change, without a look at its rows."""
    stats = {table: txn.stat(handle.stores[table]) for table in layer}
    found = sum(min(len(rows), stats[table]["leaf_pages"]) for table, rows in layer.items())
    return found + size / max((stat["psize"] for stat in stats.values()), default=1)


def _changed_pages(
    txn: Txn, handle: OpenEnvironment, table: str, rows: Mapping[bytes, bytes | None]
) -> float:
    """Return about how many pages rows change in a table, in no order, or add to it."""
    stat = txn.stat(handle.stores[table])
    size = sum(map(len, rows)) + sum(map(len, filter(None, rows.values())))
    return max(1.0, min(len(rows), stat["leaf_pages"]) + size / stat["psize"])


def apply_part(txn: Txn, handle: OpenEnvironment, parts: list[Part], path: Path) -> None:
    """Write the rows of one transaction."""
    for part in parts:
        apply_rows(txn, handle, part.table, part.keys, part.values, path)
        learn(txn, handle, part.table, path)
