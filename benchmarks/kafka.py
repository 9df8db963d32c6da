"""Topics of the benchmarks: made, filled, watched, read and deleted with the plain client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
)

from benchmarks.oracles import OutputRecord
from benchmarks.records import Record, TimedRecord

_REQUEST_TIMEOUT_S = 30.0
_READ_TIMEOUT_S = 60.0
_QUEUE_MESSAGES = 200_000
_BATCH = 5_000
_PARTITION_BLOCK = 50
_ATTEMPTS = 100
_RETRY_S = 0.1
QUIET = {"log_level": 2}
"""The clients complain of a broker that stops, which is what it does at the end."""
_PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)


class BrokerSilenceError(Exception):
    """The broker did not answer, or a topic is not what it should be."""


@dataclass(slots=True)
class Topics:
    """Everything the harness asks of the broker."""

    bootstrap: str
    _admin: AdminClient = field(init=False)
    _readers: dict[str, Consumer] = field(default_factory=dict)
    _partitions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})

    def create(self, names: Sequence[str], partitions: int) -> None:
        """Make topics that keep records of any age."""
        config = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
        wanted = [
            NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
            for name in names
        ]
        for future in self._admin.create_topics(wanted).values():
            future.result(_REQUEST_TIMEOUT_S)
        for name in names:
            # A new topic shows up in the metadata a moment later.
            self._wait_for_leaders(name, partitions)

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        for _ in range(_ATTEMPTS):
            found = self._admin.list_topics(timeout=_REQUEST_TIMEOUT_S).topics.get(name)
            places = [] if found is None else list(found.partitions.values())
            if len(places) == partitions and all(place.leader >= 0 for place in places):
                return
            time.sleep(_RETRY_S)
        raise BrokerSilenceError(f"{name} has no leaders")

    def exists(self, name: str) -> bool:
        """Whether there is such a topic."""
        return name in self.names()

    def names(self) -> set[str]:
        """All topics."""
        return set(self._admin.list_topics(timeout=_REQUEST_TIMEOUT_S).topics)

    def partitions(self, name: str) -> int:
        """How many partitions a topic has."""
        if name not in self._partitions:
            found = self._admin.list_topics(name, timeout=_REQUEST_TIMEOUT_S).topics[name]
            if not found.partitions:
                raise BrokerSilenceError(f"there is no topic {name}")
            self._partitions[name] = len(found.partitions)
        return self._partitions[name]

    def delete(self, names: Iterable[str]) -> None:
        """Remove topics; those that are not there are no error."""
        present = [name for name in names if self.exists(name)]
        if not present:
            return
        for future in self._admin.delete_topics(present).values():
            try:
                future.result(_REQUEST_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise

    def delete_of(self, application_id: str) -> None:
        """Remove what an application made for itself: changelogs, repartition topics, epochs."""
        self.delete(name for name in self.names() if application_id in name)

    def end_offsets(self, name: str) -> dict[int, int]:
        """Where each partition ends for a reader that sees only what is committed."""
        asked = {
            TopicPartition(name, number): OffsetSpec.latest()
            for number in range(self.partitions(name))
        }
        last: KafkaException | None = None
        for _ in range(_ATTEMPTS):
            futures = self._admin.list_offsets(
                asked,  # pyright: ignore[reportArgumentType]
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=_REQUEST_TIMEOUT_S,
            )
            try:
                return {
                    position.partition: future.result(_REQUEST_TIMEOUT_S).offset
                    for position, future in futures.items()
                }
            except KafkaException as error:
                # A topic that was made just now may not have its leaders yet.
                if error.args[0].code() not in _PASSING:
                    raise
                last = error
                time.sleep(_RETRY_S)
                # What the client knows of the leaders may be older than a pause of the broker.
                self._admin.list_topics(name, timeout=_REQUEST_TIMEOUT_S)
        raise BrokerSilenceError(f"the ends of {name} cannot be read: {last}")

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """How far a group has committed each partition of a topic; 0 where it has not yet."""
        if group not in self._readers:
            self._readers[group] = Consumer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "group.id": group,
                    "enable.auto.commit": False,
                    **QUIET,
                }
            )
        asked = [TopicPartition(topic, number) for number in range(self.partitions(topic))]
        try:
            found = self._readers[group].committed(asked, timeout=_REQUEST_TIMEOUT_S)
        except KafkaException as error:
            # The group, or its coordinator, is not there yet.
            if error.args[0].code() in _PASSING:
                return {}
            raise
        return {position.partition: max(0, position.offset) for position in found}

    def forget(self, group: str) -> None:
        """No more will be asked about a group."""
        reader = self._readers.pop(group, None)
        if reader is not None:
            reader.close()

    def fill(
        self,
        topic: str,
        partitions: int,
        source: Iterable[Record | TimedRecord],
        see: Callable[[Any], None],
    ) -> int:
        """Produce all records into a new topic and show each to `see`.

        Records with a key go where Kafka's own partitioner puts them; those without go round the
        partitions in blocks.

        Returns:
            How many records the topic holds.
        """
        self.create([topic], partitions)
        count = self.append(topic, source, see)
        held = sum(self.end_offsets(topic).values())
        if held != count:
            raise BrokerSilenceError(f"{topic} holds {held} records, {count} were produced")
        return count

    def append(
        self,
        topic: str,
        source: Iterable[Record | TimedRecord],
        see: Callable[[Any], None] = lambda _record: None,
    ) -> int:
        """Produce records to the end of a topic, as `fill` does, and return how many they were."""
        partitions = self.partitions(topic)
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 500_000,
                "queue.buffering.max.messages": _QUEUE_MESSAGES,
                "compression.type": "none",
                **QUIET,
            }
        )
        count = 0
        for record in source:
            see(record)
            place = -1 if record[0] is not None else (count // _PARTITION_BLOCK) % partitions
            _produce(producer, topic, record, place)
            count += 1
        if producer.flush(_READ_TIMEOUT_S):
            raise BrokerSilenceError(f"the broker did not take all records of {topic}")
        return count

    def read(self, names: Sequence[str], stem: str) -> Iterator[OutputRecord]:
        """Read topics from beginning to committed end, each partition in its own order."""
        for name in names:
            branch = name.removeprefix(stem).removeprefix("-")
            for partition, end in self.end_offsets(name).items():
                for key, value in self._read_partition(name, partition, end):
                    yield branch, key, value

    def _read_partition(
        self, name: str, partition: int, end: int
    ) -> Iterator[tuple[bytes | None, bytes | None]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "bench-check",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "queued.max.messages.kbytes": 65_536,
                **QUIET,
            }
        )
        consumer.assign([TopicPartition(name, partition, 0)])
        deadline = time.monotonic() + _READ_TIMEOUT_S
        try:
            while True:
                messages = consumer.consume(_BATCH, timeout=1.0)
                if messages:
                    deadline = time.monotonic() + _READ_TIMEOUT_S
                elif time.monotonic() > deadline:
                    raise BrokerSilenceError(f"{name}-{partition} could not be read to {end}")
                for message in messages:
                    error = message.error()
                    if error is None:
                        yield message.key(), message.value()
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()


def _produce(producer: Producer, topic: str, record: Record | TimedRecord, place: int) -> None:
    key, value, *time_ms = record
    while True:
        try:
            producer.produce(topic, value, key, place, timestamp=time_ms[0] if time_ms else 0)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
