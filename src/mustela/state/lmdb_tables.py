"""Reading and writing one store's tables inside a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import concat
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xxhash import xxh32_digest

from mustela.state.codec import (
    CHECK_BYTES,
    KEY_BYTES_MAX,
    ODD_PREFIX,
    decode_bucket,
    encode_bucket,
    is_odd,
    stored_key,
)
from mustela.state.interfaces import Rows
from mustela.state.lmdb_files import OpenEnvironment, damaged
from mustela.state.lmdb_packing import packing_of, value_of
from mustela.state.ordered import merge_layers

if TYPE_CHECKING:
    import lmdb
    from lmdb import _Database as Database  # pyright: ignore[reportPrivateUsage]

    Txn = lmdb.Transaction[bytes]

__all__ = [
    "apply_rows",
    "count_rows",
    "empty",
    "page_bytes",
    "read_many",
    "read_one",
    "read_range",
]

_SORT_FROM = 32
_join = cast("Callable[[bytes, bytes], bytes]", concat)


def apply_rows(
    txn: Txn,
    handle: OpenEnvironment,
    store: str,
    keys: Sequence[bytes],
    values: Sequence[bytes | None],
    path: Path,
) -> None:
    """Write the values of keys that are sorted and come once; None deletes.

    Rows after all others are appended: no page is split, so the pages are full, and it takes a
    third of the time.
    """
    if not keys:
        return
    if not 0 < min(map(len, keys)) <= max(map(len, keys)) <= KEY_BYTES_MAX:
        rows = list(zip(keys, values, strict=True))
        _apply_odd(txn, handle.odd[store], [row for row in rows if is_odd(row[0])], path)
        keys = [key for key, _ in rows if not is_odd(key)]
        values = [value for key, value in rows if not is_odd(key)]
    table = handle.stores[store]
    fresh = not txn.stat(table)["entries"]
    if None in values:
        rows = list(zip(keys, values, strict=True))
        delete = txn.delete
        for key in [] if fresh else [key for key, value in rows if value is None]:
            delete(key, b"", table)  # named arguments take a fifth longer
        keys = [key for key, value in rows if value is not None]
        values = [value for _, value in rows if value is not None]
    put = cast("Sequence[bytes]", values)
    packing = packing_of(txn, handle, store, path) if store in handle.compressed else None
    # Each value goes through all steps at once: lists in between would double the cost.
    if packing is None:
        checks = map(xxh32_digest, map(_join, keys, put))
        sealed = zip(keys, map(_join, checks, put), strict=True)
    else:
        sealed = zip(keys, map(packing.seal, keys, put), strict=True)
    cursor = txn.cursor(table)
    behind = bool(keys) and (not cursor.last() or cursor.key() < keys[0])
    cursor.putmulti(cast("Any", sealed), append=behind)


def empty(txn: Txn, handle: OpenEnvironment, store: str) -> None:
    """Delete all rows of a store."""
    for table in (handle.stores[store], handle.odd[store]):
        txn.drop(table, delete=False)


def _apply_odd(txn: Txn, table: Database, rows: Rows, path: Path) -> None:
    for key, value in rows:
        stored = stored_key(key)
        bucket = _bucket(txn, table, stored, path)
        if value is None:
            bucket.pop(key, None)
        else:
            bucket[key] = value
        if bucket:
            txn.put(stored, encode_bucket(stored, bucket), db=table)
        else:
            txn.delete(stored, db=table)


def _bucket(txn: Txn, table: Database, stored: bytes, path: Path) -> dict[bytes, bytes]:
    sealed = txn.get(stored, None, table)
    if sealed is None:
        return {}
    return _open_bucket(stored, sealed, path)


def _open_bucket(stored: bytes, sealed: bytes, path: Path) -> dict[bytes, bytes]:
    bucket = decode_bucket(stored, sealed)
    if bucket is None:
        raise damaged(path, "a value fails its check", key=stored)
    return bucket


def read_one(txn: Txn, handle: OpenEnvironment, store: str, key: bytes, path: Path) -> bytes | None:
    """Return the value of one key."""
    if is_odd(key):
        return _bucket(txn, handle.odd[store], stored_key(key), path).get(key)
    sealed = txn.get(key, None, handle.stores[store])
    if sealed is None:
        return None
    return value_of(txn, handle, store, path, key, sealed)


def read_many(
    txn: Txn, handle: OpenEnvironment, store: str, keys: Sequence[bytes], path: Path
) -> dict[bytes, bytes]:
    """Return the values of the existing keys.

    Sorted keys stay on a page for several steps of the cursor, which halves the time on a large
    store; compared with the cursor's `getmulti`, single gets create fewer objects.
    """
    ordered = sorted(keys) if len(keys) >= _SORT_FROM else keys
    odd: list[bytes] = []
    if keys and not 0 < min(map(len, keys)) <= max(map(len, keys)) <= KEY_BYTES_MAX:
        odd = [key for key in ordered if is_odd(key)]
        ordered = [key for key in ordered if not is_odd(key)]
    cursor = txn.cursor(handle.stores[store])
    get, digest, is_packed = cursor.get, xxh32_digest, store in handle.packings
    found: dict[bytes, bytes] = {}
    for key, sealed in zip(ordered, map(get, ordered), strict=True):
        if sealed is not None:
            value = sealed[CHECK_BYTES:]
            if is_packed or digest(key + value) != sealed[:CHECK_BYTES]:
                value = value_of(txn, handle, store, path, key, sealed)
                is_packed = store in handle.packings
            found[key] = value
    for key in odd:
        value = read_one(txn, handle, store, key, path)
        if value is not None:
            found[key] = value
    return found


def count_rows(txn: Txn, handle: OpenEnvironment, store: str) -> int:
    """Return the number of keys (odd keys that share a stored key count as one)."""
    plain = txn.stat(handle.stores[store])["entries"]
    return plain + txn.stat(handle.odd[store])["entries"]


def page_bytes(txn: Txn, handle: OpenEnvironment, store: str) -> int:
    """Return the size of the pages of a store's tables, in bytes."""
    total = 0
    for table in (handle.stores[store], handle.odd[store]):
        found = txn.stat(table)
        pages = found["branch_pages"] + found["leaf_pages"] + found["overflow_pages"]
        total += pages * found["psize"]
    return total


