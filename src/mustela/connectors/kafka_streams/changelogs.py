"""Rows of Kafka Streams' changelogs.

A changelog has no types: what a row means depends on the store that wrote it. All numbers are
big-endian.

- key-value stores: the key's and the value's own bytes; the time of a timestamped store is that of
  the record, whose value has no time in it.
- window stores: the key, the window's start (8 bytes), and a number that is 0 unless the store
  keeps duplicates (4 bytes).
- session stores: the key, the session's end and its start (8 bytes each).
- versioned stores: each version is a record whose time is the start of its validity.
- suppressions: the key, and `Suppressed`.
- left and outer joins of streams: time (8 bytes), side (1 byte: 1 left, 0 right), and the key; the
  value is a list (a byte 1, how many, and each with its length: 4 bytes) of values led by the side.
"""

from __future__ import annotations

from struct import Struct, error as StructError
from typing import Final, NamedTuple

from mustela.errors import DataError
from mustela.model import Headers

__all__ = [
    "ChangelogFormatError",
    "Suppressed",
    "Unmatched",
    "split_session",
    "split_unmatched",
    "split_window",
    "suppressed",
    "unmatched_values",
    "users_headers",
]

_WINDOW: Final = Struct(">qI")
_SESSION: Final = Struct(">qq")
_SIDED: Final = Struct(">qB")
_LONG: Final = Struct(">q")
_INT: Final = Struct(">i")
_NULL: Final = -1
_SAME_AS_PRIOR: Final = -2
_CONTEXT_VERSION: Final = b"\x03"
_LEFT: Final = 1
_VARIABLE_SIZE: Final = 1
_A_WINDOW: Final = "window"
_A_SESSION: Final = "session"
_UNMATCHED: Final = "record without a partner"
_SUPPRESSED: Final = "suppressed row"
_VERSIONED: Final = "suppressed row of Kafka Streams 2.4 or later"
_OWN_HEADERS: Final = frozenset({"v", "c"})


class ChangelogFormatError(DataError):
    """A row of a changelog is not what a store of the given kind writes."""

    code = "MIGRATE_ROW_FORMAT"


class Suppressed(NamedTuple):
    """What a suppression holds back for a key.

    Attributes:
        due: Where the row stands in the order of the buffer: a window's end, or the time of the
            first update.
        timestamp: The time of the last update, in milliseconds.
        new: The last value; None for a deletion.
        old: The value before the last update; None if there was none.
        prior: The value that was passed on before; None if there was none.
        headers: Those of the last update.
    """

    due: int
    timestamp: int
    new: bytes | None
    old: bytes | None
    prior: bytes | None
    headers: Headers


class Unmatched(NamedTuple):
    """A record of a stream join that has no partner yet.

    Attributes:
        timestamp: Its time, in milliseconds.
        is_left: Whether it is of the left side.
        key: Its key.
    """

    timestamp: int
    is_left: bool
    key: bytes


def split_window(key: bytes) -> tuple[bytes, int, int]:
    r"""Return record key, start and number in the key of a window.

    Raises:
        ChangelogFormatError: If it is no window's key.

    Example:
        >>> split_window(b"ann" + (60_000).to_bytes(8, "big") + bytes(4))
        (b'ann', 60000, 0)
    """
    at = len(key) - _WINDOW.size
    if at < 0:
        raise _unlike(_A_WINDOW, key)
    start, number = _WINDOW.unpack_from(key, at)
    return key[:at], start, number


def split_session(key: bytes) -> tuple[bytes, int, int]:
    """Return record key, start and end in the key of a session.

    Raises:
        ChangelogFormatError: If it is no session's key.

    Example:
        >>> split_session(b"ann" + (9).to_bytes(8, "big") + (4).to_bytes(8, "big"))
        (b'ann', 4, 9)
    """
    at = len(key) - _SESSION.size
    if at < 0:
        raise _unlike(_A_SESSION, key)
    end, start = _SESSION.unpack_from(key, at)
    if start > end:
        raise _unlike(_A_SESSION, key)
    return key[:at], start, end


