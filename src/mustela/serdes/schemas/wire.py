"""Confluent's wire format: a zero byte, four bytes of the schema's id, and the value.

In Protobuf the indexes of the message in its file come between id and value.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

__all__ = ["HEAD", "MAGIC", "head_of", "read_id", "read_indexes", "write_indexes"]

MAGIC: Final = 0
HEAD: Final = 5
_HEAD: Final = Struct(">bI")
_INDEXES_MAX: Final = 100
_VARINT_BITS: Final = 35


def head_of(schema_id: int) -> bytes:
    r"""Return the bytes before each value of a schema.

    Example:
        >>> head_of(258)
        b'\x00\x00\x00\x01\x02'
    """
    return _HEAD.pack(MAGIC, schema_id)


def read_id(data: bytes) -> int:
    """Return the id of a value's schema.

    Raises:
        ValueError: If the bytes do not begin with such a head.
    """
    if len(data) < HEAD:
        msg = f"a value with a schema has at least {HEAD}: a zero byte and the schema's id"
        raise ValueError(msg)
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != MAGIC:
        msg = f"they begin with {magic & 0xFF:#04x}, but a value with a schema begins with 0x00"
        raise ValueError(msg)
    return schema_id


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    r"""Return the path to a message in its file; the first message is a single zero.

    Example:
        >>> write_indexes((0,)), write_indexes((1, 0))
        (b'\x00', b'\x04\x02\x00')
    """
    if indexes == (0,):
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def read_indexes(data: bytes, start: int = HEAD) -> tuple[tuple[int, ...], int]:
    r"""Return the path to a message in its file, and where the message begins.

    Raises:
        ValueError: If there is no such path.

    Example:
        >>> read_indexes(b"\x04\x02\x00rest", 0)
        ((1, 0), 3)
    """
    count, at = _unzigzag(data, start)
    if count == 0:
        return (0,), at
    if not 0 < count <= _INDEXES_MAX:
        msg = f"they have {count} message indexes"
        raise ValueError(msg)
    found: list[int] = []
    for _ in range(count):
        index, at = _unzigzag(data, at)
        if index < 0:
            msg = "a message index is negative"
            raise ValueError(msg)
        found.append(index)
    return tuple(found), at


def _zigzag(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _unzigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > _VARINT_BITS:
            msg = "their message indexes are cut off"
            raise ValueError(msg)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