def read_range(  # noqa: PLR0913 - the parts of a range query
    txn: Txn,
    handle: OpenEnvironment,
    store: str,
    path: Path,
    low: bytes | None,
    high: bytes | None,
    *,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over low <= key <= high, including odd keys in order.

    Odd keys are stored in the order of their first bytes, so those of a range are sorted in
    memory.
    """
    if low is not None and high is not None and low > high:
        return iter(())
    rows = _plain_range(txn.cursor(handle.stores[store]), low, high, reverse=reverse)
    checked = _checked(rows, txn, handle, store, path)
    if not txn.stat(handle.odd[store])["entries"]:
        return checked
    odd = _odd_range(txn.cursor(handle.odd[store]), path, low, high)
    ordered = sorted(odd, reverse=reverse)
    return merge_layers(checked, ordered, reverse=reverse)


def _checked(
    rows: Iterable[tuple[bytes, bytes]], txn: Txn, handle: OpenEnvironment, store: str, path: Path
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over keys and values, each of them checked."""
    digest, is_packed = xxh32_digest, store in handle.packings
    for key, sealed in rows:
        value = sealed[CHECK_BYTES:]
        if is_packed or digest(key + value) != sealed[:CHECK_BYTES]:
            value = value_of(txn, handle, store, path, key, sealed)
            is_packed = store in handle.packings
        yield key, value


def _plain_range(
    cursor: lmdb.Cursor[bytes], low: bytes | None, high: bytes | None, *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over keys that LMDB holds as they are; a bound may be an odd key."""
    if high == b"":
        return
    if reverse:
        yield from _plain_backwards(cursor, low, high)
        return
    if not (cursor.set_range(low[:KEY_BYTES_MAX]) if low else cursor.first()):
        return
    if low is None and high is None:
        yield from cursor.iternext()
        return
    for row in cursor.iternext():
        if high is not None and row[0] > high:
            return
        if low is None or row[0] >= low:
            yield row


def _plain_backwards(
    cursor: lmdb.Cursor[bytes], low: bytes | None, high: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    if not _seek_last(cursor, high):
        return
    for row in cursor.iterprev():
        if low is not None and row[0] < low:
            return
        yield row


def _seek_last(cursor: lmdb.Cursor[bytes], high: bytes | None) -> bool:
    """Move to the last key that is not above ``high``."""
    if high is None or not cursor.set_range(high[:KEY_BYTES_MAX]):
        return cursor.last()
    return True if cursor.key() <= high else cursor.prev()


def _odd_range(
    cursor: lmdb.Cursor[bytes], path: Path, low: bytes | None, high: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over odd keys in the range, ordered by their first bytes only."""
    if not (cursor.set_range(low[:ODD_PREFIX]) if low else cursor.first()):
        return
    for stored, sealed in cursor.iternext():
        if high is not None and stored[:ODD_PREFIX] > high[:ODD_PREFIX] and stored != b"\x00":
            return
        for key, value in _open_bucket(stored, sealed, path).items():
            if (low is None or key >= low) and (high is None or key <= high):
                yield key, value
