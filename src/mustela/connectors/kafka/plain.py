"""The producer of tasks that send rows by themselves, under at_least_once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mustela.connectors.kafka.calls import discard, told_as_raised
from mustela.connectors.kafka.client import (
    ClientErrors,
    producer_client,
    servers_of,
    unavailable,
)
from mustela.connectors.kafka.columns import Columns, ColumnSink, RowCallback, feed
from mustela.connectors.kafka.errors import (
    ErrorKind,
    KafkaRetryable,
    RefusedRow,
    RowsRefused,
    error_of,
    fault,
    kind_of,
)
from mustela.errors import EnvironmentFault, UsageError

__all__ = ["PlainSink"]

SMALL_BATCH_BYTES = 16 << 10

Failure = tuple[object, Columns, KafkaError, Message]


class PlainSink(ColumnSink):
    """A producer without transactions: each row arrives, in order, if `flush` returns.

    Args:
        properties: Client properties.
        send_timeout: Seconds a row may wait for the broker.
        batch_bytes: Bytes in a batch; at most ``max.message.bytes`` of every topic written to, see
            `fit`.
        idempotent: Whether a row that is sent again is kept from arriving twice. Without that the
            first row goes out half a second earlier: the client asks for a producer id before it
            is connected, and again after that time.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        *,
        send_timeout: float = 60.0,
        batch_bytes: int = 1_000_000,
        idempotent: bool = True,
    ) -> None:
        self._properties = dict(properties)
        self._servers = servers_of(properties)
        self._send_timeout = send_timeout
        self._batch_bytes = batch_bytes
        self._idempotent = idempotent
        self._errors = ClientErrors()
        self._producer: Producer | None = None
        self._failures: list[Failure] = []
        self._refused: list[RefusedRow] = []

    def _produce(self, columns: Columns, tag: object) -> None:
        failed = partial(_note, self._failures, tag, columns)

        def refuse(row: int, raised: KafkaException) -> None:
            error = error_of(raised)
            where = (tag, columns.original(row), columns.topic(row))
            self._refused.append(RefusedRow(*where, error.name(), error.str()))

        def callback(_row: int) -> Any:
            return failed

        watched: RowCallback = callback
        try:
            feed(self._client(), columns, watched, refuse)
        except KafkaException as raised:
            self.close()
            raise self._fault(error_of(raised), columns.topic(0)) from raised

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the broker has every row.

        Args:
            timeout: Seconds; by default the send timeout.

        Raises:
            RowsRefused: If the broker refuses rows. What else was sent may be there or not, and in
                any order: all of it is to be sent again. The rows are not `known` if each of them
                is fine alone: then smaller batches will do.
            BrokerUnavailable: If no broker answers.
            EnvironmentFault: If the rows could not be sent for another reason.
        """
        if self._producer is None:
            return
        limit = self._send_timeout if timeout is None else timeout
        start = perf_counter()
        left = self._flushed(self._producer, limit)
        failures, self._failures = self._failures[:], []
        refused, self._refused = self._refused, []
        if not (left or failures or refused):
            self._errors.heard()
            return
        self.close()
        doing = "send rows"
        for _, _, error, message in failures:
            if kind_of(error) not in (ErrorKind.ROW, ErrorKind.RETRYABLE):
                raise self._fault(error, message.topic() or "")
        suspects = _located(failures)
        refused += self._alone(suspects)
        if refused:
            raise RowsRefused.of(refused)
        if suspects:
            first = next(error for _, _, error, _ in failures if kind_of(error) is ErrorKind.ROW)
            self._batch_bytes = SMALL_BATCH_BYTES if self._batch_bytes > SMALL_BATCH_BYTES else 1
            raise RowsRefused.later(first.name(), first.str())
        waited = perf_counter() - start
        if failures and self._errors.last is None:
            self._errors.last = failures[0][2]
        raise self._errors.why(doing, self._servers, waited) or unavailable(
            doing, self._servers, waited, self._errors
        )

    def _alone(self, suspects: Sequence[tuple[object, Columns, int]]) -> list[RefusedRow]:
        """Send the rows of refused batches one by one: the broker refuses batches as a whole.

        The rows that it takes arrive twice, and out of order, which the caller mends: it sends all
        of them again.
        """
        refused: list[RefusedRow] = []
        if not suspects:
            return refused
        producer = producer_client(
            self._properties, {"batch.num.messages": 1, "acks": "all"}, self._errors
        )

        def note(
            suspect: tuple[object, Columns, int], error: KafkaError | None, _: Message
        ) -> None:
            if error is not None:
                tag, columns, row = suspect
                where = (tag, columns.original(row), columns.topic(row))
                refused.append(RefusedRow(*where, error.name(), error.str()))

        for suspect in suspects:
            _, columns, row = suspect
            one = columns.only(row)
            feed(producer, one, lambda _row, s=suspect: partial(note, s), lambda _row, _error: None)
        self._flushed(producer, self._send_timeout)
        return refused

    def _flushed(self, producer: Producer, seconds: float) -> int:
        """Flush a producer; return how many rows it still holds.

        Raises:
            EnvironmentFault: If the producer is of no more use.
        """
        try:
            with told_as_raised(producer):
                return producer.flush(seconds)
        except KafkaException as raised:
            self.close()
            raise fault(raised, "send rows", servers=self._servers) from raised

    def _fault(self, error: KafkaError, topic: str) -> EnvironmentFault | UsageError:
        """Say why rows do not go out; a topic or partition that is not known may be soon."""
        doing = f"send rows to {topic}"
        if kind_of(error) is not ErrorKind.TOPIC_GONE:
            return fault(error, doing, servers=self._servers)
        return KafkaRetryable(
            f"could not {doing}: the brokers do not know the topic, or not the partition",
            evidence={"kafka": f"{error.name()}: {error.str()}", "servers": self._servers},
            fix=f"if the topic was deleted, create it again: mustela topics create {topic}"
            " --partitions 6",
            fields={"topic": topic},
        )

    @property
    def batch_bytes(self) -> int:
        """Bytes in a batch, at most."""
        return self._batch_bytes

    def fit(self, batch_bytes: int) -> None:
        """Make batches smaller from now on; what was sent must have been flushed."""
        self.close()
        self._batch_bytes = batch_bytes

    def close(self) -> None:
        """Drop the producer with what it still holds; the next row makes a new one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            discard(producer)
        self._failures, self._refused = [], []

    def _client(self) -> Producer:
        if self._producer is None:
            defaults = {
                "linger.ms": 5,
                "batch.num.messages": 100_000,
                "retry.backoff.ms": 50,
                **self._properties,
            }
            settings = {
                "enable.idempotence": self._idempotent,
                "acks": "all",
                "partitioner": "murmur2_random",
                "delivery.timeout.ms": int(self._send_timeout * 1000),
                "queue.buffering.max.messages": 200_000,
                "queue.buffering.max.kbytes": 64 << 10,
                "batch.size": self._batch_bytes,
                # With it, a callback on each row costs nothing as long as the row arrives.
                "delivery.report.only.error": True,
            }
            if not self._idempotent:
                settings["max.in.flight.requests.per.connection"] = 1  # else out of order
            self._producer = producer_client(defaults, settings, self._errors)
        return self._producer


def _note(
    failures: list[Failure], tag: object, columns: Columns, error: KafkaError, message: Message
) -> None:
    failures.append((tag, columns, error, message))


def _located(failures: Sequence[Failure]) -> list[tuple[object, Columns, int]]:
    """Find refused rows in their columns by what they hold.

    Equal rows may differ in what a failure does not tell, such as the timestamp: all of them are
    suspects.
    """
    found: list[tuple[object, Columns, int]] = []
    sent: dict[int, tuple[object, Columns, set[tuple[Any, Any]]]] = {}
    for tag, columns, error, message in failures:
        if kind_of(error) is ErrorKind.ROW:
            pairs = sent.setdefault(id(columns), (tag, columns, set()))[2]
            pairs.add((message.key(), message.value()))
    for tag, columns, pairs in sent.values():
        rows = enumerate(zip(columns.keys, columns.values, strict=True))
        found += [(tag, columns, row) for row, pair in rows if pair in pairs]
    return found
