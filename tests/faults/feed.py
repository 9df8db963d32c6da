"""Input for applications under kills: transactions, some of them aborted, at a steady pace."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.faults.kinds.kind import MakeRecord
from tests.faults.reach import Servers, reaching
from tests.faults.watch import Row
from tests.patience import PATIENCE_S

BATCH = 20
ABORT_EVERY = 9
SETTLE_S = 10.0
TRANSACTION_S = 120.0
"""Long, because a machine that does other things as well may stand still for a while."""
FAILURES_MAX = 20


class Feeder:
    """Writes records in small transactions until it is stopped.

    Args:
        servers: The broker.
        topic: Where to; its last part gives way to the topic that a record names.
        make: Makes the record of a number.
        seed: For what is random.
        pause_s: Pause between two transactions.
    """

    def __init__(
        self, servers: Servers, topic: str, make: MakeRecord, *, seed: int, pause_s: float = 0.04
    ) -> None:
        self._topic = topic
        self._prefix = topic.rpartition(".")[0]
        self._make = make
        self._random = random.Random(seed)
        self._pause_s = pause_s
        self._numbers = 0
        self._batches = 0
        self._settings: dict[str, Any] = {
            **reaching(servers),
            "transactional.id": f"feeder-{topic}",
            "partitioner": "murmur2_random",
            "transaction.timeout.ms": int(2_000 * TRANSACTION_S),
            "retry.backoff.ms": 5,
            "linger.ms": 1,
            "log_level": 0,
        }
        self._lock = threading.Lock()
        self._failures = 0
        self.renew()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self.error: KafkaException | None = None

    def start(self) -> None:
        """Begin to write in a thread."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set() and self.error is None:
            try:
                with self._lock:
                    self.write(BATCH)
            except KafkaException as error:
                self._fail(error)
            self._stopping.wait(self._pause_s)

    def _fail(self, error: KafkaException) -> None:
        """Go on with a new producer: what was not committed is no input, no number comes twice."""
        self._failures += 1
        with suppress(KafkaException), self._lock:
            self.renew()
        if self._failures > FAILURES_MAX:
            self.error = error

    @property
    def made(self) -> int:
        """How many records it has made."""
        return self._numbers

    def told(self) -> str:
        """Return how it gets on, for who looks for what hangs."""
        return f"{self._numbers} records made, {self._failures} failures, error {self.error}"

    def renew(self) -> None:
        """Begin with a new producer, as after the topics were made anew."""
        self._producer = Producer(self._settings)
        self._producer.init_transactions(TRANSACTION_S)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Write nothing for a while."""
        with self._lock:
            yield

    def write(self, count: int) -> None:
        """Write one transaction; every so many are written and aborted first."""
        self._batches += 1
        if self._batches % ABORT_EVERY == 0:
            self._producer.begin_transaction()
            for n in range(5):
                self._producer.produce(self._topic, f"aborted{n}", key=f"k{n}")
            self._producer.flush(TRANSACTION_S)
            self._producer.abort_transaction(TRANSACTION_S)
        self._producer.begin_transaction()
        for _ in range(count):
            sent = self._make(self._random, self._numbers)
            self._numbers += 1
            time: dict[str, Any] = {} if sent.timestamp is None else {"timestamp": sent.timestamp}
            self._producer.produce(f"{self._prefix}.{sent.topic}", sent.value, key=sent.key, **time)
        self._producer.commit_transaction(TRANSACTION_S)

    def stop(self) -> None:
        """Stop writing."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE_S)
        if self.error is not None:
            raise self.error


def read_all(
    servers: Servers, topic: str, partitions: int, *, settle_s: float = SETTLE_S
) -> dict[int, list[Row]]:
    """Read the committed records of a topic, by partition."""
    found: dict[int, list[Row]] = {partition: [] for partition in range(partitions)}
    for row in _rows(servers, topic, partitions, settle_s):
        found[row.partition].append(row)
    return found


def _stable_ends(
    settings: dict[str, Any], places: list[TopicPartition], settle_s: float
) -> dict[int, int]:
    """Return where committed records end, behind the markers of commits that have returned.

    The broker writes them a moment later. It is not waited for long: an application may be writing
    all the time, or have left a transaction open.
    """
    committed, written = (
        Consumer({**settings, "isolation.level": f"read_{level}"})
        for level in ("committed", "uncommitted")
    )
    deadline = time.monotonic() + settle_s
    try:
        while True:
            ends, all_ends = (
                {
                    place.partition: client.get_watermark_offsets(place, PATIENCE_S)[1]
                    for place in places
                }
                for client in (committed, written)
            )
            if ends == all_ends or time.monotonic() > deadline:
                return ends
    finally:
        committed.close()
        written.close()


def _rows(servers: Servers, topic: str, partitions: int, settle_s: float) -> Iterator[Row]:
    """Yield what was committed when this was called: a topic may grow all the time."""
    settings = {
        **reaching(servers),
        "group.id": "read-all",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
        "log_level": 0,
    }
    places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
    ends = _stable_ends(settings, places, settle_s)
    consumer = Consumer(settings)
    try:
        consumer.assign(places)
        left = {partition for partition, end in ends.items() if end > 0}
        deadline = time.monotonic() + PATIENCE_S
        while left:
            assert time.monotonic() < deadline, f"{topic} cannot be read up to {ends}"
            message = consumer.poll(1.0)
            if message is None:
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            if message.error() is None and offset < ends[partition]:
                key: Any = message.key()
                yield Row(partition, offset, key, message.value(), None, message.timestamp()[1])
            else:
                left.discard(partition)
    finally:
        consumer.close()
