"""The transactions of an application in which its lanes write, too."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from mustela.clock import SystemClock
from mustela.connectors.kafka.columns import Columns, ColumnSink
from mustela.connectors.kafka.errors import (
    RefusedRow,
    RowsRefused,
    TransactionFailed,
    TransactionTimeoutRefused,
    error_of,
)
from mustela.connectors.kafka.transaction import TransactionOptions
from mustela.connectors.kafka.transaction_failures import partitions_unknown
from mustela.connectors.kafka.writers.batches import Rows
from mustela.connectors.kafka.writers.cluster import Cluster
from mustela.connectors.kafka.writers.coordinator import TransactionCoordinator
from mustela.connectors.kafka.writers.placing import Joined, Origin, Placing, joined
from mustela.connectors.kafka.writers.sealed import SealedBatch
from mustela.connectors.kafka.writers.traffic import Traffic
from mustela.connectors.kafka.writers.writer import TransactionWriter, WriterOptions
from mustela.errors import InvariantError
from mustela.plan.sealed import SealedRows
from mustela.plan.ticket import Ticket

__all__ = ["SharedTransactions"]

_NO_TIME_MS = 1
_ABORT_S = 5.0
_GATHERED_ROWS = 10_000
"""So many rows for a partition are not kept for more: they are batches of their own."""


class SharedTransactions(ColumnSink):
    """What `TransactionalSink` is to the driver, with transactions that lanes may write into.

    A transaction that is lent belongs to one attempt of one epoch. It is committed with what that
    attempt's lanes say of their rows, or never: whatever comes next takes another ticket first.

    Args:
        properties: Client properties.
        transactional_id: Fences every older producer of the same id.
        options: Limits.
        crash_point: Called with the name of each place where a test may kill the process.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        transactional_id: str,
        *,
        options: TransactionOptions | None = None,
        crash_point: Callable[[str], None] | None = None,
    ) -> None:
        self._properties = dict(properties)
        self._options = options or TransactionOptions()
        self._crash_point = crash_point
        self._traffic = Traffic()
        self._is_asked = float(self._properties.get("statistics.interval.ms") or 0) > 0
        self._coordinator = TransactionCoordinator(
            properties,
            transactional_id,
            commit_timeout=self._options.commit_timeout,
            open_timeout=self._options.open_timeout,
            traffic=self._traffic,
        )
        self._cluster = Cluster(properties, traffic=self._traffic)
        self._placing = Placing(self._partitions)
        self._clock = SystemClock()
        self._lent: Ticket | None = None
        self._writer: TransactionWriter | None = None
        self._gathered: dict[tuple[str, int], list[Rows]] = {}
        self._tracked: set[tuple[str, int]] = set()
        self._ends: dict[tuple[str, int], int] = {}
        self._is_flushed = False
        self._began = perf_counter()

    @property
    def is_open(self) -> bool:
        """Whether there are tickets; there are none before `reopen` and after an error."""
        return self._coordinator.is_open

    @property
    def takes_sealed(self) -> bool:
        """Whether lanes may put sink rows together: it numbers whole batches."""
        return True

    def warm(self) -> None:
        """Connect, so that a later `reopen` takes less time; nothing is fenced by that."""
        self._coordinator.warm()

    def reopen(self) -> None:
        """Fence every older producer and end what it left open, this one's own included.

        Raises:
            EnvironmentFault: If no broker serves it.
            TransactionTimeoutRefused: If the broker does not allow the commit timeout.
        """
        self._lent = None
        self._let_writer_go()
        try:
            self._coordinator.open()
        except Exception as raised:
            cause = raised.__cause__
            if isinstance(cause, KafkaException) and _is_about_timeout(cause):
                raise TransactionTimeoutRefused.of(self._options.commit_timeout) from raised
            raise

    def lend(self) -> Ticket | None:
        """Begin a transaction for one attempt of an epoch; return what its lanes write under.

        Raises:
            TransactionFailed: If there is none to be had.
        """
        self._lent = self._new_ticket()
        return self._lent

    def begin(self, ticket: Ticket | None = None) -> None:
        """Begin a transaction, or go on with the one that was lent.

        Args:
            ticket: The one that was lent, if all who have it have said where their rows are.

        Raises:
            TransactionFailed: If there is none to be had.
        """
        if ticket is None:
            ticket = self._new_ticket()
        elif ticket != self._lent:
            what = "a transaction was to be gone on with that is not the one that was lent last"
            raise InvariantError(what, evidence={"ticket": ticket, "lent": self._lent})
        self._lent = None
        self._began = perf_counter()
        limits = WriterOptions(
            timeout=self._options.commit_timeout, batch_bytes=self._options.batch_bytes
        )
        self._let_writer_go()
        self._writer = TransactionWriter(
            self._properties, ticket, options=limits, cluster=self._cluster
        )
        self._tracked, self._ends, self._is_flushed = set(), {}, False
        self._gathered.clear()
        self._reach("transaction-begun")

    def _new_ticket(self) -> Ticket:
        """Take a ticket; who has an older one can do nothing with it from now on."""
        if self._lent is not None or self._writer is not None:
            self._lent = None
            self._let_writer_go()
            self._coordinator.abort()
        return self._coordinator.begin()

    def _produce(self, columns: Columns, tag: object) -> None:
        self._open_writer()
        now_ms, reached = self._clock.now_ms(), 0
        for place, rows in self._placing.sorted(columns, tag, now_ms=now_ms):
            self._gathered.setdefault(place, []).append(rows)
            if sum(len(some.values) for some in self._gathered[place]) >= _GATHERED_ROWS:
                self._write_gathered(place)
            if 2 * reached < len(columns) <= 2 * (reached + len(rows.values)):
                self._reach("half-produced")
            reached += len(rows.values)

    def produce_sealed(self, sealed: Sequence[SealedRows]) -> None:
        """Produce rows that lanes have put together."""
        writer = self._open_writer()
        for topic, partition, batches in sealed:
            self._write_gathered((topic, partition))
            made = (SealedBatch(*batch) for batch in batches)
            writer.write_batches(topic, partition, made)

    def _write_gathered(self, place: tuple[str, int]) -> None:
        """Write the small parts that came for a partition as few batches: each waits its turn."""
        parts = self._gathered.pop(place, None)
        if parts:
            with _told_by_row():
                self._open_writer().write_rows(*place, joined(parts))

    def produce_tracked(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        *,
        tag: object = None,
    ) -> None:
        """Produce rows whose end offset `flush` returns; ``tag`` comes back with a refused one."""
        if not values:
            return
        self._tracked.add((topic, partition))
        self._write_gathered((topic, partition))
        is_timeless = topic in self._options.timeless
        stamps = [_NO_TIME_MS] * len(values) if is_timeless else None
        writer = self._open_writer()
        writer.write(topic, partition, keys, values, stamps, tag=tag)

    def flush(self) -> dict[tuple[str, int], int]:
        """Wait until the broker has every row; return the end offsets of tracked partitions.

        Raises:
            RowsRefused: If the broker does not take some row.
            TransactionFailed: If the rows could not be sent.
        """
        self._finish()
        if not self._is_flushed:
            self._is_flushed = True
            self._reach("flushed")
        return self.ends()

    def _finish(self) -> None:
        """Send what was gathered, and wait until the brokers have all of it."""
        writer = self._open_writer()
        for place in list(self._gathered):
            self._write_gathered(place)
        with _told_by_row():
            written = writer.finish()
        self._ends = {place: written[place].end for place in self._tracked}

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the end offsets of tracked partitions, as the last `flush` told them."""
        return dict(self._ends)

    def send_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit the group's offsets with the transaction.

        Raises:
            TransactionFailed: If the broker does not take them.
        """
        if offsets:
            self._coordinator.send_offsets(offsets)
            self._reach("offsets-added")

    def commit(self) -> None:
        """Commit the transaction, when the brokers have all of its rows.

        Raises:
            RowsRefused: If the broker does not take some row.
            TransactionUnknown: If the commit may have happened or not.
            TransactionFenced: If another producer of the same id has taken over.
            TransactionAborted: If it is not committed for another reason.
        """
        self._finish()
        self._coordinator.commit(lambda: self._reach("commit-sent"))
        self._let_writer_go()
        self._reach("committed")

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return what went over its connections, if ``statistics.interval.ms`` asks for it."""
        return {"producer writers": self._traffic.told()} if self._is_asked else {}

    def close(self) -> None:
        """Let the connections go; an open transaction is aborted, if that is quick."""
        is_used = self._lent is not None or self._writer is not None
        self._lent = None
        self._let_writer_go()
        if is_used and self._coordinator.is_open:
            with suppress(TransactionFailed):
                self._coordinator.abort(_ABORT_S)
        self._cluster.forget()
        self._coordinator.close()

    def _open_writer(self) -> TransactionWriter:
        if self._writer is None:
            what = "rows are written although no transaction has begun"
            raise InvariantError(what, why="after a failure the producer is opened anew first")
        return self._writer

    def _let_writer_go(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _partitions(self, topic: str) -> int:
        try:
            return self._cluster.until_served(
                lambda: self._cluster.partitions(topic), self._options.commit_timeout
            )
        except KafkaException as raised:
            elapsed, limit = perf_counter() - self._began, self._options.commit_timeout
            raise partitions_unknown(raised, topic, elapsed=elapsed, limit=limit) from raised

    def _reach(self, name: str) -> None:
        if self._crash_point is not None:
            self._crash_point(name)


@contextmanager
def _told_by_row() -> Generator[None]:
    """Have refused rows named as they were before they were sorted by partition."""
    try:
        yield
    except RowsRefused as error:
        if not error.known:
            raise
        raise RowsRefused.of(map(_as_given, error.rows)) from error


def _as_given(row: RefusedRow) -> RefusedRow:
    tag, at = row.tag, row.row
    if isinstance(tag, Joined):
        tag, at = tag.find(at)
    if isinstance(tag, Origin):
        tag, at = tag.tag, tag.row(at)
    return row._replace(tag=tag, row=at)


def _is_about_timeout(raised: KafkaException) -> bool:
    return error_of(raised).code() == KafkaError.INVALID_TRANSACTION_TIMEOUT
