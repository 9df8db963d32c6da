"""Python's values as bytes that sort as the values do, for keys of indexes and custom stores.

Layout, format 1. The first byte is the type; types sort in this order: None, False, True, numbers,
str, bytes, datetime, tuple. An int and a float that are equal have the same bytes. No value's bytes
are the beginning of another's, so bytes may follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from struct import Struct
from typing import Any, Final

from mustela.state.faults import StoreError

__all__ = ["descending", "ordered_bytes"]

_NONE: Final = b"\x01"
_FALSE: Final = b"\x02"
_TRUE: Final = b"\x03"
_NUMBER: Final = b"\x10"
_STR: Final = b"\x20"
_BYTES: Final = b"\x28"
_MOMENT: Final = b"\x30"
_TUPLE: Final = b"\x40"
_END: Final = b"\x00"

# What follows the type of a number. Between them: the exponent, and the bits after the first one.
_LOWEST, _NEGATIVE, _ZERO, _POSITIVE, _HIGHEST = (bytes((sign,)) for sign in range(5))

_EXPONENT = Struct(">I")
_EXPONENT_ZERO: Final = 1 << 31
_MANTISSA_BITS: Final = 53
_MICROSECONDS = Struct(">Q")
_SIGN: Final = 1 << 63
_SINCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FLIPPED: Final = bytes(255 - byte for byte in range(256))
_KINDS: Final = "None, bool, int, float, str, bytes, datetime with a time zone, and tuples of them"


def ordered_bytes(value: object) -> bytes:
    """Return bytes that sort as the values do.

    Types sort in this order: None, False, True, numbers, str (by code point), bytes, datetime,
    tuple. ``1`` and ``1.0`` have the same bytes; ``-0.0`` is 0. No value's bytes are the beginning
    of another's, so more bytes may follow.

    Args:
        value: None, a bool, int, float, str, bytes, an aware datetime, or a tuple of such values.

    Raises:
        StoreError: If it is of another type, not a number, or a datetime without a time zone.

    Example:
        >>> sorted([10, -3, 2.5, "b", "a", (1, "z"), None], key=ordered_bytes)
        [None, -3, 2.5, 10, 'a', 'b', (1, 'z')]
    """
    found = _ENCODERS.get(type(value))
    if found is None:
        found = next((_ENCODERS[kind] for kind in _ENCODERS if isinstance(value, kind)), None)
    if found is None:
        msg = f"a value of type {type(value).__name__}, {value!r:.60}, has no order"
        raise _unordered(msg)
    return found(value)


def descending(data: bytes) -> bytes:
    """Return bytes of `ordered_bytes` in a form that sorts the other way round.

    Example:
        >>> sorted([1, 3, 2], key=lambda number: descending(ordered_bytes(number)))
        [3, 2, 1]
    """
    return data.translate(_FLIPPED)


def _unordered(msg: str) -> StoreError:
    return StoreError(
        msg,
        why="its bytes would not sort as the values do",
        fix=f"use {_KINDS}",
    )


def _text(head: bytes, data: bytes) -> bytes:
    # A zero byte is escaped, so that two of them end the value before all that could follow.
    if b"\x00" in data:
        data = data.replace(b"\x00", b"\x00\xff")
    return head + data + b"\x00\x00"


def _integer(value: int) -> bytes:
    if not value:
        return _NUMBER + _ZERO
    size = abs(value)
    return _number(size, size.bit_length() - 1, negative=value < 0)


def _float(value: float) -> bytes:
    if value != value:
        msg = "nan has no order"
        raise _unordered(msg)
    if not value:
        return _NUMBER + _ZERO
    if math.isinf(value):
        return _NUMBER + (_HIGHEST if value > 0 else _LOWEST)
    mantissa, exponent = math.frexp(abs(value))
    size = int(math.ldexp(mantissa, _MANTISSA_BITS))
    return _number(size, exponent - 1, negative=value < 0)


def _number(size: int, exponent: int, *, negative: bool) -> bytes:
    """Return a number: its first bit is 2 to the power of the exponent, ``size`` has all bits."""
    bits = size.bit_length() - 1
    rest = (size - (1 << bits)) << (-bits % 8)
    fraction = rest.to_bytes((bits + 7) // 8, "big").rstrip(b"\x00")
    data = _EXPONENT.pack(exponent + _EXPONENT_ZERO) + _text(b"", fraction)
    return _NUMBER + (_NEGATIVE + descending(data) if negative else _POSITIVE + data)


def _moment(value: datetime) -> bytes:
    if value.tzinfo is None:
        msg = f"{value!r} has no time zone"
        raise _unordered(msg)
    since = value - _SINCE
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return _MOMENT + _MICROSECONDS.pack(micros + _SIGN)


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: _NONE,
    bool: lambda value: _TRUE if value else _FALSE,
    int: _integer,
    float: _float,
    str: lambda value: _text(_STR, value.encode("utf-8", "surrogatepass")),
    bytes: lambda value: _text(_BYTES, value),
    datetime: _moment,
    tuple: lambda value: _TUPLE + b"".join(map(ordered_bytes, value)) + _END,
}
