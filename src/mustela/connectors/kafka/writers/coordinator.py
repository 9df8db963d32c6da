"""The driver's side of a transaction: it alone begins and ends, whoever writes."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any, NoReturn, TypeVar

from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.client import servers_of
from mustela.connectors.kafka.deliveries import Diagnosis
from mustela.connectors.kafka.errors import ErrorKind, error_of, fault, kind_of
from mustela.connectors.kafka.transaction_failures import Circumstances, failure_of
from mustela.connectors.kafka.writers.cluster import OF_GROUP, OF_TRANSACTION, Cluster
from mustela.connectors.kafka.writers.connection import Connection
from mustela.connectors.kafka.writers.features import bumps_at_end
from mustela.connectors.kafka.writers.traffic import Traffic
from mustela.connectors.kafka.writers.wire import (
    NO_TAGS,
    Answer,
    Api,
    compact_array,
    compact_string,
)
from mustela.errors import InvariantError
from mustela.plan.ticket import Ticket

__all__ = ["TransactionCoordinator", "add_partitions"]

INIT = Api(22, 4, "InitProducerId")
ADD_PARTITIONS = Api(24, 3, "AddPartitionsToTxn")
ADD_OFFSETS = Api(25, 3, "AddOffsetsToTxn")
END = Api(26, 3, "EndTxn")
END_AND_BUMP = Api(26, 5, "EndTxn")
OFFSETS = Api(28, 3, "TxnOffsetCommit")
OFFSETS_AND_ADD = Api(28, 5, "TxnOffsetCommit")
_NOBODY = (-1, -1)
_NOTHING_OPEN = KafkaError.INVALID_TXN_STATE
T = TypeVar("T")


class TransactionCoordinator:
    """Begins and ends the transactions of one transactional id, and hands out their tickets.

    After an error nothing is known: `open` ends what is left open, and what has older tickets is
    refused from then on.

    Args:
        properties: Client properties.
        transactional_id: Fences every older producer of the same id.
        group: The consumer group whose offsets are committed; by default the same name.
        commit_timeout: Seconds a transaction may be open; behind it the broker aborts it.
        open_timeout: Seconds to wait for a broker, and for an older transaction to end.
        traffic: Where is counted what goes over its connections.

    Example:
        A driver, and a process that writes for it::

            coordinator.open()
            ticket = coordinator.begin()
            writer = TransactionWriter(properties, ticket)  # in any process
            writer.write("counts", 0, [b"word"], [b"1"])
            written = writer.finish()
            coordinator.send_offsets({("words", 0): 41})
            coordinator.commit()
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        transactional_id: str,
        *,
        group: str | None = None,
        commit_timeout: float = 60.0,
        open_timeout: float = 60.0,
        traffic: Traffic | None = None,
    ) -> None:
        self._id = transactional_id
        self._group = group or transactional_id
        self._commit_timeout, self._open_timeout = commit_timeout, open_timeout
        self._cluster = Cluster(properties, traffic=traffic)
        self._servers = servers_of(properties)
        self._ticket: Ticket | None = None
        self._is_used = False
        self._since = perf_counter()

    @property
    def is_open(self) -> bool:
        """Whether there is a ticket; there is none before `open` and after an error."""
        return self._ticket is not None

    @property
    def ticket(self) -> Ticket:
        """What was given last.

        Raises:
            InvariantError: If nothing is open.
        """
        if self._ticket is None:
            what = "the coordinator is used although it is not open"
            raise InvariantError(what, why="after an error nothing is known but by opening again")
        return self._ticket

    def warm(self) -> None:
        """Connect to some broker; this claims and fences nothing."""
        with suppress(KafkaException):
            self._cluster.any()

    def open(self) -> None:
        """Fence every older producer and end what it left open.

        Raises:
            EnvironmentFault: If the broker refuses; or UsageError, if it refuses a setting.
        """
        try:
            self._ticket = self._until_served(lambda: self._init(_NOBODY), self._open_timeout)
        except KafkaException as raised:
            self._ticket = None
            doing = f"open the transactional producer '{self._id}'"
            raise fault(raised, doing, servers=self._servers) from raised
        self._is_used = False

    def begin(self) -> Ticket:
        """Return the ticket of a transaction; no two have the same.

        Raises:
            TransactionFailed: If there is none to be had.
        """
        if self._is_used:
            known = (self.ticket.producer_id, self.ticket.producer_epoch)
            try:
                self._ticket = self._until_served(lambda: self._init(known), self._open_timeout)
            except KafkaException as raised:
                self._fail(raised, "begin a transaction")
        self._is_used, self._since = True, perf_counter()
        return self.ticket

    def send_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit the group's offsets with the transaction.

        Args:
            offsets: The next offset to read, by topic and partition.

        Raises:
            TransactionFailed: If the broker does not take them.
        """
        if not offsets:
            return
        limit = self._commit_timeout
        try:
            if not self.ticket.by_writing:
                self._until_served(self._add_group, limit)
            self._until_served(lambda: self._send_offsets(offsets), limit)
        except KafkaException as raised:
            self._fail(raised, "add offsets to a transaction")

    def commit(self, sent: Callable[[], object] | None = None) -> None:
        """Commit.

        Args:
            sent: Called between the request and its answer.

        Raises:
            TransactionUnknown: If the commit may have happened or not.
            TransactionFenced: If another producer of the same id has taken over.
            TransactionAborted: If it is not committed for another reason.
        """
        try:
            self._until_served(lambda: self._end(sent, committed=True), self._commit_timeout)
        except KafkaException as raised:
            self._fail(raised, "commit a transaction", commit_sent=True)

    def abort(self, limit: float | None = None) -> None:
        """Abort; the next `begin` goes on.

        Args:
            limit: Seconds to try it for; by default the commit timeout.

        Raises:
            TransactionFailed: If the abort failed; the next `open` ends the transaction.
        """
        try:
            seconds = self._commit_timeout if limit is None else limit
            self._until_served(lambda: self._end(committed=False), seconds)
        except KafkaException as raised:
            if error_of(raised).code() != _NOTHING_OPEN:
                self._fail(raised, "abort a transaction")

    def close(self) -> None:
        """Let the connections go. What is open stays open until the broker's timeout, or `open`."""
        self._cluster.forget()

    def _until_served(self, ask: Callable[[], T], limit: float) -> T:
        return self._cluster.until_served(ask, limit)

    def _mine(self) -> Connection:
        return self._cluster.coordinator(OF_TRANSACTION, self._id)

    def _identity(self) -> bytes:
        ticket = self.ticket
        numbers = struct.pack(">qh", ticket.producer_id, ticket.producer_epoch)
        return compact_string(ticket.transactional_id) + numbers

    def _init(self, known: tuple[int, int]) -> Ticket:
        broker = self._mine()
        timeout_ms = int(self._commit_timeout * 1000)
        body = compact_string(self._id) + struct.pack(">iqh", timeout_ms, *known) + NO_TAGS
        answer = broker.call(INIT, body)
        answer.int32()
        _check(answer)
        return Ticket(self._id, answer.int64(), answer.int16(), bumps_at_end(broker))

    def _add_group(self) -> None:
        body = self._identity() + compact_string(self._group) + NO_TAGS
        answer = self._mine().call(ADD_OFFSETS, body)
        answer.int32()
        _check(answer)

    def _send_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        topics: dict[str, list[bytes]] = defaultdict(list)
        for (topic, partition), offset in offsets.items():
            place = struct.pack(">iqi", partition, offset, -1) + compact_string("") + NO_TAGS
            topics[topic].append(place)
        numbers = struct.pack(">qh", self.ticket.producer_id, self.ticket.producer_epoch)
        nobody = struct.pack(">i", -1) + compact_string("") + compact_string(None)
        body = (
            compact_string(self._id)
            + compact_string(self._group)
            + numbers
            + nobody
            + _by_topic(topics)
        )
        api = OFFSETS_AND_ADD if self.ticket.by_writing else OFFSETS
        answer = self._cluster.coordinator(OF_GROUP, self._group).call(api, body + NO_TAGS)
        _check_partitions(answer)

    def _end(self, sent: Callable[[], object] | None = None, *, committed: bool) -> None:
        """End the transaction; Kafka's transactions version 2 give the next ticket with it."""
        broker = self._mine()
        api = END_AND_BUMP if self.ticket.by_writing else END
        try:
            answer = broker.call(api, self._identity() + bytes([committed]) + NO_TAGS, sent)
        except KafkaException as raised:
            raise _unanswered(raised) from raised
        answer.int32()
        _check(answer)
        if api is END_AND_BUMP:
            self._ticket = Ticket(self._id, answer.int64(), answer.int16(), by_writing=True)
            self._is_used = False

    def _fail(self, raised: KafkaException, doing: str, *, commit_sent: bool = False) -> NoReturn:
        self._ticket = None
        elapsed = perf_counter() - self._since
        now = Circumstances(f"could not {doing}", elapsed, self._commit_timeout, commit_sent)
        raise failure_of(error_of(raised), now, Diagnosis()) from raised


