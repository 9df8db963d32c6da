"""The rows of list stores as bytes: encoding entries by column, and lists too long for one row.

Layouts: see list.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Final

from mustela.state.kinds.layout import TIME_BYTES
from mustela.state.kinds.packed import unpacker

__all__ = [
    "ROW_BYTES_MAX",
    "SEALED",
    "Packed",
    "append_entries",
    "entries_of",
    "grow",
    "grow_many",
    "pack_entries",
    "sealed_places",
    "whole_lists",
]

ROW_BYTES_MAX: Final = 65_536
"""The size at which a row is sealed; an epoch rewrites no more than this of a list."""

SEALED: Final = b"\x02"
"""First byte of the key of a sealed row of a list; its segment follows."""

Packed = tuple[int, int, bytes]
"""An entry as it comes from a row: (timestamp, number of its block, value)."""

_HEAD: Final = b"\xdd"
_MARK: Final = 0xC1
_MARK_BYTES: Final = 5
_HEAD_BYTES: Final = 5
_NUMBER: Final = Struct(">I")
_NUMBERED: Final = Struct(">BI")
_ONE: Final = b"\xdd\x00\x00\x00\x01"
# An entry: an array of three, a 64-bit time, a 64-bit number, a value with a 32-bit length.
_ENTRY: Final = Struct(">2sqcQcI")
_BEGIN: Final = b"\x93\xd3"
_COUNT: Final = b"\xcf"
_VALUE: Final = b"\xc6"

_unpack: Callable[[bytes], list[Packed]] = unpacker(list[Packed])


def pack_entries(times: Sequence[int], number: int, values: Sequence[bytes]) -> list[bytes]:
    """Return each entry as bytes; all belong to one block.

    Example:
        >>> entries_of(append_entries(None, pack_entries([5, 7], 1, [b"x", b""])))
        [(5, 1, b'x'), (7, 1, b'')]
    """
    pack = _ENTRY.pack
    return [
        pack(_BEGIN, time, _COUNT, number, _VALUE, len(value)) + value
        for time, value in zip(times, values, strict=True)
    ]


def append_entries(packed: bytes | None, entries: Sequence[bytes]) -> bytes:
    """Append entries to a row without decoding it.

    Args:
        packed: The row, or None.
        entries: What `pack_entries` made, or other entries of that form.
    """
    if packed is None:
        if len(entries) == 1:
            return _ONE + entries[0]
        return b"".join((_HEAD, _NUMBER.pack(len(entries)), *entries))
    if packed[0] == _MARK:
        return packed[:_MARK_BYTES] + append_entries(packed[_MARK_BYTES:], entries)
    count = _NUMBER.unpack_from(packed, 1)[0] + len(entries)
    return b"".join((_HEAD, _NUMBER.pack(count), packed[_HEAD_BYTES:], *entries))


def entries_of(packed: bytes) -> list[Packed]:
    """Return the entries in a row, without those already sealed."""
    return _unpack(packed[_MARK_BYTES:] if packed[0] == _MARK else packed)


def grow(place: bytes, packed: bytes | None, entries: Sequence[bytes]) -> dict[bytes, bytes]:
    r"""Return the rows to be written so that a list has more entries.

    Args:
        place: The key of its row.
        packed: The row, or None.
        entries: The new entries.

    Example:
        >>> full = append_entries(None, pack_entries([1], 0, [bytes(ROW_BYTES_MAX)]))
        >>> rows = grow(b"12345678apple", full, pack_entries([2], 3, [b"x"]))
        >>> sealed_places(b"12345678apple", rows[b"12345678apple"])
        [b'\x0212345678\x00\x00\x00\x01apple']
        >>> entries_of(rows[b"12345678apple"])
        [(2, 3, b'x')]
    """
    if packed is None or len(packed) < ROW_BYTES_MAX:
        return {place: append_entries(packed, entries)}
    number = _sealed_count(packed) + 1
    plain = packed[_MARK_BYTES:] if packed[0] == _MARK else packed
    head = _NUMBERED.pack(_MARK, number) + append_entries(None, entries)
    return {_sealed_place(place, number): plain, place: head}


def grow_many(
    places: Sequence[bytes], rows: Mapping[bytes, bytes | None], entries: Sequence[bytes]
) -> dict[bytes, bytes]:
    """Return the rows to be written so that lists have more entries, one each time.

    Args:
        places: The key of the row of each entry; in order where one comes again.
        rows: The rows by key.
        entries: The entries.
    """
    written: dict[bytes, bytes] = {}
    again: dict[bytes, list[bytes]] = {}
    for place, entry in zip(places, entries, strict=True):
        if place in written:
            again.setdefault(place, []).append(entry)
        elif rows[place] is None:
            written[place] = _ONE + entry
        else:
            written[place] = b""
            again[place] = [entry]
    for place, more in again.items():
        first = written[place]
        if first:  # the first entry is there already
            more.insert(0, first[_HEAD_BYTES:])
        written.update(grow(place, rows[place], more))
    return written


def sealed_places(place: bytes, packed: bytes | None) -> list[bytes]:
    """Return the keys of the rows that a list was sealed into, oldest first."""
    if packed is None or packed[0] != _MARK:
        return []
    return [_sealed_place(place, number) for number in range(1, _sealed_count(packed) + 1)]


def whole_lists(
    rows: Mapping[bytes, bytes | None],
    places: Iterable[bytes],
    load: Callable[[list[bytes]], Mapping[bytes, bytes | None]],
) -> dict[bytes, list[Packed]]:
    """Return the entries of each list that is there, in the order in which they were appended.

    Args:
        rows: The rows by key.
        places: The lists' keys.
        load: Fetches sealed rows; called at most once.
    """
    there = {place: packed for place in places if (packed := rows[place]) is not None}
    sealed = {
        place: sealed_places(place, packed) for place, packed in there.items() if packed[0] == _MARK
    }
    if not sealed:
        return {place: entries_of(packed) for place, packed in there.items()}
    loaded = load([one for found in sealed.values() for one in found])
    lists: dict[bytes, list[Packed]] = {}
    for place, packed in there.items():
        entries: list[Packed] = []
        for one in sealed.get(place, ()):
            row = loaded[one]
            assert row is not None, one
            entries += entries_of(row)
        lists[place] = entries + entries_of(packed)
    return lists


def _sealed_count(packed: bytes) -> int:
    return _NUMBER.unpack_from(packed, 1)[0] if packed[0] == _MARK else 0


def _sealed_place(place: bytes, number: int) -> bytes:
    return SEALED + place[:TIME_BYTES] + _NUMBER.pack(number) + place[TIME_BYTES:]
