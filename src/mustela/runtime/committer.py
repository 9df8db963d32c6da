"""Turns the output of an epoch into one Kafka transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mustela.connectors.kafka.errors import (
    RefusedRow,
    RowsRefused,
    TransactionFailed,
    TransactionUnknown,
)
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.errors import DataError
from mustela.faultpoints import reach
from mustela.model import Headers, TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.runtime.barrier import Barrier, Phase
from mustela.runtime.engine import EpochOutput, RowColumns
from mustela.runtime.epoch_record import (
    EPOCH_RECORD_KEY,
    EpochRecord,
    encode_epoch_record,
    epochs_topic,
)
from mustela.runtime.row_checks import RowChecks

__all__ = ["Committer", "ProductionError"]

_SEARCHES_MAX = 8


class ProductionError(DataError):
    """The broker refuses an output row."""

    code = "PRODUCTION"


class Committer:
    """Sends epochs to Kafka; the commit of its transaction is the only commit point there is.

    Args:
        sink: The transactional producer.
        application_id: The application; names group, epochs topic and changelogs.
        dead_letter_topic: Where dead letters go.
        header: Name of the header with the epoch on each sink row; empty for none.
        handler: What to do with rows that the broker refuses.
        checks: Finds rows that it would refuse before they are sent; None to let it find them.
    """

    def __init__(
        self,
        sink: TransactionalSink,
        *,
        application_id: str,
        dead_letter_topic: str,
        header: str,
        handler: str,
        checks: RowChecks | None = None,
    ) -> None:
        self._checks = checks
        self._sink = sink
        self._group = application_id
        self._epochs_topic = epochs_topic(application_id)
        self._dead_letter_topic = dead_letter_topic
        self._header = header
        self._handler = handler
        self.dropped = 0

    def commit(
        self,
        output: EpochOutput,
        *,
        barrier: Barrier,
        offsets: Mapping[TopicPartition, int],
        record: Callable[[Mapping[tuple[str, int], int]], EpochRecord],
    ) -> EpochRecord:
        """Commit one epoch.

        Args:
            output: The epoch's rows.
            barrier: The protocol's state; ends in `Phase.IDLE` if the commit is known.
            offsets: Next offsets of the source partitions, to be mirrored to the group.
            record: Makes the epoch record, given the changelog ends of this epoch.

        Returns:
            The epoch record that was committed.

        Raises:
            TransactionFailed: If the epoch is not known to be committed; the producer is useless
                then, and the barrier says what is known.
            ProductionError: If the broker refuses a row and the handler says to fail.
        """
        refused: list[RefusedRow] = []
        searches = 0
        while True:
            try:
                if searches or refused:
                    self._sink.reopen()
                return self._attempt(output, barrier, offsets, record, refused)
            except RowsRefused as error:
                barrier.again()
                if error.known or searches == _SEARCHES_MAX:
                    refused.extend(self._handle(error))
                    searches = 0
                else:  # the same transaction, tried again, finds out which rows it is
                    searches += 1
            except TransactionFailed as error:
                may_be_there = barrier.phase is Phase.COMMIT_SENT
                if may_be_there or isinstance(error, TransactionUnknown):
                    barrier.move(Phase.UNKNOWN)
                else:
                    barrier.give_up()
                raise

    def _attempt(
        self,
        output: EpochOutput,
        barrier: Barrier,
        offsets: Mapping[TopicPartition, int],
        record: Callable[[Mapping[tuple[str, int], int]], EpochRecord],
        refused: list[RefusedRow],
    ) -> EpochRecord:
        sink = self._sink
        sink.begin()
        barrier.move(Phase.BEGUN)
        header = (self._header, str(barrier.token.epoch).encode()) if self._header else None
        for number, columns in enumerate(output.rows):
            refused.extend(self._refused_before(("row", number), columns, refused))
            self._send(("row", number), columns, header, refused)
            reach("half-produced")
        for number, columns in enumerate(output.dead_letters):
            letters = _on_topic(columns, self._dead_letter_topic)
            self._send(("dead-letter", number), letters, header, refused)
        if refused and self._handler == "dead_letter":
            letters = _letters_of(refused, output, self._dead_letter_topic)
            self._send(("refused", 0), letters, header, ())
        stores: dict[tuple[str, int], tuple[str, int]] = {}
        for store, columns in output.changelogs:
            group = columns.partitions
            assert isinstance(group, int), "a changelog frame is for one partition"
            topic = changelog_topic(self._group, store)
            sink.produce_tracked(topic, group, columns.keys, columns.values)
            stores[topic, group] = (store, group)
        barrier.move(Phase.PRODUCED)
        if offsets:
            sink.send_offsets({(tp.topic, tp.partition): end for tp, end in offsets.items()})
        barrier.move(Phase.OFFSETS_ADDED)
        ends = sink.flush()
        written = record({stores[place]: end for place, end in ends.items() if place in stores})
        sink.produce_tracked(
            self._epochs_topic, 0, [EPOCH_RECORD_KEY], [encode_epoch_record(written)]
        )
        barrier.move(Phase.COMMIT_SENT)
        sink.commit()
        barrier.committed()
        return written

    def claim(self, record: EpochRecord) -> None:
        """Commit a record alone: a new run claims its incarnation so before its first epoch."""
        self._sink.begin()
        self._sink.produce_tracked(
            self._epochs_topic, 0, [EPOCH_RECORD_KEY], [encode_epoch_record(record)]
        )
        self._sink.commit()

    def _send(
        self,
        tag: tuple[str, int],
        columns: RowColumns,
        header: tuple[str, bytes] | None,
        refused: Sequence[RefusedRow],
    ) -> None:
        skip = frozenset(row.row for row in refused if row.tag == tag)
        self._sink.produce_columns(
            columns.topics,
            columns.keys,
            columns.values,
            columns.timestamps,
            columns.headers,
            columns.partitions,
            header=header,
            tag=tag,
            skip=skip,
        )

    def _refused_before(
        self, tag: tuple[str, int], columns: RowColumns, known: Sequence[RefusedRow]
    ) -> list[RefusedRow]:
        """Return the rows that are not even sent, but for those known already."""
        if self._checks is None:
            return []
        done = {row.row for row in known if row.tag == tag}
        found = [row for row in self._checks.refused(tag, columns) if row.row not in done]
        return self._handle(RowsRefused.of(found)) if found else []

    def _handle(self, error: RowsRefused) -> list[RefusedRow]:
        """Apply the production handler; return the rows to leave out."""
        rows = error.rows
        sinks_only = all(_part_of(row) is not None for row in rows)
        if self._handler == "fail" or not rows or not sinks_only:
            raise _production_error(rows, error) from error
        self.dropped += len(rows)
        return rows


@dataclass(slots=True)
class _Columns:
    """Rows made here."""

    topics: str | list[str]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int] | None
    headers: list[Headers] | None
    partitions: list[int | None] | int | None = None


def _on_topic(columns: RowColumns, topic: str) -> RowColumns:
    return _Columns(topic, columns.keys, columns.values, columns.timestamps, columns.headers)


def _part_of(row: RefusedRow) -> int | None:
    """Return which part of the sink rows a row belongs to, or None if it is no sink row."""
    tag: Any = row.tag
    return tag[1] if tag is not None and tag[0] == "row" else None


def _letters_of(refused: Iterable[RefusedRow], output: EpochOutput, topic: str) -> RowColumns:
    """Return refused rows as dead letters: their own bytes, and why they were refused."""
    letters = _Columns(topic, [], [], [], [])
    parts = list(output.rows)
    for row in refused:
        part = _part_of(row)
        assert part is not None
        columns = parts[part]
        facts = {"class": row.reason, "message": row.text, "topic": row.topic}
        errors = tuple((f"mustela.error.{name}", text.encode()) for name, text in facts.items())
        letters.keys.append(columns.keys[row.row])
        letters.values.append(columns.values[row.row])
        assert letters.headers is not None
        letters.headers.append((columns.headers[row.row] if columns.headers else ()) + errors)
    letters.timestamps = None
    return letters


def _production_error(rows: Sequence[RefusedRow], cause: RowsRefused) -> ProductionError:
    evidence: dict[str, Any] = {
        f"row {row.row}": f"topic {row.topic}, {row.reason}: {row.text}" for row in rows[:3]
    }
    return ProductionError(
        cause.what,
        evidence=evidence or cause.evidence,
        why="an output row that the broker refuses would stop the epoch for ever",
        fix="make the rows fit the topic, or set production_handler to continue or dead_letter",
        fields=cause.fields,
    )
