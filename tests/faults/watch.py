"""A read_committed consumer that reads all the time, and looks for what may never be seen."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
)

from mustela.runtime.record.epoch_record import EpochRecord, epochs_topic
from mustela.runtime.record.record_rows import RecordFold
from tests.faults.reach import Servers, reaching
from tests.patience import PATIENCE_S

POLL_S = 0.2
HEADER = "mustela.epoch"


class Row(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    epoch: int | None
    timestamp: int = -1
    topic: str = ""


@dataclass(slots=True)
class Seen:
    """Everything that was read.

    Attributes:
        rows: By topic, in the order they came.
        records: The epoch records.
        violations: What may never be, found while reading.
    """

    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    records: list[EpochRecord] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Watcher:
    """Reads output topics and the epochs topic from their beginnings, in a thread of its own.

    Args:
        servers: The broker.
        application_id: Whose epochs.
        topics: Output topics with their partition counts.

    Attributes:
        bases: What is added to the offsets of a source that was made anew, so that they grow on.
        jumping: Sources of which a claim may skip records, because these were lost.
    """

    def __init__(self, servers: Servers, application_id: str, topics: dict[str, int]) -> None:
        self.seen = Seen()
        self.bases: dict[tuple[str, int], int] = {}
        self.jumping: set[tuple[str, int]] = set()
        self._epochs = epochs_topic(application_id)
        self._fold = RecordFold()
        self._places = [
            TopicPartition(topic, partition, 0)
            for topic, partitions in {**topics, self._epochs: 1}.items()
            for partition in range(partitions)
        ]
        self._consumer = Consumer(
            {
                **reaching(servers),
                "group.id": f"{application_id}-watcher",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "topic.metadata.refresh.interval.ms": 500,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._servers = servers
        self._admin = self._new_admin()
        self._ends: dict[tuple[str, int], int] = {}
        self._last_epoch: dict[tuple[str, int], int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def _new_admin(self) -> AdminClient:
        return AdminClient({**reaching(self._servers), "log_level": 0})

    def start(self) -> None:
        """Begin to read."""
        self._consumer.assign(self._places)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, POLL_S):
                error = message.error()
                if error is None:
                    self._take(message)
                elif error.code() == KafkaError._PARTITION_EOF:  # pyright: ignore[reportPrivateUsage]
                    self._ends[message.topic() or "", message.partition() or 0] = (
                        message.offset() or 0
                    )
                elif error.code() == KafkaError.OFFSET_OUT_OF_RANGE:
                    self.seen.violations.append(f"the watcher lost its place: {error}")

    def _take(self, message: Any) -> None:
        topic: str = message.topic()
        value: bytes | None = message.value()
        if topic == self._epochs:
            record = None if value is None else self._fold.take(value)
            if record is not None:
                self._take_record(record)
            return
        headers = dict(message.headers() or ())
        epoch = headers.get(HEADER)
        row = Row(
            message.partition(),
            message.offset(),
            message.key(),
            value,
            None if epoch is None else int(epoch),
            message.timestamp()[1],
        )
        place = (topic, row.partition)
        if row.epoch is None:
            self.seen.violations.append(f"{topic}: row {row} has no epoch")
        elif row.epoch < self._last_epoch.get(place, 0):
            self.seen.violations.append(
                f"{place}: epoch {row.epoch} after {self._last_epoch[place]}"
            )
        else:
            self._last_epoch[place] = row.epoch
        self.seen.rows[topic].append(row)

    def _take_record(self, record: EpochRecord) -> None:
        """Epochs, offsets and watermark only grow; a claim repeats its epoch's offsets."""
        parts = [
            msgspec.structs.replace(
                part, end=part.end + self.bases.get((part.topic, part.partition), 0)
            )
            for part in record.partitions
        ]
        record = msgspec.structs.replace(record, partitions=parts)
        violations, last = self.seen.violations, self.seen.records[-1:]
        self.seen.records.append(record)
        if not last:
            return
        before = last[0]
        name = f"epoch {record.incarnation}.{record.epoch}.{record.attempt}"
        was = f"{before.incarnation}.{before.epoch}.{before.attempt}"
        if record.incarnation < before.incarnation:
            violations.append(f"{name} after {was}: a fenced instance wrote")
        step = record.epoch - before.epoch
        claim = record.incarnation > before.incarnation
        if step != (0 if claim else 1):
            violations.append(f"{name} after {was}: epochs are not counted one by one")
        if record.watermark < before.watermark:
            violations.append(f"{name}: watermark {record.watermark} after {before.watermark}")
        ends = ends_of(before)
        for place, end in ends_of(record).items():
            moved = claim and end != ends.get(place, end) and place not in self.jumping
            if end < ends.get(place, 0) or moved:
                violations.append(f"{name}: offset of {place} is {end} after {ends[place]}")

    def read_to_end(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until everything that is committed was read, and no transaction hangs.

        Raises:
            AssertionError: If the last stable offset of a topic stays below its end.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                behind = self._behind()
            except KafkaException as error:
                # A client goes on asking with the leader epoch from before a broker's restart.
                self._admin = self._new_admin()
                behind = [str(error)]
            if not behind:
                return
            if time.monotonic() > deadline:
                msg = f"these hang, an open transaction or a lost reader: {behind[:3]}"
                raise AssertionError(msg)
            time.sleep(0.05)

    def _behind(self) -> list[str]:
        """Return where something that is in the log was not read.

        The log's end counts, not the end of what is stable: where a transaction hangs, a reader of
        committed records never gets there.
        """
        latest: Any = OffsetSpec.latest()
        wanted = {TopicPartition(p.topic, p.partition): latest for p in self._places}
        asked = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=60
        )
        behind: list[str] = []
        for place, future in asked.items():
            end, read = (
                future.result(PATIENCE_S).offset,
                self._ends.get((place.topic, place.partition), 0),
            )
            if read < end:
                behind.append(f"{place.topic}-{place.partition}: read to {read} of {end}")
        return behind

    def stop(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        self._consumer.close()


def ends_of(record: EpochRecord) -> dict[tuple[str, int], int]:
    """Return the offsets up to which a record's epoch has read."""
    return {(part.topic, part.partition): part.end for part in record.partitions}
