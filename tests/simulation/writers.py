"""Transactions that lanes write into, in the simulated world.

A row that a lane wrote may be in a log although its worker died, and it may come later: when its
attempt has failed, and the next one runs. The cluster takes what has the newest epoch of its
producer, as version 1 of Kafka's transactions does between an end and the next beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from mustela.connectors.kafka.errors import TransactionAborted, TransactionFenced
from mustela.connectors.kafka.writers.sealed import SealedBatch
from mustela.connectors.kafka.writers.writer import Written
from mustela.model import Headers
from mustela.plan.sealed import SealedRows
from mustela.plan.ticket import Ticket
from tests.simulation.broker import Fenced
from tests.simulation.ports import SimTransactions
from tests.simulation.world import BASE_MS, Life, SimWorld, Violation, WorkerKilled
from tests.unit.connectors.writers.decoding import decode

__all__ = ["SharedSimTransactions", "SimWriter"]

HALF = 0.5
DRIVER = 0
PRODUCER_ID = 1
_NOBODY = Ticket("", -1, -1, by_writing=True)


class _LateRow(NamedTuple):
    """A row of a writer that is thought dead."""

    ticket: Ticket
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Headers = ()


class SharedSimTransactions(SimTransactions):
    """What `SharedTransactions` offers, with its outcomes."""

    def __init__(self, world: SimWorld, life: Life, name: str, timeout_ms: int) -> None:
        super().__init__(world, life, name, timeout_ms)
        self._is_used = False
        self._lent: Ticket | None = None
        self.takes_sealed = True

    def reopen(self) -> None:
        """Fence older producers; what is late of them comes before that, or behind it."""
        self._haunt()
        super().reopen()
        self._is_used, self._lent = False, None
        self._haunt()

    def lend(self) -> Ticket:
        """Take a ticket for one attempt of an epoch."""
        self._renew("lend a transaction")
        self._lent = self._ticket()
        return self._lent

    def begin(self, ticket: Ticket | None = None) -> None:
        """Begin a transaction, or go on with the one that was lent."""
        if ticket is None:
            self._renew("begin a transaction")
        else:
            assert ticket == self._lent, "only the transaction that was lent last goes on"
        self._lent = None
        self._is_used = True
        super().begin()

    def produce_sealed(self, sealed: Sequence[SealedRows]) -> None:
        """Produce rows that were put together for owners, who have no transaction."""
        for topic, partition, batches in sealed:
            for key, value, timestamp, headers in _rows_of(SealedBatch(*one) for one in batches):
                self._produce(topic, partition, key, value, timestamp, headers)
        self._world.happened["the driver writes for owners"] += 1
        self._world.at(self._life, "produce")

    def commit(self) -> None:
        """Commit; what is late comes before that, or behind it."""
        self._haunt()
        super().commit()
        self._haunt()

    def _ticket(self) -> Ticket:
        assert self._epoch is not None, "the transactional producer is not open"
        return Ticket(self._name, PRODUCER_ID, self._epoch, by_writing=True)

    def _renew(self, doing: str) -> None:
        """Have an epoch that nobody has: what was begun under the last one is aborted."""
        assert self._epoch is not None, "the transactional producer is not open"
        if not self._is_used and self._lent is None:
            return
        self._world.at(self._life, doing)
        self._haunt()
        failed = self._world.failure(self._life)
        if failed is None or self._world.random.random() < HALF:
            try:
                self._epoch = self._broker.renew_producer(self._name, self._epoch)
            except Fenced:
                self._epoch = None
                raise TransactionFenced(f"could not {doing}: fenced") from None
        if failed is not None:
            self._world.note(f"{doing} fails")
            self._epoch = None
            raise TransactionAborted(f"could not {doing}: simulated")
        self._is_used, self._lent = False, None
        self._haunt()

    def _produce(self, topic: str, partition: int, *row: Any) -> int:
        if self._epoch is not None:
            claim_partition(self._world, self._ticket(), topic, partition, DRIVER)
        return super()._produce(topic, partition, *row)

    def _haunt(self) -> None:
        """Rows of writers that are thought dead arrive, or never will."""
        late, self._world.late_rows = self._world.late_rows, []
        for row in late:
            if self._world.random.random() < HALF:
                self._world.late_rows.append(row)
            elif append(self._world, *row) is not None:
                self._world.happened["a late row of a lane is taken"] += 1
            else:
                self._world.happened["a late row of a lane is refused"] += 1


class SimWriter:
    """What `TransactionWriter` offers to a lane, or to an owner of partitions."""

    def __init__(self, world: SimWorld, life: Life, ticket: Ticket) -> None:
        self._world = world
        self._life = life
        self._ticket = ticket
        self._rows: list[_LateRow] = []
        self._written: dict[tuple[str, int], Written] = {}
        world.writers += 1
        self._number = world.writers

    def write(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Take rows; some are sent at once."""
        claim_partition(self._world, self._ticket, topic, partition, self._number)
        for key, value in zip(keys, values, strict=True):
            self._rows.append(_LateRow(self._ticket, topic, partition, key, value))
        if self._world.random.random() < HALF:
            self._send()

    def write_batches(self, topic: str, partition: int, batches: Iterable[SealedBatch]) -> None:
        """Take rows that lanes have put together; some are sent at once."""
        claim_partition(self._world, self._ticket, topic, partition, self._number)
        self._rows += (_LateRow(self._ticket, topic, partition, *row) for row in _rows_of(batches))
        self._world.happened["an owner writes"] += 1
        if self._world.random.random() < HALF:
            self._send()

    def finish(self) -> dict[tuple[str, int], Written]:
        """Wait until the cluster has every row."""
        self._send()
        return dict(self._written)

    def close(self) -> None:
        """Nothing is connected here."""

    def _send(self) -> None:
        """Send what waits: a row after the other, and behind each the worker may die."""
        rows, self._rows = self._rows, []
        try:
            while rows:
                self._world.at(self._life, "lane writes a row")
                if self._life.dying_writers and self._world.random.random() < HALF:
                    self._life.dying_writers -= 1
                    self._life.met += 1
                    raise WorkerKilled
                self._send_one(rows.pop(0))
        except WorkerKilled:
            self._world.happened["a lane dies while it writes"] += 1
            self._world.late_rows += rows
            raise

    def _send_one(self, row: _LateRow) -> None:
        if self._life.failing_writers and self._world.random.random() < HALF:
            self._life.failing_writers -= 1
            self._life.met += 1
            self._lose(row)
        offset = append(self._world, *row)
        if offset is None:
            raise TransactionFenced("could not write rows into a transaction: fenced")
        place = row.topic, row.partition
        start = self._written[place].start if place in self._written else offset
        self._written[place] = Written(start, offset + 1)

    def _lose(self, row: _LateRow) -> NoReturn:
        """Get no answer for a row: it is there, it comes late, or it is lost."""
        how = self._world.random.choice(("there", "late", "lost"))
        if how == "there":
            append(self._world, *row)
        elif how == "late":
            self._world.late_rows.append(row)
        self._world.happened["a lane cannot write"] += 1
        raise TransactionAborted("could not write rows into a transaction: simulated")


def _rows_of(
    batches: Iterable[SealedBatch],
) -> Iterator[tuple[bytes | None, bytes | None, int, Headers]]:
    for batch in batches:
        yield from decode(*batch.encode(_NOBODY, 0))[1]


def append(
    world: SimWorld,
    ticket: Ticket,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    timestamp: int | None = None,
    headers: Headers = (),
) -> int | None:
    """Append a row under a ticket; return its offset, None where the cluster refuses it."""
    broker = world.broker
    try:
        txn = broker.transaction(ticket.transactional_id, ticket.producer_epoch)
    except Fenced:
        return None
    if broker.partition(topic, partition) is None:
        return None
    if timestamp is None:
        timestamp = BASE_MS + world.ms
    return broker.append(topic, partition, key, value, timestamp, headers=headers, txn=txn)


def claim_partition(
    world: SimWorld, ticket: Ticket, topic: str, partition: int, writer: int
) -> None:
    """See that a partition has one writer under a ticket: each numbers its rows from 0."""
    place = ticket.transactional_id, ticket.producer_epoch, topic, partition
    if world.written_by.setdefault(place, writer) != writer:
        text = f"two writers of {topic}-{partition} under epoch {ticket.producer_epoch}"
        world.report(Violation("stops", text))
