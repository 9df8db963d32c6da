"""Writing and reading rows in the tests of `mustela.connectors.kafka`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,  # pyright: ignore[reportPrivateImportUsage]
)

from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.ranges import RangeReader
from mustela.connectors.kafka.transaction import TransactionalSink
from tests.patience import PATIENCE_S

MakeTopic = Callable[..., str]
MakeSink = Callable[..., TransactionalSink]


def commit_rows(
    sink: TransactionalSink, topic: str, values: list[bytes], partition: int = 0
) -> None:
    """Commit some rows in a transaction of their own."""
    sink.begin()
    sink.produce_columns(topic, [None] * len(values), list(values), partitions=partition)
    sink.commit()


def abort_rows(
    sink: TransactionalSink, topic: str, values: list[bytes], partition: int = 0
) -> None:
    """Write some rows and abort them."""
    sink.begin()
    sink.produce_columns(topic, [None] * len(values), list(values), partitions=partition)
    sink.flush()
    sink.abort()


def values_of(
    reader: RangeReader, topic: str, start: int, end: int, *, partition: int = 0, batch: int = 100
) -> list[bytes | None]:
    """Read the values of a range."""
    chunks = reader.read(topic, partition, start, end, max_batch=batch)
    return [value for chunk in chunks for value in chunk.values]


def plain_producer(properties: dict[str, Any], **more: Any) -> Producer:
    """Make a producer outside Mustela."""
    return Producer({"log_level": 0, **properties, **more})


def add_partitions(properties: dict[str, Any], topic: str, partitions: int) -> None:
    """Give a topic more partitions, by a client that no other knows of."""
    client = AdminClient(properties)
    asked = [NewPartitions(topic, partitions)]
    for future in client.create_partitions(asked, operation_timeout=PATIENCE_S).values():
        future.result(PATIENCE_S)


def move_group(admin: KafkaAdmin, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Set offsets of a group as a tool does, after all that the application has committed.

    The broker writes that down after a commit has returned, and would write it over these.
    """
    admin.group_offsets(group)  # is answered when nothing of the group is undecided
    admin.set_group_offsets(group, offsets)


def await_end(admin: KafkaAdmin, topic: str, end: int, *, partition: int = 0) -> None:
    """Wait until a partition ends at ``end``: markers are written after a commit has returned."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        (found,) = admin.end_offsets([(topic, partition)]).values()
        if found >= end:
            break
        time.sleep(0.01)
    assert found == end


def await_settled(properties: dict[str, Any], topic: str) -> None:
    """Wait until no transaction is open in a topic and all its markers are written."""
    admin = KafkaAdmin(properties)
    probe = Consumer(
        {**properties, "group.id": "probe", "isolation.level": "read_uncommitted", "log_level": 0}
    )
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        places = [(topic, partition) for partition in range(admin.partitions(topic))]
        stable = admin.end_offsets(places)
        found = probe.offsets_for_times(
            [TopicPartition(*place, -1) for place in places], timeout=10
        )
        if [place.offset for place in found] == list(stable.values()):
            break
        time.sleep(0.01)
    else:
        raise AssertionError(f"{topic} did not settle")
    probe.close()
    admin.close()
