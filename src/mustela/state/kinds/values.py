"""Where the values are in the rows of each kind of store, so that they can be written anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.headers import SessionRow, without_headers
from mustela.state.kinds.layout import KEY_ROW, TIME_BYTES
from mustela.state.kinds.packed import pack_rows, unpacker
from mustela.state.kinds.ttl import TTL_HEAD_BYTES

__all__ = ["REWRITTEN", "with_values"]

Change = Callable[[bytes], bytes]

REWRITTEN: Final = frozenset(
    {"key_value", "timestamped_key_value", "window", "session", "versioned"}
)
"""The kinds whose rows stay until they are deleted, or for as long as they can be read."""

_TIMED: Final = 8
_ORDERED_FROM: Final = 0x40
_LATEST_BODY: Final = TIME_BYTES + 1
_sessions: Callable[[bytes], list[tuple[int, int, SessionRow]]] = unpacker(
    list[tuple[int, int, SessionRow]]
)
_versions: Callable[[bytes], list[tuple[int, int, bytes | None]]] = unpacker(
    list[tuple[int, int, bytes | None]]
)


def with_values(spec: StoreSpec, key: bytes, row: bytes, change: Change) -> bytes:
    """Return a row with other values in it; rows of a kind that have none stay as they are.

    Args:
        spec: The store, of one of the kinds in `REWRITTEN`.
        key: The row's key.
        row: The row, as it is stored and logged.
        change: Gives the bytes of a value for those that are there.

    Example:
        >>> spec = StoreSpec(name="totals", kind="key_value")
        >>> with_values(spec, b"a", b"17", lambda value: value + b".00")
        b'17.00'
    """
    assert spec.kind in REWRITTEN, spec.kind
    if spec.max_entries is not None:
        if key[:1] != KEY_ROW:
            return row
        return row[:TIME_BYTES] + _plain(spec, row[TIME_BYTES:], change)
    if spec.ttl_ms is not None:
        if key[:1] != KEY_ROW:
            return row
        return row[:TTL_HEAD_BYTES] + _plain(spec, row[TTL_HEAD_BYTES:], change)
    match spec.kind:
        case "key_value" | "timestamped_key_value":
            return _plain(spec, row, change)
        case "window":
            return _plain(spec, row, change) if _is_ordered(key) else row
        case "session":
            return _session(row, change) if key[:1] == KEY_ROW else row
        case _:
            return _versioned(key, row, change)


def _is_ordered(key: bytes) -> bool:
    return bool(key) and key[0] >= _ORDERED_FROM


def _plain(spec: StoreSpec, row: bytes, change: Change) -> bytes:
    if spec.kind == "key_value":
        return change(row)
    bare = without_headers(row) if spec.with_headers else row
    head = len(row) - len(bare) + _TIMED
    return row[:head] + change(row[head:])


def _session(row: bytes, change: Change) -> bytes:
    changed: list[Any] = []
    for start, end, value in _sessions(row[TIME_BYTES:]):
        now = change(value) if isinstance(value, bytes) else (value[0], change(value[1]))
        changed.append((start, end, now))
    return row[:TIME_BYTES] + pack_rows(changed)


def _versioned(key: bytes, row: bytes, change: Change) -> bytes:
    if key[:1] == KEY_ROW:
        deleted = len(row) == _LATEST_BODY and row[TIME_BYTES] == 0
        return row if deleted else row[:_LATEST_BODY] + change(row[_LATEST_BODY:])
    if not _is_ordered(key):
        return row
    spans = _versions(row)
    return pack_rows(
        [(begin, end, None if value is None else change(value)) for begin, end, value in spans]
    )
