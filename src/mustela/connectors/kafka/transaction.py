"""The transactional producer of an application: its commit is the only commit point there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, NoReturn

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from mustela.connectors.kafka.calls import (
    ABORT_TIMEOUT_S,
    StuckError,
    abort_quietly,
    await_coordinator,
    close_aside,
    discard,
    serve,
    told_as_raised,
    within,
)
from mustela.connectors.kafka.client import (
    ClientErrors,
    consumer_client,
    producer_client,
    servers_of,
    unavailable,
)
from mustela.connectors.kafka.columns import Columns, ColumnSink, RowCallback, feed
from mustela.connectors.kafka.deliveries import Deliveries
from mustela.connectors.kafka.errors import (
    ErrorKind,
    RefusedRow,
    RowsRefused,
    TransactionTimeoutRefused,
    error_of,
    fault,
    kind_of,
)
from mustela.connectors.kafka.one_writer import OneWriter
from mustela.connectors.kafka.plain import SMALL_BATCH_BYTES, PlainSink
from mustela.connectors.kafka.refusals import Suspect, refused_of
from mustela.connectors.kafka.spares import SpareProducers, init_transactions, let_go
from mustela.connectors.kafka.transaction_failures import (
    Circumstances,
    ends_missing,
    failure_of,
    is_about_delivery,
)
from mustela.errors import InvariantError
from mustela.plan.ticket import Ticket

__all__ = ["PlainSink", "TransactionOptions", "TransactionalSink"]

# Trying an epoch again costs less than waiting for a group coordinator that is gone.
OFFSETS_TIMEOUT_S = 10.0
INIT_FIRST_STEP_S = 0.1
INIT_LAST_STEP_S = 1.6
_NO_TIME_MS = 1
"""The client takes 0 for "now"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """How long and how much.

    Attributes:
        commit_timeout: Seconds a transaction may be open; behind it the broker aborts it.
        open_timeout: Seconds to wait for a broker, and for an older transaction to end.
        batch_bytes: Bytes in a batch; at most ``max.message.bytes`` of every topic written to.
        queue_rows: Rows that wait in the client; produce calls wait beyond it.
        queue_kbytes: The same in kilobytes.
        timeless: Topics whose tracked rows have no time of this machine's: a broker refuses one
            that is more than an hour ahead.
    """

    commit_timeout: float = 60.0
    open_timeout: float = 60.0
    batch_bytes: int = 1_000_000
    queue_rows: int = 500_000
    queue_kbytes: int = 128 << 10
    timeless: frozenset[str] = frozenset()


