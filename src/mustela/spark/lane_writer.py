"""The rows of one lane for the driver's transaction: what it writes itself, and what it prepares.

Changelog rows a lane writes by itself. Sink rows others write, because more than one lane has rows
for the same partitions: the driver, or the owners of partitions. But their partitions are chosen,
and their batches put together, here.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from mustela.clock import SystemClock
from mustela.connectors.kafka.columns import Columns, RowColumns
from mustela.connectors.kafka.compression import codec_of
from mustela.connectors.kafka.writers.batches import Rows as BatchRows
from mustela.connectors.kafka.writers.cluster import Cluster
from mustela.connectors.kafka.writers.placing import Placing, joined
from mustela.connectors.kafka.writers.sealed import (
    known_partitions,
    partitions_or_fail,
    seal,
    sealed_batches,
)
from mustela.connectors.kafka.writers.writer import TransactionWriter
from mustela.faultpoints import reach
from mustela.plan.sealed import SealedPart, SealedRows
from mustela.state.interfaces import Rows

__all__ = ["ForOwners", "LaneWriter", "Sealer", "Sent", "owner_of"]


class Sent(NamedTuple):
    """What a lane has written.

    Attributes:
        ends: By store and key group, where its changelog ends behind these rows.
        size: Bytes of keys and values.
    """

    ends: dict[tuple[str, int], int]
    size: int


class Topics(Protocol):
    """Names the changelog of a store."""

    def __call__(self, store: str, /) -> str:
        """Return the topic."""
        ...


class LaneWriter:
    """Writes a lane's changelog rows, unless there are so few that the driver may as well.

    A partition of a changelog has one key group, a key group has one lane, and a lane has one life
    in an attempt of an epoch: so this is the only writer of its partitions under its ticket.

    Args:
        writer: Writes.
        topic: Names changelogs.
        least: With fewer rows than this, nothing is written.
    """

    def __init__(self, writer: TransactionWriter, topic: Topics, *, least: int) -> None:
        self._writer = writer
        self._topic = topic
        self._least = least
        self._kept: list[tuple[str, int, Rows]] = []
        self._count = 0
        self._size = 0
        self._stores: dict[tuple[str, int], tuple[str, int]] = {}

    def add(self, store: str, group: int, rows: Rows) -> None:
        """Take the changes of one store in one key group.

        Raises:
            RowsRefused: If the broker does not take some row.
            TransactionFailed: If rows could not be sent.
        """
        self._kept.append((store, group, rows))
        self._count += len(rows)
        if self._count >= self._least:
            for kept in self._kept:
                self._write(*kept)
            self._kept.clear()

    def _write(self, store: str, group: int, rows: Rows) -> None:
        topic = self._topic(store)
        self._stores[topic, group] = store, group
        keys, values = [key for key, _ in rows], [value for _, value in rows]
        self._size += sum(map(len, keys)) + sum(len(value) for value in values if value is not None)
        self._writer.write(topic, group, keys, values)
        reach("in-lane-writing")

    def few(self) -> Iterator[tuple[str, int, Rows]]:
        """Yield what was not written, because there is too little of it."""
        yield from self._kept

    def finish(self) -> Sent:
        """Wait until the brokers have what was written, and say where.

        Raises:
            RowsRefused: If the broker does not take some row.
            TransactionFailed: If rows could not be sent.
        """
        written = self._writer.finish() if self._stores else {}
        if written:
            reach("in-lane-written")
        return Sent({self._stores[place]: at.end for place, at in written.items()}, self._size)

    def close(self) -> None:
        """Write nothing more; what was written stays in the transaction."""
        self._writer.close()


_LEAST_IN_BATCH = 50
"""With fewer rows for a partition, the driver puts them together with those of other parts."""
_BATCH_BYTES = 500_000
_ROW_BYTES = 32
"""About what a row's key takes, and what stands around it in a batch."""
Place = tuple[str, int]
"""Topic and partition."""


