"""What Kafka Streams commits beside an offset: how far event time had come in the partition."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from struct import Struct
from typing import Final

__all__ = ["NO_TIME", "partition_time"]

NO_TIME: Final = -1
"""The time of a partition of which nothing was read, or nothing is known."""

_VERSIONS: Final = (1, 2)
_TIMED: Final = Struct(">Bq")
_CHARACTERS: Final = 12
"""Those of version and time in Base64; what follows them is not looked at."""


def partition_time(metadata: str | None) -> int:
    """Return the largest timestamp that was read of a partition, in milliseconds, or `NO_TIME`.

    Args:
        metadata: The metadata of a committed offset: in Base64 a version, the time in eight bytes,
            and from version 2 on what processors committed. What stands behind it does not
            matter: librdkafka tells metadata without their length.

    Example:
        >>> partition_time("AgAAAAAAAABkAAAAAA=="), partition_time(""), partition_time("by hand")
        (100, -1, -1)
    """
    try:
        data = b64decode((metadata or "")[:_CHARACTERS], validate=True)
    except (Base64Error, ValueError):
        return NO_TIME
    if len(data) < _TIMED.size or data[0] not in _VERSIONS:
        return NO_TIME
    return max(NO_TIME, _TIMED.unpack_from(data)[1])