def split_unmatched(key: bytes) -> Unmatched:
    r"""Return what the key of a record without a partner says.

    Raises:
        ChangelogFormatError: If it is none.

    Example:
        >>> split_unmatched((7).to_bytes(8, "big") + b"\x01ann")
        Unmatched(timestamp=7, is_left=True, key=b'ann')
    """
    if len(key) < _SIDED.size or key[_LONG.size] > _LEFT:
        raise _unlike(_UNMATCHED, key)
    timestamp, side = _SIDED.unpack_from(key)
    return Unmatched(timestamp, side == _LEFT, key[_SIDED.size :])


def unmatched_values(row: bytes) -> list[bytes]:
    r"""Return the values of the records without a partner of one key, time and side.

    Raises:
        ChangelogFormatError: If it is no list of such values.

    Example:
        >>> unmatched_values(bytes.fromhex("01 00000001 00000003 01 6f6b"))
        [b'ok']
    """
    try:
        count = _INT.unpack_from(row, 1)[0]
        found, at = list[bytes](), 1 + _INT.size
        for _ in range(count):
            value, at = _sized(row, at)
            if not value or value[0] > _LEFT:
                raise IndexError
            found.append(value[1:])
    except (StructError, IndexError) as error:
        raise _unlike(_UNMATCHED, row) from error
    if row[0] != _VARIABLE_SIZE or at != len(row):
        raise _unlike(_UNMATCHED, row)
    return found


def suppressed(row: bytes, headers: Headers) -> Suppressed:
    """Return what the row of a suppression holds.

    Args:
        row: The value of the record.
        headers: Its headers, which name the version of the row.

    Raises:
        ChangelogFormatError: If it is no such row, or one that Kafka Streams before 2.4 wrote.
    """
    if dict(headers).get("v") != _CONTEXT_VERSION:
        raise _unlike(_VERSIONED, row)
    try:
        return _suppressed(row)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise _unlike(_SUPPRESSED, row) from error


def users_headers(headers: Headers) -> Headers:
    """Return the headers of a changelog's record without those that Kafka Streams adds.

    Example:
        >>> users_headers((("from", b"web"), ("v", b"0"), ("c", b"")))
        (('from', b'web'),)
    """
    return tuple(header for header in headers if header[0] not in _OWN_HEADERS)


def _suppressed(row: bytes) -> Suppressed:
    timestamp = _LONG.unpack_from(row)[0]
    at = 2 * _LONG.size  # time, and the offset that nobody needs
    _, at = _sized(row, at)  # the topic
    at += _INT.size  # its partition
    headers, at = _headers(row, at)
    prior, at = _sized(row, at)
    if _INT.unpack_from(row, at)[0] == _SAME_AS_PRIOR:
        old, at = prior, at + _INT.size
    else:
        old, at = _sized(row, at)
    new, at = _sized(row, at)
    due = _LONG.unpack_from(row, at)[0]
    if at + _LONG.size != len(row):
        raise IndexError
    return Suppressed(due, timestamp, new, old, prior, headers)


def _headers(row: bytes, at: int) -> tuple[Headers, int]:
    count = _INT.unpack_from(row, at)[0]
    at += _INT.size
    found: list[tuple[str, bytes | None]] = []
    for _ in range(max(0, count)):
        name, at = _sized(row, at)
        value, at = _sized(row, at)
        found.append(((name or b"").decode(), value))
    return tuple(found), at


def _sized(row: bytes, at: int) -> tuple[bytes | None, int]:
    size = _INT.unpack_from(row, at)[0]
    at += _INT.size
    if size == _NULL:
        return None, at
    if size < 0 or at + size > len(row):
        raise IndexError
    return row[at : at + size], at + size


def _unlike(what: str, data: bytes) -> ChangelogFormatError:
    return ChangelogFormatError(
        f"a row of {len(data)} bytes is not that of a {what}",
        why="the store of that name is of another kind in the old application",
        fix="declare a store of the old one's kind, or match another one: --map OLD=NEW",
    )
