"""The rows of list stores (see list.py) made by column: what a batch appends, and what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from mustela.state.kinds.packed import unpacker

__all__ = ["append_entries", "pack_entries", "unpack_entries"]

_HEAD: Final = b"\xdd"
_HEAD_BYTES: Final = 5
_ONE: Final = b"\xdd\x00\x00\x00\x01"
# An entry: an array of four, a 64-bit time, sequence 0, a value with a 32-bit length, flags 0.
_ENTRY: Final = Struct(">2sq2sI")
_BEGIN: Final = b"\x94\xd3"
_VALUE: Final = b"\x00\xc6"
_END: Final = b"\x00"

unpack_entries: Callable[[bytes], list[tuple[int, int, bytes, int]]] = unpacker(
    list[tuple[int, int, bytes, int]]
)
"""Return the entries of a row: (timestamp, sequence, value, flags)."""


def pack_entries(times: Sequence[int], values: Sequence[bytes]) -> list[bytes]:
    """Return each entry as bytes, with sequence 0 and no flags.

    Example:
        >>> unpack_entries(append_entries(None, pack_entries([5, 7], [b"x", b""])))
        [(5, 0, b'x', 0), (7, 0, b'', 0)]
    """
    pack, begin, value_, end = _ENTRY.pack, _BEGIN, _VALUE, _END
    return [
        pack(begin, time, value_, len(value)) + value + end
        for time, value in zip(times, values, strict=True)
    ]


def append_entries(packed: bytes | None, entries: Sequence[bytes]) -> bytes:
    """Return a row with more entries at its end; it is not decoded.

    Args:
        packed: The row, or None.
        entries: What `pack_entries` made.
    """
    if packed is None:
        if len(entries) == 1:
            return _ONE + entries[0]
        return b"".join((_HEAD, len(entries).to_bytes(4, "big"), *entries))
    count = int.from_bytes(packed[1:_HEAD_BYTES], "big") + len(entries)
    return b"".join((_HEAD, count.to_bytes(4, "big"), packed[_HEAD_BYTES:], *entries))
