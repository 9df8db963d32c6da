"""Rewriting an environment with full pages and without free ones.

Copy-on-write leaves pages that are free until a later epoch uses them, and keys in random order
leave pages half full: after many epochs a file holds two or three times its data. A small file is
mostly free pages: each epoch writes four or five, whatever it changes, and those of three epochs
are kept apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from mustela.state.directories import make_private, remove_tree
from mustela.state.interfaces import EnvironmentSpec
from mustela.state.lmdb_files import DATA_FILE, LmdbOptions, OpenEnvironment, open_handle
from mustela.state.lmdb_packing import is_unsettled, resealed, settled

if TYPE_CHECKING:
    import lmdb
    from lmdb import _Database as Database  # pyright: ignore[reportPrivateUsage]

__all__ = ["is_worth_it", "live_bytes", "put_back", "replace_by_copy", "squeeze"]

LEAST_BYTES = 1 << 16
"""Smaller files are not compacted while they are in use: their next epochs need those pages."""

SQUEEZED_MAX_BYTES = 1 << 20
"""Up to this size, a file that is closed loses all its free pages."""

REFILLED_MAX_BYTES = 16 << 20
"""Up to this much data is copied only to fill its pages."""

REWRITTEN_MAX_BYTES = 256 << 20
"""Up to this much is copied because of what a store's `Engine` says."""

_SHARE = 0.7
_REFILLED_SHARE = 0.85
_STOPPED_SHARE = 0.65
_SAMPLE = 256
_PAGE_HEAD_BYTES = 16
_ROW_HEAD_BYTES = 10  # with its place at the page's beginning
_META_PAGES = 2
_ROWS_AT_ONCE = 20_000


def live_bytes(handle: OpenEnvironment) -> int:
    """Return the bytes of the pages that hold data."""
    env = handle.env
    with env.begin() as txn:
        is_within = txn.get(b"pending", None, handle.meta) is not None  # the table of all tables
        tables = _tables(handle)[1:] if is_within else _tables(handle)
        stats = [env.stat(), *(txn.stat(table) for table in tables)]
    pages = sum(s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"] for s in stats)
    return pages * stats[0]["psize"]


def is_worth_it(
    handle: OpenEnvironment, spec: EnvironmentSpec, path: Path, *, idle: bool = False
) -> bool:
    """Return whether much of a large enough file could be freed.

    Pages of live data are about two thirds full after random writes, and copying fills them, so at
    the threshold of free pages about half of the file is freed.

    Args:
        handle: The open environment.
        spec: What it holds.
        path: For messages.
        idle: There is time to fill pages also where few are free, and to give rows another form.
    """
    size = (handle.env.info()["last_pgno"] + 1) * handle.env.stat()["psize"]
    if size < LEAST_BYTES:
        return False
    live = live_bytes(handle)
    if live <= _SHARE * size:
        return True
    if not idle:
        return live <= REFILLED_MAX_BYTES and _filled_bytes(handle) <= _STOPPED_SHARE * size
    if live > REWRITTEN_MAX_BYTES:
        return False
    if is_unsettled(handle, path):
        return True
    fills = [one.engine.page_fill for one in spec.stores if one.engine.page_fill is not None]
    if live > REFILLED_MAX_BYTES and not fills:
        return False
    return _filled_bytes(handle) <= max(fills, default=_REFILLED_SHARE) * size


def _filled_bytes(handle: OpenEnvironment) -> float:
    """Return about how many bytes the pages with data would have if they were full."""
    page, total = handle.env.stat()["psize"], 0.0
    with handle.env.begin() as txn:
        for table in _tables(handle):
            stat = txn.stat(table)
            if stat["overflow_pages"]:  # they are as full as they can be
                total += (stat["leaf_pages"] + stat["overflow_pages"]) * page
                continue
            sample = list(islice(iter(txn.cursor(table)), _SAMPLE))
            if sample:
                row = sum(len(key) + len(value) for key, value in sample) / len(sample)
                rows = stat["entries"] * (row + _ROW_HEAD_BYTES)
                total += rows / (page - _PAGE_HEAD_BYTES) * page
    return total


def squeeze(root: Path, path: Path, handle: OpenEnvironment) -> None:
    """Replace a small environment by a copy without free pages; call it with the write lock held.

    It is synced before it takes the place of the old files, so a copy of what is clean is clean.

    Args:
        root: The directory of state.
        path: The environment's.
        handle: It, open and synced.
    """
    env = handle.env
    page = env.stat()["psize"]
    size = (env.info()["last_pgno"] + 1) * page
    if size > SQUEEZED_MAX_BYTES or live_bytes(handle) + _META_PAGES * page > _SHARE * size:
        return
    fresh = _fresh(path)
    remove_tree(fresh)
    make_private(root, fresh)
    env.copy(str(fresh), compact=True)
    with (fresh / DATA_FILE).open("rb+") as file:
        os.fchmod(file.fileno(), 0o600)
        os.fsync(file.fileno())
    _swap(path)


def replace_by_copy(
    root: Path, path: Path, handle: OpenEnvironment, spec: EnvironmentSpec, options: LmdbOptions
) -> None:
    """Replace an environment by a compact copy; call it with the write lock held.

    A process with the old files open keeps its view, and finds the new files when it opens them
    again. The old files are set aside between two renames; `put_back` undoes the first if a crash
    kept the second from happening. Nothing is synced: the copy is marked as in use, as the old
    files are, so after a crash of the machine neither is believed.
    """
    fresh = _fresh(path)
    remove_tree(fresh)
    target = open_handle(root, fresh, spec, options)
    try:
        with handle.env.begin() as read:
            with target.env.begin(write=True) as write:
                for key, row in settled(read, handle, path):
                    write.put(key, row, db=target.meta)
            _copy(read, handle.pending, target.env, target.pending)
            for name, table in handle.stores.items():
                form = resealed(read, handle, name, path)
                _copy(read, table, target.env, target.stores[name], form)
                _copy(read, handle.odd[name], target.env, target.odd[name])
    finally:
        target.env.close()
    _swap(path)


def _swap(path: Path) -> None:
    aside = _aside(path)
    remove_tree(aside)
    os.rename(path, aside)
    os.rename(_fresh(path), path)
    remove_tree(aside)


def put_back(path: Path) -> None:
    """Undo half of a replacement; call it with the write lock held."""
    aside = _aside(path)
    if aside.exists() and not path.exists():
        os.rename(aside, path)


def _tables(handle: OpenEnvironment) -> list[Database]:
    return [handle.meta, handle.pending, *handle.stores.values(), *handle.odd.values()]


def _copy(
    read: lmdb.Transaction[bytes],
    old: Database,
    env: lmdb.Environment,
    new: Database,
    form: Callable[[bytes, bytes], bytes] | None = None,
) -> None:
    rows: Iterator[tuple[bytes, bytes]] = iter(read.cursor(old))
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        if form is not None:
            part = [(key, form(key, row)) for key, row in part]
        with env.begin(write=True) as write:
            write.cursor(new).putmulti(part, append=True)


def _fresh(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.old")
