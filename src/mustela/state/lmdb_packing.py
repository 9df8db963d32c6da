"""The compression of values in an LMDB environment: learned from its rows, kept beside its meta.

A store's dictionary is written once, in the transaction that finds enough rows for it, and used by
the transactions after that one: no row can need a dictionary that is not on disk. It changes only
where all rows are written anew, in new files (lmdb_compact.py), which every process opens anew.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mustela.state.codec import (
    META_KEY,
    PACKED_PREFIX,
    Packed,
    decode_packed,
    encode_packed,
    is_odd,
    packed_key,
    seal,
    unseal,
)
from mustela.state.lmdb_files import OpenEnvironment, damaged
from mustela.state.packing import Packing, make_dictionary

if TYPE_CHECKING:
    import lmdb

    Txn = lmdb.Transaction[bytes]

__all__ = ["is_unsettled", "learn", "packing_of", "resealed", "settled", "value_of"]

_LEARNED_BYTES = 128 << 10
"""So many bytes of rows are enough for a dictionary."""

_AGAIN = 4
"""Where no dictionary was worth it, one is tried again for a table that is so many times larger."""

_SAMPLES = 600
_WALKED = 2_400


def packing_of(txn: Txn, handle: OpenEnvironment, store: str, path: Path) -> Packing | None:
    """Return what opens a store's compressed rows; None if it has none yet."""
    found = handle.packings.get(store)
    if found is None:
        packed = _packed(txn, handle, store, path)
        if packed is not None and packed.dictionary:
            found = handle.packings[store] = Packing(packed.dictionary)
    return found


def value_of(
    txn: Txn, handle: OpenEnvironment, store: str, path: Path, key: bytes, sealed: bytes
) -> bytes:
    """Return the value of a row that is not plain, as far as this process knew.

    Another process may have begun to compress values since this one opened the files.

    Raises:
        StateDamagedError: If it is not what was written.
        StateLibraryError: If the library for it is not installed.
    """
    packing = packing_of(txn, handle, store, path)
    value = unseal(key, sealed) if packing is None else packing.open(key, sealed)
    if value is None:
        raise damaged(path, "a value fails its check", store=store, key=key)
    return value


def learn(txn: Txn, handle: OpenEnvironment, store: str, path: Path) -> None:
    """Make a store's dictionary, if its values are to be compressed and there are enough of them.

    Call it when the transaction has written its rows.
    """
    if store not in handle.compressed or store in handle.packings:
        return
    stat = txn.stat(handle.stores[store])
    size = (stat["leaf_pages"] + stat["overflow_pages"]) * stat["psize"]
    if size < _LEARNED_BYTES:
        return
    packed = _packed(txn, handle, store, path)
    if packed is not None and (packed.dictionary or size < _AGAIN * packed.tried_bytes):
        return
    _write(txn, handle, store, Packed(_dictionary(txn, handle, store), size))


def is_unsettled(handle: OpenEnvironment, path: Path) -> bool:
    """Return whether rows would have another form if they were written anew."""
    with handle.env.begin() as txn:
        for store in handle.stores:
            packed = _packed(txn, handle, store, path)
            if packed is None:
                continue
            wanted = store in handle.compressed
            if bool(packed.dictionary) and (packed.mixed or not wanted):
                return True
    return False


def resealed(
    txn: Txn, handle: OpenEnvironment, store: str, path: Path
) -> Callable[[bytes, bytes], bytes] | None:
    """Return what gives a row the form that it is to have; None if rows have it already.

    Args:
        txn: Reads the rows.
        handle: Where they are.
        store: The store.
        path: For messages.
    """
    packed = _packed(txn, handle, store, path)
    if packed is None or not packed.dictionary:
        return None
    if store not in handle.compressed:
        return lambda key, row: seal(key, value_of(txn, handle, store, path, key, row))
    if not packed.mixed:
        return None
    packing = Packing(packed.dictionary)
    return lambda key, row: packing.seal(key, value_of(txn, handle, store, path, key, row))


def settled(txn: Txn, handle: OpenEnvironment, path: Path) -> list[tuple[bytes, bytes]]:
    """Return the meta and what is beside it, for a copy whose rows are all resealed."""
    rows = iter(txn.cursor(handle.meta))
    found = {key: row for key, row in rows if key == META_KEY or key.startswith(PACKED_PREFIX)}
    for store in handle.stores:
        packed = _packed(txn, handle, store, path)
        if packed is not None and store in handle.compressed:
            found[packed_key(store)] = encode_packed(replace(packed, mixed=False))
        elif packed is not None:
            del found[packed_key(store)]
    return sorted(found.items())


def _packed(txn: Txn, handle: OpenEnvironment, store: str, path: Path) -> Packed | None:
    blob = txn.get(packed_key(store), None, handle.meta)
    if blob is None:
        return None
    packed = decode_packed(blob)
    if packed is None:
        raise damaged(path, "a dictionary cannot be read", store=store)
    return packed


def _write(txn: Txn, handle: OpenEnvironment, store: str, packed: Packed) -> None:
    txn.put(packed_key(store), encode_packed(packed), db=handle.meta)


def _dictionary(txn: Txn, handle: OpenEnvironment, store: str) -> bytes:
    rows = list(islice(iter(txn.cursor(handle.stores[store])), _WALKED))
    step = max(1, len(rows) // _SAMPLES)
    values = [unseal(key, sealed) for key, sealed in rows[::step] if not is_odd(key)]
    return make_dictionary([value for value in values if value])
