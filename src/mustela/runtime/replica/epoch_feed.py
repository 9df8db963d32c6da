"""The epoch records of an application, one after the other, as they are committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from mustela.connectors.kafka.ranges import RangeReader
from mustela.connectors.kafka.tail import TailReader, TailRow
from mustela.model import TopicPartition
from mustela.runtime.commit.epochs import refuse_remade
from mustela.runtime.ports import Cluster
from mustela.runtime.record.epoch_delta import is_delta, token_of
from mustela.runtime.record.epoch_record import EpochRecord, epochs_topic
from mustela.runtime.record.record_rows import RecordFold

__all__ = ["EpochFeed", "KafkaEpochFeed"]

_FIRST_STEP = 64


class EpochFeed(Protocol):
    """The committed epochs of an application."""

    def new(self, wait_s: float) -> Sequence[EpochRecord]:
        """Return the records committed since the last call, the newest one last.

        The first call returns the newest record alone, if there is any.

        Args:
            wait_s: How many seconds to wait for one.

        Raises:
            MustelaError: If the topic cannot be read, or is not the one that was read before.
        """
        ...

    def all_new(self) -> Sequence[EpochRecord]:
        """Return the same up to the end of the topic as it is now."""
        ...

    def close(self) -> None:
        """Begin again with the newest record at the next call."""
        ...


class KafkaEpochFeed:
    """Reads the epochs topic on a Kafka cluster.

    Args:
        application_id: The application.
        properties: Client properties of consumers.
        cluster: Tells where the topic begins and ends.
        tail: Follows the topic.
    """

    def __init__(
        self,
        application_id: str,
        properties: Mapping[str, Any],
        cluster: Cluster,
        tail: TailReader,
    ) -> None:
        self._application_id = application_id
        self._place = TopicPartition(epochs_topic(application_id), 0)
        self._properties = properties
        self._cluster = cluster
        self._tail = tail
        self._fold: RecordFold | None = None
        self._last: tuple[int, int, int] = (0, 0, 0)

    def new(self, wait_s: float) -> Sequence[EpochRecord]:
        """Return the records committed since the last call, the newest one last."""
        if self._fold is None:
            return self._begin()
        return self._records(self._fold, self._tail.fresh(self._place, wait_s))

    def all_new(self) -> Sequence[EpochRecord]:
        """Return the same up to the end of the topic as it is now."""
        if self._fold is None:
            return self._begin()
        (end,) = self._cluster.end_offsets([self._place]).values()
        return self._records(self._fold, self._tail.take(self._place, end))

    def _records(self, fold: RecordFold, rows: Iterable[TailRow]) -> list[EpochRecord]:
        found: list[EpochRecord] = []
        for row in rows:
            record = None if row.value is None else fold.take(row.value)
            if record is None:
                continue
            token = token_of(record)
            if token < self._last:
                then, now = (f"run {at[0]}, epoch {at[1]}" for at in (self._last, token))
                refuse_remade(self._application_id, then, now)
            self._last = token
            found.append(record)
        return found

    def _begin(self) -> Sequence[EpochRecord]:
        """Read back to the last whole record, and follow the topic from its present end."""
        if not self._cluster.describe([self._place.topic]):
            return ()
        (end,) = self._cluster.end_offsets([self._place]).values()
        (first,) = self._cluster.earliest_offsets([self._place]).values()
        fold, newest = RecordFold(), None
        for value in self._values(first, end):
            newest = fold.take(value) or newest
        self._tail.follow({self._place: end})
        self._fold = fold
        self._last = (0, 0, 0) if newest is None else token_of(newest)
        return () if newest is None else (newest,)

    def _values(self, first: int, end: int) -> list[bytes]:
        """Return the rows from the last whole record on."""
        reader = RangeReader(self._properties)
        step = _FIRST_STEP
        try:
            while True:
                start = max(first, end - step)
                chunks = reader.read(*self._place, start, end)
                values = [value for chunk in chunks for value in chunk.values if value is not None]
                whole = [at for at, value in enumerate(values) if not is_delta(value)]
                if whole or start == first:
                    return values[whole[-1] :] if whole else []
                step *= 8
        finally:
            reader.close()

    def close(self) -> None:
        """Begin again with the newest record at the next call."""
        self._fold = None
