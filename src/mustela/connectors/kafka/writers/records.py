"""The records of a batch as bytes. Each row counts here, so this module can be compiled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from mustela.connectors.kafka.writers.wire import uvarint
from mustela.model import Headers

__all__ = ["encoded_records", "varint"]


def varint(number: int) -> bytes:
    """Encode a number whose sign is in its last bit."""
    return uvarint(number << 1 ^ number >> 63)


_KNOWN = 1 << 14
_VARINTS = [varint(number) for number in range(_KNOWN)]
"""Looked up, a length costs a tenth of what it costs to encode."""


@cache
def _halves() -> tuple[list[bytes], list[bytes]]:
    """Return the last two and the first two of four bytes, for those who have long rows."""
    low = [bytes((low & 0x7F | 0x80, low >> 7 | 0x80)) for low in range(_KNOWN)]
    return low, [uvarint(high) for high in range(_KNOWN)]


def _long_varint(number: int) -> bytes:
    """Encode a number that is too large to be looked up whole."""
    coded = number << 1 ^ number >> 63
    if _KNOWN <= coded < _KNOWN << 14:
        low, high = _halves()
        return low[coded & 0x3FFF] + high[coded >> 14]
    return uvarint(coded)


_NULL = varint(-1)


def encoded_records(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    stamps: Sequence[int] | None,
    headers: Sequence[Headers] | None,
) -> bytes:
    """Return rows as they stand in a batch.

    Args:
        keys: Keys.
        values: Values, as many.
        stamps: Their times, if they have not all the same.
        headers: The headers of each, if any has some.
    """
    times = [_VARINTS[0]] * len(keys) if stamps is None else _times(stamps)
    tails = [_encoded(())] * len(keys) if headers is None else _tails(headers)
    known, looked = _KNOWN, _VARINTS
    out: list[bytes] = []
    # What a function would do once more is done in place.
    for delta, (key, value, time, tail) in enumerate(zip(keys, values, times, tails, strict=True)):
        if key is None:
            key, key_size = b"", _NULL
        else:
            size = len(key)
            key_size = looked[size] if size < known else _long_varint(size)
        size = 0
        if value is None:
            value, value_size = b"", _NULL
        else:
            size = len(value)
            value_size = looked[size] if size < known else _long_varint(size)
        place = looked[delta] if delta < known else _long_varint(delta)
        front = b"".join((b"\0", time, place, key_size, key, value_size))
        size += len(front) + len(tail)
        out += (looked[size] if size < known else _long_varint(size), front, value, tail)
    return b"".join(out)


def _times(stamps: Sequence[int]) -> list[bytes]:
    """Encode how far each is behind the first."""
    known, looked, first = _KNOWN, _VARINTS, stamps[0]
    return [
        looked[since] if 0 <= since < known else _long_varint(since)
        for since in [stamp - first for stamp in stamps]
    ]


def _tails(headers: Sequence[Headers]) -> list[bytes]:
    """Encode headers; what is the same object for several rows is encoded once."""
    last: Headers | None = None
    tail, found = b"", list[bytes]()
    for some in headers:
        if some is not last:
            last, tail = some, _encoded(some)
        found.append(tail)
    return found


def _sized(data: bytes | None) -> bytes:
    if data is None:
        return _NULL
    size = len(data)
    return (_VARINTS[size] if size < _KNOWN else _long_varint(size)) + data


def _encoded(headers: Headers) -> bytes:
    each = [_sized(name.encode()) + _sized(value) for name, value in headers]
    return varint(len(headers)) + b"".join(each)
