"""Many small rows in one value: a msgpack array that grows at its end without being decoded.

The array always has the five-byte head of msgpack's largest arrays, so that appending means a new
count in the head, and the new rows after the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

__all__ = ["EMPTY", "append_packed", "count_packed", "pack_rows", "unpacker"]

_HEAD: Final = b"\xdd"
_HEAD_BYTES: Final = 5
_FIX_MAX, _SHORT_MAX = 15, 65_535
_encode = msgspec.msgpack.Encoder().encode

EMPTY: Final = b"\xdd\x00\x00\x00\x00"
"""No rows."""


def pack_rows(rows: Sequence[Any]) -> bytes:
    r"""Return rows as one value.

    Example:
        >>> unpacker(list[tuple[int, bytes]])(pack_rows([(1, b"a")]))
        [(1, b'a')]
        >>> pack_rows([1, 2])
        b'\xdd\x00\x00\x00\x02\x01\x02'
    """
    return _HEAD + len(rows).to_bytes(4, "big") + _body(rows)


def append_packed(packed: bytes | None, rows: Sequence[Any]) -> bytes:
    """Return a value with more rows at its end.

    Example:
        >>> append_packed(pack_rows([1]), [2, 3]) == pack_rows([1, 2, 3])
        True
    """
    if not packed:
        return pack_rows(rows)
    total = count_packed(packed) + len(rows)
    return b"".join((_HEAD, total.to_bytes(4, "big"), packed[_HEAD_BYTES:], _body(rows)))


def count_packed(packed: bytes) -> int:
    """Return how many rows a value holds."""
    return int.from_bytes(packed[1:_HEAD_BYTES], "big")


def unpacker(kind: Any) -> Callable[[bytes], Any]:
    """Return a decoder for values of a type."""
    return msgspec.msgpack.Decoder(kind).decode


def _body(rows: Sequence[Any]) -> bytes:
    count = len(rows)
    head = 1 if count <= _FIX_MAX else 3 if count <= _SHORT_MAX else _HEAD_BYTES
    return _encode(rows)[head:]