class TransactionalSink(OneWriter, ColumnSink):
    """The driver's producer. One transaction holds all that an epoch gives.

    After an error the producer is gone, and what happened to the transaction is for `reopen` and
    the epoch record to say: no call is ever repeated on the old producer.

    Args:
        properties: Client properties.
        transactional_id: Fences every older producer of the same id.
        group: The consumer group whose offsets `send_offsets` commits; by default the same name.
        options: Limits.
        crash_point: Called with the name of each place where a test may kill the process.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        transactional_id: str,
        *,
        group: str | None = None,
        options: TransactionOptions | None = None,
        crash_point: Callable[[str], None] | None = None,
    ) -> None:
        self._properties = dict(properties)
        self._id = transactional_id
        self._group = group or transactional_id
        self._options = options or TransactionOptions()
        self._crash_point = crash_point
        self._servers = servers_of(properties)
        self._errors = ClientErrors()
        self._producer: Producer | None = None
        self._spares = SpareProducers(lambda: self._client({}))
        self._group_metadata: object | None = None
        self._began: float | None = None
        self._deliveries = Deliveries(self._group)
        self._refused: list[RefusedRow] = []
        self._suspects: list[Suspect] = []
        self._diagnose = False
        self._is_flushed = False
        self._batch_bytes = self._options.batch_bytes

    @property
    def is_open(self) -> bool:
        """Whether there is a producer; there is none before `open` and after an error."""
        return self._producer is not None

    def warm(self) -> None:
        """Connect producers for a later `open`; this claims and fences nothing."""
        self._spares.warm()

    def open(self) -> None:
        """Make a producer, fence every older one and end what it left open.

        Raises:
            BrokerUnavailable: If no broker answered within the open timeout.
            TransactionTimeoutRefused: If the broker does not allow the commit timeout.
            EnvironmentFault: If it refuses for another reason.
        """
        self._end()
        self._producer = self._connect({})
        self._spares.close()
        self._errors.heard()

    def reopen(self) -> None:
        """The same as `open`: a new producer, in place of one that is gone."""
        self.open()

    def begin(self, ticket: Ticket | None = None) -> None:
        """Begin a transaction; none of them was ever lent."""
        assert ticket is None, "a ticket comes from whoever lends transactions"
        producer = self._open_producer()
        self._deliveries = Deliveries(self._group)
        self._refused, self._suspects = [], []
        self._is_flushed = False
        self._began = perf_counter()
        try:
            producer.begin_transaction()
        except KafkaException as raised:
            self._fail(raised, "begin a transaction")
        self._reach("transaction-begun")

    def _produce(self, columns: Columns, tag: object) -> None:
        self._deliveries.sent(columns)
        callback = self._watch(columns, tag) if self._diagnose else None
        self._feed(columns, tag, callback, partial(self._reach, "half-produced"))

    def produce_tracked(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        *,
        tag: object = None,
    ) -> None:
        """Produce rows whose end offset `flush` returns: changelogs and the epoch record.

        Only the last row asks for a delivery report: a report for each row costs a third more.

        Args:
            topic: The topic.
            partition: Its partition.
            keys: Keys.
            values: Values.
            tag: Comes back in `RefusedRow.tag`.
        """
        if not values:
            return
        stamps = [_NO_TIME_MS] * len(values) if topic in self._options.timeless else None
        columns = Columns(
            topics=topic, keys=keys, values=values, timestamps=stamps, partitions=partition
        )
        self._deliveries.sent(columns)
        self._deliveries.expect(topic, partition)
        if self._diagnose:
            self._feed(columns, tag, self._watch(columns, tag))
        else:
            last = len(values) - 1
            if last:
                self._feed(_rows(columns, slice(0, last)), tag, None)
            self._feed(_rows(columns, slice(last, None)), tag, lambda _row: self._deliveries.note)

    def flush(self, timeout: float | None = None) -> dict[tuple[str, int], int]:
        """Wait until the broker has every row.

        Args:
            timeout: Seconds; by default the commit timeout.

        Returns:
            The offset behind the last tracked row of each topic and partition.

        Raises:
            RowsRefused: If the broker does not take some row.
            TransactionFailed: If the rows could not be sent.
        """
        producer = self._open_producer()
        doing = "send the rows of a transaction"
        try:
            with told_as_raised(producer):
                left = producer.flush(self._options.commit_timeout if timeout is None else timeout)
        except KafkaException as raised:
            self._fail(raised, doing)
        if self._refused or self._suspects:
            self._fail(None, doing)
        if left:
            timed_out = KafkaError(KafkaError._TIMED_OUT, f"{left} rows are not sent")  # pyright: ignore[reportPrivateUsage]
            self._fail(KafkaException(timed_out), doing)
        self._check_ends(doing)
        if not self._is_flushed:
            self._is_flushed = True
            self._reach("flushed")
        return self.ends()

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the ends of what is tracked of the last transaction, as far as they are known."""
        return dict(self._deliveries.ends)

    def send_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit the group's offsets with the transaction.

        Args:
            offsets: The next offset to read, by topic and partition.
        """
        if not offsets:
            return
        places = [TopicPartition(topic, part, offset) for (topic, part), offset in offsets.items()]
        producer = self._open_producer()
        try:
            serve(producer)  # it may have lost its brokers unnoticed
            group = self._metadata(places)
            limit = min(OFFSETS_TIMEOUT_S, self._options.commit_timeout)
            within(
                producer, lambda: producer.send_offsets_to_transaction(places, group, limit), limit
            )
        except KafkaException as raised:
            self._fail(raised, "add offsets to a transaction")
        self._reach("offsets-added")

    def commit(self) -> None:
        """Commit.

        Raises:
            TransactionUnknown: If the commit may have happened or not.
            TransactionFenced: If another producer of the same id has taken over.
            TransactionExpired: If the transaction was open for too long.
            RowsRefused: If the broker does not take some row.
            TransactionAborted: If it is not committed for another reason.
        """
        producer = self._open_producer()
        doing = "commit a transaction"
        if self._refused:
            self._fail(None, doing)
        try:
            limit = self._options.commit_timeout
            sent = partial(self._reach, "commit-sent")
            within(producer, lambda: producer.commit_transaction(limit), limit, sent)
        except KafkaException as raised:
            self._fail(raised, doing, commit_sent=True)
        self._began = None
        self._diagnose = False
        self._reach("committed")

    def abort(self) -> None:
        """Abort; the producer stays if that goes well.

        Raises:
            TransactionFailed: If the abort failed; the next `open` ends the transaction.
        """
        producer = self._open_producer()
        try:
            limit = self._options.commit_timeout
            within(producer, lambda: producer.abort_transaction(limit), limit)
        except KafkaException as raised:
            self._fail(raised, "abort a transaction")
        self._began = None

    def close(self) -> None:
        """Let the producer go. A transaction that is open is aborted, if that is quick."""
        self._spares.close()
        self._end()

    def _end(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        if self._began is not None:
            self._began = None
            abort_quietly(producer)
        discard(producer)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return what the producer has told of itself since this was last asked."""
        return self._errors.take_statistics()

    def _client(self, overrides: Mapping[str, Any]) -> Producer:
        options = self._options
        timeout_ms = int(options.commit_timeout * 1000)
        settings = {
            "transactional.id": self._id,
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",
            "transaction.timeout.ms": timeout_ms,
            "delivery.timeout.ms": timeout_ms,
            "queue.buffering.max.messages": options.queue_rows,
            "queue.buffering.max.kbytes": options.queue_kbytes,
            "batch.size": self._batch_bytes,
            **overrides,
        }
        defaults = {
            "linger.ms": 5,
            "batch.num.messages": 100_000,
            # Between the steps of a transaction; the default of 100 ms would be most of an epoch.
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 200,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1_000,
            # Starting over from the bootstrap servers drops brokers that calls still wait for.
            "metadata.recovery.strategy": "none",
            "request.timeout.ms": min(30_000, timeout_ms),
            **self._properties,
        }
        return producer_client(defaults, settings, self._errors)

    def _connect(self, overrides: Mapping[str, Any]) -> Producer:
        """Make a producer that has fenced all others.

        While an older transaction ends, which takes milliseconds, the client waits for 500 ms
        between its attempts. A new client asks at once: so the first attempts are short.
        """
        doing = f"open the transactional producer '{self._id}'"
        start = perf_counter()
        deadline = start + self._options.open_timeout
        step = INIT_FIRST_STEP_S
        producer = self._client(overrides) if overrides else self._spares.take()
        while True:
            try:
                init_transactions(producer, min(step, max(0.1, deadline - perf_counter())))
            except KafkaException as raised:
                waited = perf_counter() - start
                self._check_again(producer, error_of(raised), doing, waited)
                if step < INIT_LAST_STEP_S or isinstance(raised, StuckError):
                    step *= 2
                    let_go(producer, raised)
                    producer = self._client(overrides) if overrides else self._spares.take()
            else:
                return producer

    def _check_again(
        self, producer: Producer, error: KafkaError, doing: str, waited: float
    ) -> None:
        """Return if it is worth to try again and there is time; else raise what is wrong."""
        serve(producer)
        again = error.retriable() or kind_of(error) is ErrorKind.RETRYABLE
        if again and self._errors.refused is None and waited < self._options.open_timeout:
            return
        discard(producer)
        self._errors.raise_refused(doing, self._servers)
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise TransactionTimeoutRefused.of(self._options.commit_timeout)
        if again and self._errors.down_since is not None:
            raise unavailable(doing, self._servers, waited, self._errors)
        raise fault(error, doing, servers=self._servers)

    def _open_producer(self) -> Producer:
        if self._producer is None:
            what = "the transactional producer is not open"
            raise InvariantError(what, fix="call open() first, and again after every error")
        return self._producer

    def _feed(
        self,
        columns: Columns,
        tag: object,
        callback: RowCallback | None,
        at_half: Callable[[], None] | None = None,
    ) -> None:
        def refuse(row: int, raised: KafkaException) -> None:
            error = error_of(raised)
            where = (tag, columns.original(row), columns.topic(row))
            self._refused.append(RefusedRow(*where, error.name(), error.str()))

        try:
            feed(self._open_producer(), columns, callback, refuse, at_half)
        except KafkaException as raised:
            self._fail(raised, f"produce to {columns.topic(0)}")

    def _check_ends(self, doing: str) -> None:
        """Refuse to commit rows that did not arrive, or at an offset which nobody knows."""
        if self._deliveries.without_end():
            first = self._deliveries.first_error
            self._fail(None if first is None else KafkaException(first), doing)

    def _watch(self, columns: Columns, tag: object) -> RowCallback:
        """Make a callback for each row, which remembers the row if the broker refuses it."""

        def callback(row: int) -> Callable[..., None]:
            return partial(self._note_row, tag, row, columns)

        return callback

    def _note_row(
        self, tag: object, row: int, columns: Columns, error: KafkaError | None, message: Message
    ) -> None:
        self._deliveries.note(error, message)
        if error is not None and kind_of(error) in (ErrorKind.ROW, ErrorKind.AUTHORIZATION):
            own = () if columns.headers is None else columns.headers[row]
            extra = () if columns.header is None else (columns.header,)
            self._suspects.append(
                Suspect(
                    tag,
                    columns.original(row),
                    error,
                    message,
                    columns.timestamp(row),
                    [*own, *extra],
                )
            )

    def _metadata(self, places: list[TopicPartition]) -> object:
        """Return the group as a producer names it: it has no members, and needs none.

        The first time, and when something went wrong since, it waits for the group's coordinator.
        The producer's own call would ask for it three times within milliseconds and then wait
        without end: so it is for a new cluster, and for a broker that was restarted.
        """
        if self._group_metadata is None or self._errors.trouble:
            # It would warn of each property that is a producer's; errors it still tells.
            quietly = {"group.id": self._group, "log_level": 3}
            consumer = consumer_client(self._properties, quietly)
            try:
                await_coordinator(consumer, places[0], self._options.commit_timeout)
                self._group_metadata = consumer.consumer_group_metadata()
            finally:
                close_aside(consumer)
            self._errors.trouble = False
        return self._group_metadata

    def _reach(self, name: str) -> None:
        if self._crash_point is not None:
            self._crash_point(name)

    def _fail(
        self, raised: KafkaException | None, doing: str, *, commit_sent: bool = False
    ) -> NoReturn:
        """Let the producer go and raise what is known."""
        producer = self._open_producer()
        error = None if raised is None else error_of(raised)
        if error is not None and error.code() == KafkaError._STATE:  # pyright: ignore[reportPrivateUsage]
            error = self._cause(producer) or error
        opened, self._began = self._began, None
        elapsed = 0.0 if opened is None else perf_counter() - opened
        self._producer = None
        answers = not isinstance(raised, StuckError) and self._errors.down_since is None
        open_yet = error is None or error.txn_requires_abort() or not commit_sent
        about_rows = is_about_delivery(error) and open_yet
        diagnosis = self._deliveries.diagnose(producer if answers and about_rows else None)
        if answers and (
            error is None or error.txn_requires_abort() or not (error.fatal() or commit_sent)
        ):
            # A new producer would have to wait for the coordinator to do this.
            abort_quietly(producer)
        let_go(producer, raised)
        if self._refused or self._suspects or (error and self._is_about_rows(error)):
            refusal = self._refusal(error)
            if refusal is not None:
                raise refusal from raised
        self._diagnose = self._diagnose or about_rows  # the next attempt finds out which rows
        limit = self._options.commit_timeout
        now = Circumstances(f"could not {doing} of '{self._id}'", elapsed, limit, commit_sent)
        if error is None:
            missing = self._deliveries.without_end()
            assert missing, "a failure without an error is about rows or their ends"
            raise ends_missing(now.what, missing)
        raise failure_of(error, now, diagnosis) from raised

    def _is_about_rows(self, error: KafkaError) -> bool:
        of_rows = error.txn_requires_abort() or error is self._deliveries.first_error
        return of_rows and kind_of(error) is ErrorKind.ROW

    def _cause(self, producer: Producer) -> KafkaError | None:
        """Ask a transaction that takes no more rows why; what it is asked with is aborted."""
        try:
            nothing = [TopicPartition(self._id, 0, 0)]
            group = self._metadata(nothing)
            within(
                producer,
                lambda: producer.send_offsets_to_transaction(nothing, group, ABORT_TIMEOUT_S),
                ABORT_TIMEOUT_S,
            )
        except KafkaException as raised:
            return error_of(raised)
        return None

    def _refusal(self, error: KafkaError | None) -> RowsRefused | None:
        """Find the rows that the broker refuses, by as much as is known by now.

        The broker refuses whole batches. So a first failure only says that the next attempt is
        to be watched; the watched one gives the rows of the batches; they are then tried alone.
        """
        if self._refused:
            return RowsRefused.of(self._refused)
        if not self._suspects:
            self._diagnose = True
            assert error is not None, "rows are refused for a reason"
            return RowsRefused.later(error.name(), error.str())
        connect = partial(self._connect, {"batch.num.messages": 1})
        found = refused_of(self._suspects, connect, self._options.commit_timeout)
        first = self._suspects[0].error
        self._suspects = []
        if found:
            return RowsRefused.of(found)
        # Each row alone is fine, so it was the batch: it is over the topic's max.message.bytes.
        self._batch_bytes = SMALL_BATCH_BYTES if self._batch_bytes > SMALL_BATCH_BYTES else 1
        return RowsRefused.later(first.name(), first.str())


def _rows(columns: Columns, span: slice) -> Columns:
    return Columns(
        topics=columns.topics,
        keys=columns.keys[span],
        values=columns.values[span],
        timestamps=None if columns.timestamps is None else columns.timestamps[span],
        partitions=columns.partitions,
        rows=range(len(columns))[span],
    )
