"""What the two processes send each other: a letter, a length, and that many bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

__all__ = [
    "CLOSED",
    "DONE",
    "FAILED",
    "MORE",
    "NO_SCAN",
    "PLAN",
    "REFUSED",
    "RESULT",
    "ROWS",
    "SCAN",
    "START",
    "read_frame",
    "written",
]

HEAD: Final = struct.Struct(">cQ")

START: Final = b"B"
"""To the child: the statement, the tables and the limits, as JSON."""
ROWS: Final = b"R"
"""To the child: a batch of rows; without bytes the scan is at its end."""
NO_SCAN: Final = b"N"
"""To the child: the scan failed."""
SCAN: Final = b"S"
"""From the child: begin a scan, as JSON; answered by `ROWS` without bytes."""
MORE: Final = b"M"
"""From the child: the number of a scan whose next rows are wanted."""
CLOSED: Final = b"X"
"""From the child: the number of a scan of which nothing more is wanted."""
RESULT: Final = b"A"
"""From the child: a part of the result, an Arrow stream."""
PLAN: Final = b"P"
"""From the child: the plan, as JSON."""
DONE: Final = b"D"
"""From the child: all of the result was sent."""
REFUSED: Final = b"E"
"""From the child: what DuckDB says of the statement, as JSON."""
FAILED: Final = b"F"
"""From the child: its own failure."""


def written(kind: bytes, data: bytes) -> bytes:
    """Return the bytes of a message."""
    return HEAD.pack(kind, len(data)) + data


def read_frame(read: Callable[[int], bytes], size_max: int) -> tuple[bytes, bytes]:
    """Return the next message.

    Args:
        read: Returns exactly so many bytes.
        size_max: The largest message.

    Raises:
        ValueError: If it is larger.
    """
    kind, size = HEAD.unpack(read(HEAD.size))
    if size > size_max:
        msg = f"a message of {size} bytes"
        raise ValueError(msg)
    return kind, read(size)
