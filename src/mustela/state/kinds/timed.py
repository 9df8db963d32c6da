"""Rows with a timestamp before each value.

Layout of a timestamped value, format 1: eight bytes of big-endian milliseconds, then the value's
own bytes, as Kafka Streams has it; headers may precede it (headers.py).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mustela.serdes.base import Serde
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.headers import ValueTimestampHeaders, split_headers, without_headers

__all__ = [
    "NO_TIMESTAMP",
    "TIMED_BYTES",
    "ValueAndTimestamp",
    "no_headers",
    "pack_timestamped",
    "timestamped_unpacker",
    "unpack_headed",
    "unpack_timestamped",
    "with_timed_value",
]

V_co = TypeVar("V_co", covariant=True)

NO_TIMESTAMP: Final = -1
"""The timestamp of a value that was put without one."""

_TIME = Struct(">q")
TIMED_BYTES: Final = _TIME.size
"""The size of the time before a value, in bytes."""


class ValueAndTimestamp(NamedTuple, Generic[V_co]):
    """A value with the time of the record that it comes from, in milliseconds."""

    value: V_co
    timestamp: int


def pack_timestamped(value: bytes, timestamp: int) -> bytes:
    """Return the stored form of a value and its timestamp.

    Example:
        >>> unpack_timestamped(pack_timestamped(b"x", 1_000))
        (b'x', 1000)
    """
    return _TIME.pack(timestamp) + value


def unpack_timestamped(stored: bytes) -> tuple[bytes, int]:
    """Return the value and the timestamp in a stored form."""
    return stored[TIMED_BYTES:], _TIME.unpack_from(stored)[0]


def timestamped_unpacker(spec: StoreSpec) -> Callable[[bytes], tuple[bytes, int]]:
    """Return the function that reads value and timestamp from a store's rows."""
    if not spec.with_headers:
        return unpack_timestamped
    return lambda stored: unpack_timestamped(without_headers(stored))


def unpack_headed(stored: bytes, serde: Serde[Any]) -> ValueTimestampHeaders[Any]:
    """Return value, timestamp and headers in the stored form of a store with headers."""
    headers, row = split_headers(stored)
    data, timestamp = unpack_timestamped(row)
    return ValueTimestampHeaders(serde.deserialize(data), timestamp, headers)


def no_headers(spec: StoreSpec) -> StoreError:
    """Return the error for requesting headers of a store that keeps none."""
    return StoreError(
        f"store {spec.name!r} keeps no headers: it is a {spec.kind} store",
        fix="take the handle without headers, or make the store with headers",
        fields={"store": spec.name, "kind": spec.kind},
    )


def with_timed_value(
    spec: StoreSpec, _key: bytes, row: bytes, change: Callable[[bytes], bytes]
) -> bytes:
    """Return a timestamped row with another value in it; see `StoreKind.values`."""
    bare = without_headers(row) if spec.with_headers else row
    head = len(row) - len(bare) + TIMED_BYTES
    return row[:head] + change(row[head:])
