"""Writes rows into a transaction that another process has begun and will end."""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter, sleep
from typing import Any, NamedTuple, NoReturn

from confluent_kafka import KafkaError, KafkaException

from mustela.clock import Clock, SystemClock
from mustela.connectors.kafka.compression import codec_of
from mustela.connectors.kafka.deliveries import Diagnosis
from mustela.connectors.kafka.errors import (
    ErrorKind,
    RefusedRow,
    RowsRefused,
    error_of,
    kind_of,
)
from mustela.connectors.kafka.transaction_failures import Circumstances, failure_of
from mustela.connectors.kafka.writers.batches import Batch, Rows, cut
from mustela.connectors.kafka.writers.cluster import Cluster
from mustela.connectors.kafka.writers.connection import Connection
from mustela.connectors.kafka.writers.coordinator import add_partitions
from mustela.connectors.kafka.writers.sealed import SealedBatch
from mustela.connectors.kafka.writers.wire import (
    NO_TAGS,
    Answer,
    Api,
    compact_string,
    uvarint,
)
from mustela.model import Headers
from mustela.plan.ticket import Ticket

__all__ = ["TransactionWriter", "WriterOptions", "Written"]

PRODUCE = Api(0, 9, "Produce")
PRODUCE_AND_ADD = Api(0, 12, "Produce")
_ALL_REPLICAS = -1
_PAUSE_FIRST_S = 0.002
_PAUSE_LAST_S = 0.2
_SEQUENCES = 1 << 31
Place = tuple[str, int]
"""Topic and partition."""
_AnyBatch = Batch | SealedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How long and how much.

    Attributes:
        timeout: Seconds from the first row until all of them are with the brokers.
        batch_bytes: Bytes in a batch; at most ``max.message.bytes`` of every topic written to.
        request_bytes: Bytes of the batches in one request; about as much waits to be sent.
    """

    timeout: float = 60.0
    batch_bytes: int = 1_000_000
    request_bytes: int = 8 << 20


class Written(NamedTuple):
    """Where the rows of a partition are: the first offset, and that behind the last row."""

    start: int
    end: int


@dataclass(slots=True)
class _Lane:
    """A partition: what waits for it, the number of its next row, and where its rows are."""

    waiting: deque[_AnyBatch] = field(default_factory=deque["_AnyBatch"])
    sequence: int = 0
    written: Written | None = None


class _Said(NamedTuple):
    """What a broker said of one batch."""

    error: KafkaError | None
    offset: int
    rows: list[tuple[int, str]]


class TransactionWriter:
    """The one writer of its partitions in one transaction.

    A batch is sent when that before it is with the brokers, and again, with the same number, when
    its answer was lost: so a broker has it once. While one round of requests is under way the next
    is encoded. Not for two threads at once.

    Args:
        properties: Client properties.
        ticket: The transaction. No other writer may write to these partitions under it.
        options: Limits.
        clock: For rows without a time.
        cluster: Connections that outlive the writer; by default it has its own.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        ticket: Ticket,
        *,
        options: WriterOptions | None = None,
        clock: Clock | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self._ticket = ticket
        self._options = options or WriterOptions()
        self._clock = clock or SystemClock()
        self._codec = codec_of(properties)
        self._cluster = cluster or Cluster(properties)
        self._keeps_open = cluster is not None
        self._lanes: dict[Place, _Lane] = defaultdict(_Lane)
        self._to_add: list[Place] = []
        self._under_way: list[tuple[Connection, dict[Place, _AnyBatch]]] = []
        self._waiting_bytes = 0
        self._is_begun = False
        self._since = perf_counter()
        self._pause = _PAUSE_FIRST_S

    def write(  # noqa: PLR0913 - the columns of a row
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
        *,
        tag: object = None,
    ) -> None:
        """Write rows. That they are with the brokers, `finish` says.

        Args:
            topic: The topic.
            partition: Its partition.
            keys: Keys.
            values: Values.
            timestamps: Milliseconds; None for the time of this call.
            headers: Headers of each row.
            tag: Comes back in `RefusedRow.tag`.

        Raises:
            RowsRefused: If the broker does not take some row.
            TransactionFailed: If rows could not be sent.
        """
        stamps = self._clock.now_ms() if timestamps is None else timestamps
        self.write_rows(topic, partition, Rows(keys, values, stamps, headers, tag))

    def write_rows(self, topic: str, partition: int, rows: Rows) -> None:
        """Write rows that are put together already.

        Args:
            topic: The topic.
            partition: Its partition.
            rows: The rows.

        Raises:
            RowsRefused: If the broker does not take some row.
            TransactionFailed: If rows could not be sent.
        """
        if not rows.values:
            return
        place = self._place(topic, partition)
        self._take_in(place, cut(rows, self._options.batch_bytes))

    def write_batches(self, topic: str, partition: int, batches: Iterable[SealedBatch]) -> None:
        """Write batches that somebody else has put together.

        Args:
            topic: The topic.
            partition: Its partition.
            batches: The batches.

        Raises:
            RowsRefused: If the broker does not take some row; nobody can say which.
            TransactionFailed: If rows could not be sent.
        """
        self._take_in(self._place(topic, partition), batches)

    def _take_in(self, place: Place, batches: Iterable[_AnyBatch]) -> None:
        if not self._is_begun:
            self._is_begun, self._since = True, perf_counter()
        for batch in batches:
            self._lanes[place].waiting.append(batch)
            self._waiting_bytes += batch.size
            while self._waiting_bytes >= self._options.request_bytes:
                self._turn()

    def _place(self, topic: str, partition: int) -> Place:
        """Return a partition that is in the transaction before its first rows are sent."""
        place = (topic, partition)
        if place not in self._lanes and not self._ticket.by_writing:
            self._to_add.append(place)
        return place

    def finish(self) -> dict[Place, Written]:
        """Wait until the brokers have every row, and say where.

        Raises:
            RowsRefused: If the broker does not take some row.
            TransactionFailed: If rows could not be sent.
        """
        while self._under_way or any(lane.waiting for lane in self._lanes.values()):
            self._turn()
        return {place: lane.written for place, lane in self._lanes.items() if lane.written}

    def close(self) -> None:
        """Let the connections go. What was written stays in the transaction.

        Those that outlive the writer stay, unless an answer is still to come on one of them.
        """
        if self._under_way or not self._keeps_open:
            self._under_way.clear()
            self._cluster.forget()

    def _add(self) -> None:
        """Add new partitions with one request; no answer is awaited on any connection then."""
        if not self._to_add:
            return
        try:
            add_partitions(self._cluster, self._ticket, self._to_add, self._options.timeout)
        except KafkaException as raised:
            self._fail(error_of(raised))
        self._to_add.clear()

    def _turn(self) -> None:
        """Take the answers of the last round, and send the next."""
        try:
            self._receive()
            self._add()
            self._send()
        except KafkaException as raised:
            self._again(error_of(raised))

    def _send(self) -> None:
        by_leader: dict[int, dict[Place, _AnyBatch]] = defaultdict(dict)
        sizes: dict[int, int] = defaultdict(int)
        for place, lane in self._lanes.items():
            if lane.waiting:
                leader, batch = self._cluster.leader(*place), lane.waiting[0]
                if not sizes[leader] or (sizes[leader] + batch.size <= self._options.request_bytes):
                    by_leader[leader][place] = batch
                    sizes[leader] += batch.size
        for leader, batches in by_leader.items():
            connection, body = self._cluster.broker(leader), self._request(batches)
            self._under_way.append((connection, batches))
            connection.send(self._api, *body)

    @property
    def _api(self) -> Api:
        return PRODUCE_AND_ADD if self._ticket.by_writing else PRODUCE

    def _request(self, batches: Mapping[Place, _AnyBatch]) -> list[bytes]:
        """Return a request in parts: batches are large, and each `+` would copy them."""
        topics: dict[str, list[tuple[bytes, bytes, bytes]]] = defaultdict(list)
        for (topic, partition), batch in batches.items():
            sequence = self._lanes[topic, partition].sequence
            head, records = batch.encode(self._ticket, sequence, self._codec)
            size = uvarint(len(head) + len(records) + 1)
            topics[topic].append((struct.pack(">i", partition) + size + head, records, NO_TAGS))
        limits = struct.pack(">hi", _ALL_REPLICAS, int(self._options.timeout * 1000))
        identity = compact_string(self._ticket.transactional_id)
        parts = [identity, limits, uvarint(len(topics) + 1)]
        for topic, partitions in topics.items():
            parts += (compact_string(topic), uvarint(len(partitions) + 1))
            parts += chain.from_iterable(partitions)
            parts.append(NO_TAGS)
        parts.append(NO_TAGS)
        return parts

    def _receive(self) -> None:
        trouble: KafkaError | None = None
        while self._under_way:
            leader, batches = self._under_way.pop()
            said = _read(leader.receive(self._api))
            for place, batch in batches.items():
                trouble = self._take(place, batch, said[place]) or trouble
        if trouble is not None:
            raise KafkaException(trouble)
        self._pause = _PAUSE_FIRST_S

    def _take(self, place: Place, batch: _AnyBatch, said: _Said) -> KafkaError | None:
        """Note what became of a batch; return the error after which it is sent again."""
        lane = self._lanes[place]
        if said.error is not None:
            kind = kind_of(said.error)
            if kind is ErrorKind.ROW:
                self._refused(place, batch, said)
                return None
            if kind in (ErrorKind.RETRYABLE, ErrorKind.TOPIC_GONE):
                return said.error
            self._fail(said.error)
        assert lane.waiting[0] is batch, "one batch of a partition is under way at a time"
        lane.waiting.popleft()
        self._waiting_bytes -= batch.size
        start = said.offset if lane.written is None else lane.written.start
        lane.written = Written(start, said.offset + len(batch))
        lane.sequence = (lane.sequence + len(batch)) % _SEQUENCES
        return None

    def _refused(self, place: Place, batch: _AnyBatch, said: _Said) -> None:
        """Name the rows that are wrong; send the halves of a batch of which nobody says which."""
        error = said.error
        assert error is not None
        if isinstance(batch, SealedBatch):
            raise RowsRefused.later(error.name(), error.str())
        if not said.rows and len(batch) > 1:
            lane = self._lanes[place]
            lane.waiting.popleft()
            halves = batch.halves()
            lane.waiting.extendleft(reversed(halves))
            self._waiting_bytes += sum(half.size for half in halves) - batch.size
            return
        rows = (
            RefusedRow(batch.rows.tag, batch.start + at, place[0], error.name(), text)
            for at, text in said.rows or [(0, error.str())]
        )
        raise RowsRefused.of(rows)

    def _again(self, error: KafkaError) -> None:
        """Prepare to send what has no answer once more, or give up."""
        kinds = (ErrorKind.RETRYABLE, ErrorKind.BROKER_GONE, ErrorKind.TOPIC_GONE)
        if kind_of(error) not in kinds or perf_counter() - self._since > self._options.timeout:
            self._fail(error)
        if error.code() != KafkaError.CONCURRENT_TRANSACTIONS:
            self._under_way.clear()
            self._cluster.forget()
        sleep(self._pause)
        self._pause = min(2 * self._pause, _PAUSE_LAST_S)

    def _fail(self, error: KafkaError) -> NoReturn:
        elapsed = perf_counter() - self._since
        what = "could not write rows into a transaction"
        now = Circumstances(what, elapsed, self._options.timeout, commit_sent=False)
        raise failure_of(error, now, Diagnosis())


def _read(answer: Answer) -> dict[Place, _Said]:
    found: dict[Place, _Said] = {}

    def row() -> tuple[int, str]:
        at, text = answer.int32(), answer.string() or ""
        answer.tags()
        return at, text

    def partition(topic: str) -> None:
        number, code, offset = answer.int32(), answer.int16(), answer.int64()
        answer.int64()
        answer.int64()
        rows, text = answer.array(row), answer.string()
        answer.tags()
        error = (KafkaError(code, text) if text else KafkaError(code)) if code else None
        found[topic, number] = _Said(error, offset, rows)

    def topic() -> None:
        name = answer.string() or ""
        answer.array(lambda: partition(name))
        answer.tags()

    answer.array(topic)
    return found