class Sealer:
    """Puts sink rows together, where there are enough of them.

    Args:
        cluster: Knows how many partitions topics have.
        properties: Client properties.
        header: A header that each row gets besides its own.
        least: With fewer rows than this, nothing is put together.
    """

    def __init__(
        self,
        cluster: Cluster,
        properties: Mapping[str, Any],
        header: tuple[str, bytes] | None,
        *,
        least: int,
    ) -> None:
        self._cluster = cluster
        self._codec = codec_of(properties)
        self._header = header
        self._least = least
        self._placing = Placing(cluster.partitions)
        self._clock = SystemClock()

    def seal(self, columns: RowColumns) -> SealedPart | None:
        """Return rows by partition, in batches; None if the driver is to do that."""
        topics, count = columns.topics, len(columns.values)
        if count < self._least or not self._fills(topics, count):
            return None
        rows, now_ms = _with_header(columns, self._header), self._clock.now_ms()
        return SealedPart(list(seal(self._placing, rows, now_ms, _BATCH_BYTES, self._codec)))

    def _fills(self, topics: str | list[str], count: int) -> bool:
        """Return whether there are enough rows for the partitions of their topics."""
        names = {topics} if isinstance(topics, str) else set(topics)
        if count < _LEAST_IN_BATCH * len(names):
            return False  # a function may name any number of topics: they are not asked for
        partitions = [known_partitions(self._cluster, name) for name in names]
        return all(partitions) and count >= _LEAST_IN_BATCH * sum(partitions)


def _with_header(columns: RowColumns, header: tuple[str, bytes] | None) -> Columns:
    return Columns(
        topics=columns.topics,
        keys=columns.keys,
        values=columns.values,
        timestamps=columns.timestamps,
        headers=columns.headers,
        partitions=columns.partitions,
        header=header,
    )


def owner_of(topic: str, partition: int, owners: int) -> int:
    """Return which owner has a partition: neighbours have different ones.

    Example:
        >>> len({owner_of("paths", partition, 4) for partition in range(4)})
        4
    """
    return (zlib.crc32(topic.encode()) + partition) % owners


class ForOwners:
    """Puts sink rows together for the owners of partitions, few or many, until a batch is full.

    Each row goes this way, whatever part it comes in: a partition has one writer.

    Args:
        cluster: Knows how many partitions topics have.
        properties: Client properties.
        header: A header that each row gets besides its own.
        owners: How many owners there are.
        batch_bytes: What a batch may have before it is compressed, about.
    """

    def __init__(
        self,
        cluster: Cluster,
        properties: Mapping[str, Any],
        header: tuple[str, bytes] | None,
        owners: int,
        *,
        batch_bytes: int = _BATCH_BYTES,
    ) -> None:
        self._codec = codec_of(properties)
        self._header = header
        self._owners = owners
        self._batch_bytes = batch_bytes
        self._placing = Placing(partial(partitions_or_fail, cluster))
        self._clock = SystemClock()
        self._waiting: dict[Place, list[BatchRows]] = {}
        self._bytes = Counter[Place]()

    def add(self, columns: RowColumns) -> Iterator[tuple[int, SealedPart]]:
        """Take rows; yield, with their owners, those whose batches are full.

        Raises:
            TransactionFailed: If nobody says how many partitions a topic has.
        """
        rows, now_ms = _with_header(columns, self._header), self._clock.now_ms()
        size = sum(len(value) for value in rows.values if value is not None) // len(rows)
        for place, some in self._placing.sorted(rows, None, now_ms=now_ms):
            self._waiting.setdefault(place, []).append(some)
            self._bytes[place] += (size + _ROW_BYTES) * len(some.values)
            if self._bytes[place] >= self._batch_bytes:
                yield self._owner(place), SealedPart([self._sealed(place)])

    def rest(self) -> Iterator[tuple[int, SealedPart]]:
        """Yield what is left, with their owners."""
        found: dict[int, list[SealedRows]] = {}
        for place in list(self._waiting):
            found.setdefault(self._owner(place), []).append(self._sealed(place))
        for owner, rows in found.items():
            yield owner, SealedPart(rows)

    def _owner(self, place: Place) -> int:
        return owner_of(*place, self._owners)

    def _sealed(self, place: Place) -> SealedRows:
        del self._bytes[place]
        rows = joined(self._waiting.pop(place))
        return SealedRows(*place, sealed_batches(rows, self._batch_bytes, self._codec))
