"""What tasks send by themselves under at_least_once: rows without a transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from zlib import crc32

from mustela.connectors.kafka.errors import BrokerUnavailable
from tests.simulation.broker import BASE_MS
from tests.simulation.world import Life, SimWorld

__all__ = ["SimRowChecks", "SimSink"]

_BATCH_BYTES = 1_000_000

_Row = tuple[str, int | None, bytes | None, bytes | None, int | None]


class SimRowChecks:
    """What `RowChecks` offers to tasks: every row is welcome."""

    def refused(self, _number: int, _columns: Any) -> list[Any]:
        """Return the rows that the cluster would refuse."""
        return []

    def batch_bytes(self, _topics: Any) -> int:
        """Return how large a batch may be."""
        return _BATCH_BYTES


class SimSink:
    """What `PlainSink` offers. Rows wait until somebody flushes; each may be the last one.

    Args:
        world: The world.
        life: Whose task it is.
    """

    batch_bytes = _BATCH_BYTES

    def __init__(self, world: SimWorld, life: Life) -> None:
        self._world = world
        self._life = life
        self._waiting: list[_Row] = []

    def fit(self, _size: int) -> None:
        """Batches are of any size."""

    def produce_columns(
        self,
        topics: str | Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        headers: Any = None,
        partitions: Sequence[int | None] | int | None = None,
        *,
        header: Any = None,
        tag: object = None,
        skip: Collection[int] = (),
    ) -> None:
        """Take rows."""
        for row, (key, value) in enumerate(zip(keys, values, strict=True)):
            if row in skip:
                continue
            topic = topics if isinstance(topics, str) else topics[row]
            partition = partitions[row] if isinstance(partitions, Sequence) else partitions
            time = None if timestamps is None else timestamps[row]
            self._waiting.append((topic, partition, key, value, time))

    def flush(self, timeout: float | None = None) -> None:
        """Send what waits, in order; a request that fails leaves the rest behind."""
        waiting, self._waiting = self._waiting, []
        for topic, partition, key, value, time in waiting:
            self._world.at(self._life, "send a row")
            if self._world.failure(self._life) is not None:
                raise BrokerUnavailable("could not send rows: simulated")
            count = len(self._world.broker.topics[topic].partitions)
            chosen = crc32(key or b"") % count if partition is None else partition
            at_ms = BASE_MS + self._world.ms if time is None else max(1, time)
            self._world.broker.append(topic, chosen, key, value, at_ms)
            self._life.sent.setdefault((topic, key), []).append(value)
        self._world.happened["rows without a transaction"] += len(waiting)

    def close(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
