"""What lets a process write into a transaction."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Ticket"]


@dataclass(frozen=True, slots=True)
class Ticket:
    """One transaction: no two of an application have the same producer id and epoch.

    Attributes:
        transactional_id: The application's.
        producer_id: What the broker gave it.
        producer_epoch: Which is another for each transaction; a short.
        by_writing: Whether a partition is in the transaction from the first row that is written to
            it (Kafka's transactions version 2). Otherwise it has to be added before.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    by_writing: bool
