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

    @property
    def row_count(self) -> int:
        """Its rows."""
        return sum(count for _, _, count in self.batches)

    @property
    def size(self) -> int:
        """What brokers store of them, in bytes, but for the beginning of heads."""
        return sum(len(tail) + len(records) for tail, records, _ in self.batches)


class SealedPart(NamedTuple):
    """A part of a task's rows.

    Attributes:
        rows: By partition.
    """

    rows: list[SealedRows]
