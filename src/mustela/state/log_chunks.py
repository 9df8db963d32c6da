r"""How the changelog of a store hears of many rows at once.

A list store keeps a great many small rows, each for a short time, and drops them by the segment of
time. A changelog record for each costs more than the row itself: once when it is written, and once
more when it is deleted. So the rows of one segment that an epoch wrote go to the changelog as one
record, a chunk. Its key is ``03``, the start of the segment and the chunk's number in it (four
bytes), its value a msgpack array of keys and rows by turns.

The store keeps an empty row under the key of each chunk. Whoever drops a segment deletes these
rows, and with their deletions the changelog forgets the whole segment. A copy that catches up
from behind a chunk to behind its deletion still has the rows; it drops them with the next segment
that is over, and nobody asks for them before: their own bytes say that they are too old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Final

import msgspec

from mustela.state.interfaces import EnvironmentSpec, Rows

__all__ = [
    "CHUNK",
    "CHUNK_BYTES_MAX",
    "SEALED",
    "chunk_of",
    "chunks_of",
    "from_log",
    "last_of",
    "logged_rows",
    "pack_chunk",
    "segment_chunks",
]

CHUNK: Final = b"\x03"
"""First byte of the key of a chunk."""

SEALED: Final = b"\x02"
"""First byte of the key of a sealed row of a list; behind it stands its segment."""

CHUNK_BYTES_MAX: Final = 262_144
"""What the rows of a chunk come to at most. A larger row is alone in its chunk: no record is larger
than the row that the broker would have to take anyway."""

_SEGMENT_BYTES: Final = 8
_FIRST_TIME: Final = 0x40
_NUMBER: Final = Struct(">I")
_SEALED_HEAD: Final = SEALED[0]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


def chunk_of(segment: bytes, number: int) -> bytes:
    r"""Return the key of a chunk.

    Example:
        >>> chunk_of(b"\x80\x00\x00\x00\x00\x00\x00\x05", 1)
        b'\x03\x80\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01'
    """
    return CHUNK + segment + _NUMBER.pack(number)


def segment_chunks(segment: bytes) -> tuple[bytes, bytes]:
    """Return the least and the greatest key of a chunk of a segment."""
    return chunk_of(segment, 0), chunk_of(segment, 0xFFFF_FFFF)


def last_of(chunk: tuple[bytes, bytes] | None) -> int:
    """Return the number of a chunk, or -1 if there is none."""
    return -1 if chunk is None else _NUMBER.unpack_from(chunk[0], len(chunk[0]) - 4)[0]


def chunks_of(
    rows: Iterable[tuple[bytes, bytes | None]], last: Callable[[bytes], int]
) -> dict[bytes, Rows]:
    """Put rows that belong to segments into chunks.

    Deletions stay out: they go to the changelog as they are.

    Args:
        rows: The rows, by key.
        last: Returns the number of a segment's last chunk, or -1.

    Returns:
        The rows of each chunk, by its key.
    """
    by_segment: dict[bytes, list[tuple[bytes, bytes | None]]] = {}
    for row in rows:
        key, value = row
        if value is None:
            continue
        if key[0] >= _FIRST_TIME:
            segment = key[:_SEGMENT_BYTES]
        elif key[0] == _SEALED_HEAD:
            segment = key[1 : 1 + _SEGMENT_BYTES]
        else:
            continue
        if segment in by_segment:
            by_segment[segment].append(row)
        else:
            by_segment[segment] = [row]
    chunks: dict[bytes, Rows] = {}
    for segment, mine in by_segment.items():
        for number, part in enumerate(_parts(mine), last(segment) + 1):
            chunks[chunk_of(segment, number)] = part
    return chunks


def _parts(rows: list[tuple[bytes, bytes | None]]) -> Iterator[Rows]:
    part: list[tuple[bytes, bytes | None]] = []
    size = 0
    for row in rows:
        more = len(row[0]) + len(row[1] or b"")
        if part and size + more > CHUNK_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(row)
        size += more
    if part:
        yield part


def pack_chunk(rows: Rows) -> bytes:
    """Return rows as the value of one changelog record.

    Example:
        >>> mark = chunk_of(bytes(8), 0)
        >>> list(from_log([(mark, pack_chunk([(b"k", b"v")])), (b"x", None)])) == [
        ...     (mark, b""), (b"k", b"v"), (b"x", None)]
        True
    """
    return _encode([item for row in rows for item in row])


def from_log(
    records: Iterable[tuple[bytes, bytes | None]],
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the rows that changelog records with chunks among them stand for.

    A chunk that is deleted or replaced takes those of its rows with it that no later chunk has.
    """
    keys: dict[bytes, list[bytes]] = {}
    chunk_by_key: dict[bytes, bytes] = {}
    for record in records:
        chunk, value = record
        if chunk[:1] != CHUNK:
            yield record
            continue
        for key in keys.pop(chunk, ()):
            if chunk_by_key.get(key) == chunk:
                del chunk_by_key[key]
                yield key, None
        if value is None:
            yield chunk, None
            continue
        yield chunk, b""
        items = _decode(value)
        mine = keys[chunk] = items[::2]
        chunk_by_key.update(dict.fromkeys(mine, chunk))
        yield from zip(mine, items[1::2], strict=True)


def logged_rows(
    spec: EnvironmentSpec, store: str, records: Iterable[tuple[bytes, bytes | None]]
) -> Iterable[tuple[bytes, bytes | None]]:
    """Return the rows of a store that its changelog records stand for."""
    kinds = {known.name: known.kind for known in spec.stores}
    return from_log(records) if kinds[store] == "list" else records
