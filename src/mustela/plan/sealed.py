"""Sink rows that a lane has put together: batches, all but their place in a transaction."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SealedPart", "SealedRows"]


class SealedRows(NamedTuple):
    """Rows of one partition in batches.

    Attributes:
        topic: The topic.
        partition: The partition.
        batches: Each as the end of its head, from behind the sum on; what stands behind the head;
            and the number of its rows.
    """

    topic: str
    partition: int
    batches: list[tuple[bytes, bytes, int]]


class SealedPart(NamedTuple):
    """A part of a task's rows.

    Attributes:
        rows: By partition.
    """

    rows: list[SealedRows]