def add_partitions(
    cluster: Cluster, ticket: Ticket, partitions: Iterable[tuple[str, int]], limit: float
) -> None:
    """Add partitions to the transaction of a ticket; whoever has the ticket may do it.

    Args:
        cluster: The brokers.
        ticket: The ticket.
        partitions: Topics and partitions.
        limit: Seconds to try it for, while a transaction before this one ends.

    Raises:
        KafkaException: If the broker does not take them.
    """
    topics: dict[str, list[bytes]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(struct.pack(">i", partition))
    numbers = struct.pack(">qh", ticket.producer_id, ticket.producer_epoch)
    body = compact_string(ticket.transactional_id) + numbers + _by_topic(topics) + NO_TAGS

    def ask() -> None:
        broker = cluster.coordinator(OF_TRANSACTION, ticket.transactional_id)
        _check_partitions(broker.call(ADD_PARTITIONS, body))

    cluster.until_served(ask, limit)


def _by_topic(topics: Mapping[str, list[bytes]]) -> bytes:
    each = (
        compact_string(topic) + compact_array(partitions) + NO_TAGS
        for topic, partitions in topics.items()
    )
    return compact_array(each)


def _check(answer: Answer) -> None:
    code = answer.int16()
    if code:
        raise KafkaException(KafkaError(code))


def _check_partitions(answer: Answer) -> None:
    """Raise an error of an answer that has one for each partition: one that stays, if some do."""
    answer.int32()
    codes: list[int] = []

    def partition() -> None:
        answer.int32()
        codes.append(answer.int16())
        answer.tags()

    def topic() -> None:
        answer.string()
        answer.array(partition)
        answer.tags()

    answer.array(topic)
    wrong = [KafkaError(code) for code in codes if code]
    if wrong:
        wrong.sort(key=lambda error: kind_of(error) is ErrorKind.RETRYABLE)
        raise KafkaException(wrong[0])


def _unanswered(raised: KafkaException) -> KafkaException:
    """Return an error that is not asked again: the end may have happened."""
    text = error_of(raised).str()
    return KafkaException(KafkaError(KafkaError._FAIL, text))  # pyright: ignore[reportPrivateUsage]
