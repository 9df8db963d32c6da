r"""Rows that keep the headers of their records.

Layout, format 1. A row whose record had no headers is the row as a store without headers has it, so
that a store which starts to keep headers can read its old rows, and records without headers cost
nothing. One with headers is what Kafka Streams 4.3 makes of a value, a timestamp and headers: the
length of the headers' bytes, those bytes, then the row. The first byte tells which it is: a length
that is not 0 begins with an even byte that is not 0, a timestamp in milliseconds with 0 (it is less
than 2^56) or, below 0, with 255. A row whose timestamp is something else, and begins as a length
does, gets headers of which there are 0; one that was written so by a store without headers would be
misread.

The headers' bytes are their number, and for each header the length and the UTF-8 bytes of its name,
the length and the bytes of its value, where -1 is the length of a null. Numbers are Kafka's
varints.

A session's row has no timestamp to tell them apart: a row with headers is a pair of the headers'
bytes and the row, others are the row alone.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from mustela.model import Headers

__all__ = [
    "AggregationWithHeaders",
    "SessionRow",
    "ValueTimestampHeaders",
    "add_headers",
    "add_session_headers",
    "pack_headers",
    "split_headers",
    "split_session_headers",
    "unpack_headers",
    "without_headers",
    "without_session_headers",
]

V_co = TypeVar("V_co", covariant=True)

SessionRow = bytes | tuple[bytes, bytes]
"""An aggregate's bytes, or the bytes of headers and an aggregate's."""

_NULL: Final = -1
_NO_HEADERS: Final = b"\x02\x00"
"""The length of headers, and that there are 0 of them."""


class ValueTimestampHeaders(NamedTuple, Generic[V_co]):
    """A value with the time, in milliseconds, and the headers of the record that it comes from."""

    value: V_co
    timestamp: int
    headers: Headers


class AggregationWithHeaders(NamedTuple, Generic[V_co]):
    """A session's aggregate with the headers of the record that it comes from."""

    aggregation: V_co
    headers: Headers


def add_headers(row: bytes, headers: Headers) -> bytes:
    """Return a timestamped row with headers.

    Example:
        >>> row = (1_000).to_bytes(8, "big") + b"value"
        >>> add_headers(row, ()) == row
        True
        >>> split_headers(add_headers(row, (("from", b"web"),))) == ((("from", b"web"),), row)
        True
    """
    if not headers:
        first = row[0]
        return row if not first or first & 1 else _NO_HEADERS + row
    packed = pack_headers(headers)
    return _varint(len(packed)) + packed + row


def split_headers(row: bytes) -> tuple[Headers, bytes]:
    """Return the headers of a row, and the row without them."""
    first = row[0]
    if not first or first & 1:
        return (), row
    size, start = _read_varint(row, 0)
    end = start + size
    return unpack_headers(row[start:end]), row[end:]


def without_headers(row: bytes) -> bytes:
    """Return a row without the headers that it may have."""
    first = row[0]
    if not first or first & 1:
        return row
    size, start = _read_varint(row, 0)
    return row[start + size :]


def add_session_headers(row: bytes, headers: Headers) -> SessionRow:
    """Return a session's row with headers."""
    return (pack_headers(headers), row) if headers else row


def split_session_headers(row: SessionRow) -> tuple[Headers, bytes]:
    """Return the headers of a session's row, and the row without them."""
    if isinstance(row, bytes):
        return (), row
    return unpack_headers(row[0]), row[1]


def without_session_headers(row: SessionRow) -> bytes:
    """Return a session's row without the headers that it may have."""
    return row if isinstance(row, bytes) else row[1]


def pack_headers(headers: Headers) -> bytes:
    r"""Return headers as Kafka Streams stores them; no headers give no bytes.

    Example:
        >>> pack_headers((("a", b"x"), ("b", None)))
        b'\x04\x02a\x02x\x02b\x01'
        >>> unpack_headers(pack_headers((("a", b"x"), ("b", None))))
        (('a', b'x'), ('b', None))
    """
    if not headers:
        return b""
    parts = [_varint(len(headers))]
    for name, value in headers:
        data = name.encode()
        parts += (_varint(len(data)), data)
        parts += (_varint(_NULL),) if value is None else (_varint(len(value)), value)
    return b"".join(parts)


def unpack_headers(packed: bytes) -> Headers:
    """Return the headers that `pack_headers` encoded."""
    if not packed:
        return ()
    count, place = _read_varint(packed, 0)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, start = _read_varint(packed, place)
        place = start + size
        name = packed[start:place].decode()
        size, start = _read_varint(packed, place)
        place = start + max(size, 0)
        headers.append((name, None if size == _NULL else packed[start:place]))
    return tuple(headers)


def _varint(number: int) -> bytes:
    """Return a number of 32 bits with its sign in the last bit, seven bits to a byte."""
    rest = (number << 1) ^ (number >> 31)
    if rest < 0x80:
        return bytes((rest,))
    found = bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place after it."""
    found = shift = 0
    while True:
        byte = data[place]
        place += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), place
        shift += 7
