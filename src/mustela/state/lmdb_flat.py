"""Small environments as they lie while nobody uses them: all rows in one file, compressed.

LMDB's file has two pages for its own description, one for the names of the tables, and one for
each table with a row; pages are 4 KB. A key group with a dozen rows takes five pages for what are a
few hundred bytes. So a clean close leaves a small environment as one file of rows, from which the
next opening makes LMDB's file again. That takes about a millisecond.

The file of rows stays until the first write. Until then LMDB's file is only a copy of it: one
that another boot left is made anew from it. Where both are, and this boot made LMDB's file, that
one counts, because it may be newer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import lmdb

from mustela.state.codec import (
    FLAT_FILE,
    META_KEY,
    PACKED_PREFIX,
    Meta,
    Tables,
    decode_meta,
    decode_tables,
    encode_meta,
    encode_tables,
)
from mustela.state.faults import StateDamagedError
from mustela.state.interfaces import EnvironmentSpec
from mustela.state.lmdb_compact import live_bytes
from mustela.state.lmdb_files import (
    DATA_FILE,
    LmdbOptions,
    OpenEnvironment,
    damaged,
    open_handle,
)

if TYPE_CHECKING:
    from lmdb import _Database as Database  # pyright: ignore[reportPrivateUsage]

__all__ = [
    "fill",
    "is_small",
    "lay_flat",
    "open_files",
    "read_flat",
    "unfold",
]

_LEAST_MAP: Final = 1 << 20
_ROW_BYTES: Final = 64
_LOCK_FILE: Final = "lock.mdb"


def is_small(handle: OpenEnvironment, options: LmdbOptions) -> bool:
    """Return whether a clean close is to leave a file of rows."""
    return live_bytes(handle) <= options.flat_bytes


def lay_flat(path: Path, handle: OpenEnvironment, meta: Meta) -> None:
    """Replace LMDB's files by a file of rows; call it with the write lock held.

    It is whole and on disk before it gets its name. One that is there from before, of the same
    state, stays.

    Args:
        path: The environment's.
        handle: It, open.
        meta: Its description, marked as clean.
    """
    if not _has_flat(path, meta):
        new = path / f"{FLAT_FILE}.new"
        with open(new, "wb", opener=_private) as file:
            file.write(encode_tables(_tables_of(handle, meta)))
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, path / FLAT_FILE)
    for name in (DATA_FILE, _LOCK_FILE):
        (path / name).unlink(missing_ok=True)


def open_files(
    root: Path, path: Path, spec: EnvironmentSpec, options: LmdbOptions, boot: str
) -> OpenEnvironment:
    """Open an environment, of either form; call it with the write lock held.

    Args:
        root: The directory of state.
        path: The environment's.
        spec: What it is to hold.
        options: How LMDB is used.
        boot: The id of the machine's boot.

    Raises:
        StateDamagedError: If the files cannot be an environment.
    """
    flat = (path / FLAT_FILE).exists()
    if flat and not (path / DATA_FILE).exists():
        unfold(path, boot)
    handle = open_handle(root, path, spec, options)
    if flat and _is_left_open(handle, boot):
        handle.env.close()
        unfold(path, boot)
        handle = open_handle(root, path, spec, options)
    return handle


def read_flat(path: Path) -> Tables:
    """Return the rows that lie flat.

    Raises:
        StateDamagedError: If they are not what was written.
    """
    tables = decode_tables((path / FLAT_FILE).read_bytes())
    if tables is None:
        raise damaged(path, "its file of rows cannot be read")
    return tables


def fill(file: Path, tables: Tables) -> None:
    """Make LMDB's file with these rows; nothing is synced, and there is no lock file."""
    rows_bytes = sum(sum(map(len, keys)) + sum(map(len, rows)) for keys, rows in tables.values())
    count = sum(len(keys) for keys, _ in tables.values())
    with lmdb.open(
        str(file), map_size=_LEAST_MAP + 4 * (rows_bytes + _ROW_BYTES * count), mode=0o600,
        max_dbs=len(tables), subdir=False, lock=False, sync=False, metasync=False,
    ) as env, env.begin(write=True) as txn:  # fmt: skip
        for name, (keys, rows) in tables.items():
            table = env.open_db(name.encode(), txn=txn) if name else None
            # The names of the tables lie among the rows of the description.
            sorted_rows = cast("Any", zip(keys, rows, strict=True))
            txn.cursor(cast("Any", table)).putmulti(sorted_rows, append=bool(name))


def _has_flat(path: Path, meta: Meta) -> bool:
    """Return whether the rows lie flat already: nothing was written since they were taken up."""
    try:
        kept = decode_meta(dict(zip(*read_flat(path)[""], strict=True))[META_KEY])
    except (FileNotFoundError, StateDamagedError):
        return False
    return kept is not None and kept.standing == meta.standing


def unfold(path: Path, boot: str) -> None:
    """Make LMDB's files from the file of rows, marked as in use; whole or not at all."""
    tables = read_flat(path)
    keys, rows = tables[""]
    tables[""] = (
        keys,
        [
            _in_use(row, boot) if key == META_KEY else row
            for key, row in zip(keys, rows, strict=True)
        ],
    )
    fresh = path / f"{DATA_FILE}.new"
    fresh.unlink(missing_ok=True)
    fill(fresh, tables)
    os.rename(fresh, path / DATA_FILE)


def _in_use(row: bytes, boot: str) -> bytes:
    meta = decode_meta(row)
    if meta is None:
        return row  # whoever opens it sees that
    meta.use(boot)
    return encode_meta(meta)


def _is_left_open(handle: OpenEnvironment, boot: str) -> bool:
    """Return whether another boot used the files and did not close them."""
    with handle.env.begin() as txn:
        meta = decode_meta(txn.get(META_KEY, b"", handle.meta))
    return meta is not None and not meta.clean and not meta.is_of(boot)


def _tables_of(handle: OpenEnvironment, meta: Meta) -> Tables:
    named: dict[str, Database] = {"pending": handle.pending}
    named.update({f"store:{name}": table for name, table in handle.stores.items()})
    named.update({f"odd:{name}": table for name, table in handle.odd.items()})
    with handle.env.begin() as txn:
        described = {
            key: row for key, row in txn.cursor(handle.meta) if key.startswith(PACKED_PREFIX)
        }
        described[META_KEY] = encode_meta(meta)
        tables: Tables = {"": (list(described), list(described.values()))}
        for name, table in named.items():
            rows = list(txn.cursor(table))
            tables[name] = [key for key, _ in rows], [row for _, row in rows]
    return tables


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
