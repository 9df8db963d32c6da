r"""Blocks: what an epoch adds to a list store, as columns in one row.

A block's key is ``03``, the latest time in it, its number (eight bytes) and its earliest time; its
value is a msgpack array of three arrays: keys, times and values, by time. So a block is found by
the time span that it covers, and blocks of a time segment are adjacent.

A block whose entries moved to the lists of their keys is *settled*: it is deleted here, and an
empty row under ``04`` and the rest of its key shows that the changelog still has it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from operator import add
from struct import Struct
from typing import Final, NamedTuple

import msgspec

from mustela.state.kinds.layout import pack_time, unpack_time

__all__ = [
    "BLOCK",
    "BLOCK_BYTES_MAX",
    "SETTLED",
    "Columns",
    "Head",
    "OpenColumns",
    "block_key",
    "cut",
    "head_of",
    "open_block",
    "pack_block",
    "unpack_block",
    "values_of",
]

BLOCK: Final = b"\x03"
"""First byte of the key of a block."""

SETTLED: Final = b"\x04"
"""First byte of the key of the row that marks a settled block."""

BLOCK_BYTES_MAX: Final = 65_536
"""The maximum size of the keys and values of a block. A larger entry is alone in its block: no
record is larger than the broker accepted anyway."""

Columns = tuple[list[bytes], list[int], list[bytes]]
"""Keys, times and values."""

OpenColumns = tuple[list[bytes], list[int], msgspec.Raw]
"""Keys, times and, still packed, values."""

_NUMBER: Final = Struct(">Q")
_LAST, _NUMBER_AT, _FIRST = 1, 9, 17

_encode = msgspec.msgpack.Encoder().encode
unpack_block: Callable[[bytes], Columns] = msgspec.msgpack.Decoder(Columns).decode
open_block: Callable[[bytes], OpenColumns] = msgspec.msgpack.Decoder(OpenColumns).decode
values_of: Callable[[msgspec.Raw], list[bytes]] = msgspec.msgpack.Decoder(list[bytes]).decode


class Head(NamedTuple):
    """The contents of the key of a block.

    Attributes:
        last: The latest time in it.
        number: Blocks count up, in the order in which they were written.
        first: The earliest time in it.
    """

    last: int
    number: int
    first: int


def block_key(head: Head) -> bytes:
    """Return the key of a block.

    Example:
        >>> head_of(block_key(Head(last=7, number=2, first=5)))
        Head(last=7, number=2, first=5)
    """
    return BLOCK + pack_time(head.last) + _NUMBER.pack(head.number) + pack_time(head.first)


def head_of(place: bytes) -> Head:
    """Decode the key of a block."""
    (number,) = _NUMBER.unpack_from(place, _NUMBER_AT)
    return Head(unpack_time(place[_LAST:]), number, unpack_time(place[_FIRST:]))


def pack_block(keys: Sequence[bytes], times: Sequence[int], values: Sequence[bytes]) -> bytes:
    """Return the value of a block.

    Example:
        >>> unpack_block(pack_block([b"k"], [5], [b"v"]))
        ([b'k'], [5], [b'v'])
    """
    return _encode((keys, times, values))


def _size(column: Sequence[bytes]) -> int:
    return sum(map(len, column))


def cut(
    keys: Sequence[bytes], times: Sequence[int], values: Sequence[bytes], width: int
) -> Iterator[slice]:
    """Divide entries that are in order of time into those of one block each.

    Args:
        keys: Keys.
        times: Times, in order.
        values: Values.
        width: No block covers a longer span of time.

    Example:
        >>> list(cut([b"k"] * 4, [1, 2, 9, 10], [b"v"] * 4, 5))
        [slice(0, 2, None), slice(2, 4, None)]
    """
    if times[-1] - times[0] <= width and _size(keys) + _size(values) <= BLOCK_BYTES_MAX:
        yield slice(0, len(times))  # which is usual, and each entry need not be looked at
        return
    ends = list(accumulate(map(add, map(len, keys), map(len, values))))
    start = 0
    while start < len(times):
        before = ends[start - 1] if start else 0
        stop = bisect_right(ends, before + BLOCK_BYTES_MAX, start)
        stop = max(start + 1, min(stop, bisect_right(times, times[start] + width, start)))
        yield slice(start, stop)
        start = stop
