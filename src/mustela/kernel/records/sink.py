"""Rows for Kafka: encoded, with their topic and, if a partitioner is set, their partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from mustela.errors import InvariantError
from mustela.kernel.core.each import call_each, drop, without
from mustela.kernel.core.encode import encode_column, failing, known_key_bytes
from mustela.kernel.core.failures import Failures, SerializationError, instead_of
from mustela.kernel.core.operator import Operator
from mustela.kernel.core.output import SinkRows
from mustela.kernel.records.partitioning import spread
from mustela.kernel.records.sink_order import places_of
from mustela.model import Record
from mustela.plan.batch import Batch
from mustela.plan.expression import Expression, is_watched
from mustela.plan.partitions import partition_of
from mustela.serdes.primitives import BytesSerde
from mustela.topology.sink import SinkNode

__all__ = ["SinkOperator"]

_CONTEXT = 2
"""The place of the record's origin among the arguments of a function that names topics."""


class SinkOperator(Operator[SinkNode]):
    """Encodes rows for one topic, or for the topics that a function names."""

    reads_only: ClassVar[bool] = True

    def open(self) -> None:
        """Choose the serdes."""
        self._key = self.node.key or BytesSerde()
        self._value = self.node.value or BytesSerde()

    def process_one(self, batch: Batch) -> None:
        """Encode the rows and collect them."""
        self._write(batch, self.encode_failures())

    def encode_failures(self) -> Failures:
        """Return what happens to rows that cannot be encoded: others may take their place."""
        failures = super().encode_failures()
        failures.instead = self._put_instead
        return failures

    def _put_instead(self, batch: Batch, row: int, records: Sequence[Record[Any, Any]]) -> None:
        self.replaced.append(instead_of(batch, row, records, keeps_key=False, step=self.node))

    def _write(self, batch: Batch, failures: Failures) -> None:
        topics: list[str] | None = None
        if not isinstance(self.node.topic, str):
            topics, batch = self._topics(self.node.topic, batch)
        partitions: list[int | None] | None = None
        if self.node.partitioner is not None:
            partitions, topics, batch = self._partitions(self.node.partitioner, topics, batch)
        keys, failed = known_key_bytes(batch, self.context.key_serde, self._key), list[int]()
        if keys is None:
            keys, failed = encode_column(self._key, batch.keys, batch, failures)
        if failed:  # a row whose key failed is done: its value must not fail too
            batch, keys = without(batch, failed), drop(keys, failed)
            topics, partitions = _drop(topics, failed), _drop(partitions, failed)
        values, failed = encode_column(self._value, batch.values, batch, failures)
        if failed:
            batch, keys, values = without(batch, failed), drop(keys, failed), drop(values, failed)
            topics, partitions = _drop(topics, failed), _drop(partitions, failed)
        if self.replaced:  # with replacements, all rows are encoded again, in order
            whole = self.with_replaced(batch)
            failing_once = Failures(self.node, "fail", SerializationError, self.context.output)
            self._write(whole or Batch.empty(), failing_once)
            return
        if not values:
            return
        if self._key.group_suffix and self.node.partitioner is None:
            partitions = self._partitions_of_windows(topics, keys)
        turns = self.step.turns
        rows = SinkRows(
            step=self.step.name,
            topic=self.node.topic if isinstance(self.node.topic, str) else topics or [],
            keys=keys,
            values=values,
            timestamps=batch.timestamps,
            headers=batch.headers,
            partitions=partitions,
            places=places_of(batch.order, turns) if turns else None,
            spread=self.step.spread,
        )
        self.context.output().rows.append(rows)

    def _topics(self, extractor: Callable[..., Any], batch: Batch) -> tuple[list[str], Batch]:
        if isinstance(extractor, Expression):
            told = self._told(extractor, batch)
            if told is not None:
                return told, batch
            extractor = extractor.function

        def name(key: Any, value: Any, row: int) -> str:
            topic = extractor(key, value, batch.context(row))
            if not isinstance(topic, str) or not topic:
                msg = f"the function must return a topic's name, not {type(topic).__name__}"
                raise TypeError(msg)
            return topic

        on_failure = failing(batch, self.user_failures(extractor))
        columns = (batch.keys, batch.values, range(len(batch)))
        topics, failed = call_each(name, columns, on_failure)
        return drop(topics, failed), without(batch, failed)

    @staticmethod
    def _told(extractor: Expression, batch: Batch) -> list[str] | None:
        """Return the topics of all rows at once; None if that fails, or if origins are asked for.

        An expression has no effects, so each row can be asked again.
        """
        if _CONTEXT in extractor.used or is_watched():
            return None
        try:
            topics = extractor.column((batch.keys, batch.values))
        except Exception:  # noqa: BLE001 - the rows tell which of them it was
            return None
        return topics if {*map(type, topics)} == {str} and all(topics) else None

    def _partitions(
        self, partitioner: Callable[..., Any], topics: list[str] | None, batch: Batch
    ) -> tuple[list[int | None], list[str] | None, Batch]:
        names = [str(self.node.topic)] * len(batch) if topics is None else topics
        failures = self.user_failures(partitioner)
        partitions, names, batch = spread(
            partitioner, names, batch, self._partition_count, failures, self.count
        )
        return partitions, None if topics is None else names, batch

    def _partitions_of_windows(
        self, topics: list[str] | None, keys: list[bytes | None]
    ) -> list[int | None]:
        """Return the partition of the key inside each windowed key, as Kafka Streams chooses it.

        If the number of partitions is not known, the producer chooses by the whole key.
        """
        suffix, known = self._key.group_suffix, self.options.topic_partitions
        names = [str(self.node.topic)] * len(keys) if topics is None else topics
        counts = {name: known[name] for name in set(names) if name in known}
        return [
            None if key is None or name not in counts else partition_of(key[:-suffix], counts[name])
            for key, name in zip(keys, names, strict=True)
        ]

    def _partition_count(self, topic: str) -> int:
        try:
            return self.options.topic_partitions[topic]
        except KeyError:
            msg = f"the number of partitions of topic {topic!r} is not known to the kernel"
            raise InvariantError(msg) from None


def _drop(column: list[Any] | None, failed: list[int]) -> list[Any] | None:
    return None if column is None else drop(column, failed)
