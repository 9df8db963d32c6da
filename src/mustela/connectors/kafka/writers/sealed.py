"""Batches that lanes put together, all but their place in a transaction, which the driver adds.

The rows of a partition have one writer in a transaction. Where many lanes have rows for the same
partitions that is the driver, and what it then does with each row is what costs: it chooses the
partition and encodes. A lane can do both as well; the driver numbers whole batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from confluent_kafka import KafkaException

from mustela.connectors.kafka.columns import Columns
from mustela.connectors.kafka.transaction_failures import partitions_unknown
from mustela.connectors.kafka.writers.batches import HEAD_BYTES, Rows, cut, whole_head
from mustela.connectors.kafka.writers.cluster import Cluster
from mustela.connectors.kafka.writers.placing import Placing
from mustela.plan.sealed import SealedRows
from mustela.plan.ticket import Ticket

__all__ = ["SealedBatch", "known_partitions", "partitions_or_fail", "seal", "sealed_batches"]

_NOBODY = Ticket("", -1, -1, by_writing=True)
_PRODUCER = struct.Struct(">qhi")
_AT_PRODUCER = 22
"""Where it stands in the tail of the head."""


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A batch, as brokers store it, of a transaction that is not known yet.

    Attributes:
        tail: Its head from behind the sum on.
        records: What stands behind the head.
        count: Its rows.
    """

    tail: bytes
    records: bytes
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def size(self) -> int:
        """Bytes of it."""
        return HEAD_BYTES + len(self.records)

    def encode(self, ticket: Ticket, sequence: int, _codec: str = "none") -> tuple[bytes, bytes]:
        """Return it as a part of a transaction; how it is compressed was said when it was made."""
        tail = bytearray(self.tail)
        numbers = ticket.producer_id, ticket.producer_epoch, sequence
        _PRODUCER.pack_into(tail, _AT_PRODUCER, *numbers)
        return whole_head(bytes(tail), self.records), self.records


def known_partitions(cluster: Cluster, topic: str) -> int:
    """Return how many partitions a topic has; 0 where nobody says so now."""
    try:
        return cluster.partitions(topic)
    except KafkaException:
        cluster.forget()
        return 0


def partitions_or_fail(cluster: Cluster, topic: str) -> int:
    """Return how many partitions a topic has.

    Raises:
        TransactionFailed: If nobody says so now.
    """
    try:
        return cluster.partitions(topic)
    except KafkaException as raised:
        cluster.forget()
        raise partitions_unknown(raised, topic, elapsed=0.0, limit=inf) from raised


def seal(
    placing: Placing, columns: Columns, now_ms: int, batch_bytes: int, codec: str
) -> Iterator[SealedRows]:
    """Yield rows by partition, in batches.

    Args:
        placing: Chooses partitions.
        columns: The rows.
        now_ms: The time of rows without one.
        batch_bytes: What a batch may have before it is compressed.
        codec: How batches are compressed.
    """
    for (topic, partition), rows in placing.sorted(columns, None, now_ms=now_ms):
        yield SealedRows(topic, partition, sealed_batches(rows, batch_bytes, codec))


def sealed_batches(rows: Rows, batch_bytes: int, codec: str) -> list[tuple[bytes, bytes, int]]:
    """Return the rows of a partition in batches; see `seal`."""
    return [(*batch.tail(_NOBODY, 0, codec), len(batch)) for batch in cut(rows, batch_bytes)]
