"""Turns the output of an epoch into one Kafka transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mustela.connectors.kafka.columns import RowColumns
from mustela.connectors.kafka.errors import (
    RefusedRow,
    RowsRefused,
    TransactionFailed,
    TransactionUnknown,
)
from mustela.connectors.kafka.production import (
    SEARCHES_MAX,
    can_be_mended,
    changelog_error,
    letters_of,
    mended_letters,
    production_error,
)
from mustela.connectors.kafka.row_checks import RowChecks
from mustela.connectors.kafka.row_handler import RowHandler
from mustela.errors import InvariantError
from mustela.faultpoints import reach
from mustela.model import Headers, TopicPartition
from mustela.plan.epoch import changelog_topic, history_topic
from mustela.plan.sealed import SealedPart
from mustela.plan.ticket import Ticket
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.epochs import refuse_remade
from mustela.runtime.engine import EpochOutput, refuse_two_writers
from mustela.runtime.ports import Transactions
from mustela.runtime.record.epoch_record import EpochRecord, epochs_topic
from mustela.runtime.record.record_rows import RecordPolicy, RecordRow, RecordRows

__all__ = ["Committer"]

_CHANGELOG = "changelog"


class Committer:
    """Sends epochs to Kafka; the commit of the Kafka transaction is the only commit point.

    Args:
        sink: The transactional producer.
        application_id: The application; names group, epochs topic and changelogs.
        dead_letter_topic: Where dead letters go.
        header: Name of the header with the epoch on each sink row; empty for none.
        handler: What to do with rows that the broker refuses.
        checks: Finds rows that the broker would refuse before they are sent; None leaves that to
            the broker.
        log_names: By store, the name it has in its changelog, if that differs.
        records: When an epoch record is written whole.
        crash_point: Called at named places in the protocol; see `faultpoints`.

    Attributes:
        left_out: How many rows of the last epoch were refused, by topic.
    """

    def __init__(  # noqa: PLR0913 - a sink, and the settings that rows obey
        self,
        sink: Transactions,
        *,
        application_id: str,
        dead_letter_topic: str,
        header: str,
        handler: RowHandler,
        checks: RowChecks | None = None,
        log_names: Mapping[str, str] | None = None,
        records: RecordPolicy | None = None,
        crash_point: Callable[[str], object] = reach,
    ) -> None:
        self._crash_point = crash_point
        self._log_names = log_names or {}
        self._checks = checks
        self._sink = sink
        self._group = application_id
        self._epochs_topic = epochs_topic(application_id)
        self._dead_letter_topic = dead_letter_topic
        self._header = header
        self._handler = handler
        self._records = RecordRows(records or RecordPolicy())
        self._epochs_end = 0
        self.left_out: Counter[str] = Counter()
        self._buried: set[tuple[object, int]] = set()
        self._history: Sequence[tuple[bytes, bytes]] = ()

    def commit(
        self,
        output: EpochOutput,
        *,
        barrier: Barrier,
        offsets: Mapping[TopicPartition, int],
        record: Callable[[Mapping[tuple[str, int], int]], EpochRecord],
        history: Sequence[tuple[bytes, bytes]] = (),
    ) -> EpochRecord:
        """Commit one epoch.

        Args:
            output: The epoch's rows.
            barrier: The protocol's state; ends in `Phase.IDLE` if the commit is known.
            offsets: Next offsets of the source partitions, to be mirrored to the group.
            record: Creates the epoch record, given the changelog ends of this epoch.
            history: Records for the history topic.

        Returns:
            The epoch record that was committed.

        Raises:
            TransactionFailed: If the epoch is not known to be committed; the producer is then
                unusable, and the barrier says what is known. RowsRefused, if lanes have written
                and the broker does not take a row of the driver's: the epoch must run again.
            ProductionError: If the broker refuses a row and the handler says to fail.
            ChangelogRowError: If it refuses a row of a changelog.
        """
        self.left_out = Counter()
        self._buried = set()
        self._history = history
        try:
            refused = self._refused_before(output)
        except RowsRefused:
            barrier.give_up()
            raise
        searches, is_again = 0, False
        while True:
            try:
                if is_again:
                    self._sink.reopen()
                ticket = None if is_again else output.ticket
                return self._attempt(output, ticket, barrier, offsets, record, refused)
            except RowsRefused as error:
                barrier.again()
                is_again = True
                if output.is_of_lanes:  # what they wrote is gone with the transaction
                    barrier.give_up()
                    raise
                if error.known or searches == SEARCHES_MAX:
                    _refuse_changelogs(error, output)
                    refused.extend(self._handle(error, refused, output))
                    searches = 0
                else:  # trying the same transaction again shows which rows they are
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
        ticket: Ticket | None,
        barrier: Barrier,
        offsets: Mapping[TopicPartition, int],
        record: Callable[[Mapping[tuple[str, int], int]], EpochRecord],
        refused: list[RefusedRow],
    ) -> EpochRecord:
        sink = self._sink
        sink.begin(ticket)
        barrier.move(Phase.BEGUN)
        header = (self._header, str(barrier.token.epoch).encode()) if self._header else None
        for number, columns in enumerate(output.rows):
            if isinstance(columns, SealedPart):
                sink.produce_sealed(columns.rows)
            else:
                self._send(("row", number), columns, header, refused)
            self._crash_point("half-produced")
        for number, columns in enumerate(output.dead_letters):
            letters = _on_topic(columns, self._dead_letter_topic)
            self._send_letters(("dead-letter", number), letters, header, refused)
        left_out = [row for row in refused if _part_of(row) is not None]
        buried = [row for row in left_out if (row.tag, row.row) in self._buried]
        if buried:
            parts = list(output.rows)
            made = letters_of(
                buried, lambda row: _open_part(parts[_sink_part(row)]), self._dead_letter_topic
            )
            self._send_letters(("refused", 0), made, header, refused)
        stores: dict[tuple[str, int], tuple[str, int]] = {}
        written = output.written
        for number, (store, columns) in enumerate(output.changelogs):
            group = columns.partitions
            assert isinstance(group, int), "a changelog frame is for one partition"
            if (store, group) in written:
                refuse_two_writers(store, group)
            topic = changelog_topic(self._group, self._log_names.get(store, store))
            tag = (_CHANGELOG, number)
            sink.produce_tracked(topic, group, columns.keys, columns.values, tag=tag)
            stores[topic, group] = (store, group)
        self._produce_history(self._history)
        barrier.move(Phase.PRODUCED)
        if offsets:
            sink.send_offsets({(tp.topic, tp.partition): end for tp, end in offsets.items()})
        barrier.move(Phase.OFFSETS_ADDED)
        ends = sink.flush()
        _check_ends(stores, ends)
        own = {stores[place]: end for place, end in ends.items() if place in stores}
        committed = record({**written, **own})
        end = self._produce_record(self._records.row(committed))
        barrier.move(Phase.COMMIT_SENT)
        sink.commit()
        barrier.committed()
        self._records.committed()
        self._epochs_end = end
        return committed

    def claim(self, record: EpochRecord) -> None:
        """Commit a record alone, as a new run does to claim its incarnation."""
        place, row = (self._epochs_topic, 0), self._records.whole(record)
        self._sink.begin()
        self._sink.produce_tracked(*place, [row.key], [row.value])
        self._sink.commit()
        self._records.committed()
        self._epochs_end = self._sink.ends()[place]

    def remember(self, history: Sequence[tuple[bytes, bytes]]) -> None:
        """Commit records for the history topic alone: those of an epoch that failed."""
        self._sink.begin()
        self._produce_history(history)
        self._sink.commit()

    def _produce_history(self, history: Sequence[tuple[bytes, bytes]]) -> None:
        if history:
            keys, values = [key for key, _ in history], [value for _, value in history]
            self._sink.produce_tracked(history_topic(self._group), 0, keys, values)

    def _produce_record(self, row: RecordRow) -> int:
        """Send the row of an epoch record; return the end of the epochs topic after it.

        Raises:
            EpochsTopicGoneError: If the topic has become shorter: it was recreated or truncated. A
                record in it might have lost its base, so it is not committed.
        """
        place = (self._epochs_topic, 0)
        self._sink.produce_tracked(*place, [row.key], [row.value])
        end = self._sink.flush()[place]
        if end <= self._epochs_end:
            refuse_remade(self._group, f"ends at {self._epochs_end}", f"ends at {end}")
        return end

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

    def _send_letters(
        self,
        tag: tuple[str, int],
        letters: RowColumns,
        header: tuple[str, bytes] | None,
        refused: Sequence[RefusedRow],
    ) -> None:
        """Send dead letters; those that the broker refused are corrected and sent again."""
        again = [row for row in refused if row.tag == tag]
        self._send(tag, mended_letters(letters, again) if again else letters, header, ())

    def _refused_before(self, output: EpochOutput) -> list[RefusedRow]:
        """Return the rows that must not be sent, because they would abort the transaction."""
        _refuse_shared(output, self._dead_letter_topic)
        if self._checks is None:
            return []
        if any(map(self._checks.suspicious, output.sealed_outlines)):
            reason, text = "INVALID_RECORD", "what a task has put together cannot be left out"
            raise RowsRefused.later(reason, text)
        suspicious = [self._checks.suspicious(outline) for outline in output.outlines]
        if not any(suspicious):
            return []
        found: list[RefusedRow] = []
        outlines = iter(zip(output.outlines, suspicious, strict=True))
        for number, columns in enumerate(output.rows):
            if isinstance(columns, SealedPart):
                continue
            outline, is_suspicious = next(outlines)
            if is_suspicious:
                found += self._checks.refused(("row", number), columns, outline)
        return self._handle(RowsRefused.of(found), (), output) if found else []

    def _handle(
        self, error: RowsRefused, before: Sequence[RefusedRow], output: EpochOutput
    ) -> list[RefusedRow]:
        """Apply the production handler; return rows to leave out, and letters to correct."""
        rows = error.rows
        sinks = [row for row in rows if _part_of(row) is not None]
        letters = [row for row in rows if _is_letter(row)]
        words = self._judge(sinks, output)
        fails = len(sinks) + len(letters) < len(rows) or "fail" in words
        if not rows or fails or not all(can_be_mended(letter, before) for letter in letters):
            handled = len(sinks) == len(rows)
            raise production_error(rows, error, handled=handled) from error
        self.left_out.update(row.topic for row in sinks)
        buried = zip(sinks, words, strict=True)
        self._buried.update((row.tag, row.row) for row, word in buried if word == "dead_letter")
        return rows

    def _judge(self, rows: Sequence[RefusedRow], output: EpochOutput) -> list[str]:
        """Return what the production handlers say of rows of sinks."""
        if self._handler.fails:
            return ["fail"] * len(rows)
        parts = list(output.rows) if rows else []
        return [self._handler.judge(row, _open_part(parts[_sink_part(row)])) for row in rows]


def _check_ends(
    stores: Mapping[tuple[str, int], tuple[str, int]], ends: Mapping[tuple[str, int], int]
) -> None:
    """Refuse an epoch whose record would not name the end of a changelog that it writes.

    Raises:
        InvariantError: If an end is missing.
    """
    missing = sorted(stores.keys() - ends.keys())
    if missing:
        topic, group = missing[0]
        what = f"the end of {topic}-{group} is not known, so the epoch cannot be committed"
        raise InvariantError(what, fix="this is a bug in Mustela: please report it")


def _refuse_shared(output: EpochOutput, dead_letter_topic: str) -> None:
    """Refuse an epoch of which the driver and owners of partitions have rows for one topic.

    Raises:
        RowsRefused: The epoch is to run again, with all rows the driver's.
    """
    owned = output.owned_topics
    if not owned:
        return
    others = {dead_letter_topic}
    for part in output.rows:
        if isinstance(part, SealedPart):
            others.update(rows.topic for rows in part.rows)
        else:
            others.update([part.topics] if isinstance(part.topics, str) else part.topics)
    for topic in sorted(owned & others):
        reason = "INVALID_RECORD"
        raise RowsRefused.later(reason, f"{topic} would have two writers")


def _refuse_changelogs(error: RowsRefused, output: EpochOutput) -> None:
    """Raise the error of a changelog row; no handler decides about it.

    Raises:
        ChangelogRowError: If one of the rows is a changelog's.
    """
    for row in error.rows:
        tag: Any = row.tag
        if tag is not None and tag[0] == _CHANGELOG:
            store, columns = next(islice(output.changelogs, tag[1], None))
            raise changelog_error(row, store, columns) from error


@dataclass(slots=True)
class _Columns:
    """Rows that the committer creates."""

    topics: str | list[str]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int] | None
    headers: list[Headers] | None
    partitions: list[int | None] | int | None = None


def _on_topic(columns: RowColumns, topic: str) -> RowColumns:
    return _Columns(topic, columns.keys, columns.values, columns.timestamps, columns.headers)


def _part_of(row: RefusedRow) -> int | None:
    """Return which part of the sink rows a row belongs to, or None if it is not a sink row."""
    tag: Any = row.tag
    return tag[1] if tag is not None and tag[0] == "row" else None


def _is_letter(row: RefusedRow) -> bool:
    tag: Any = row.tag
    return tag is not None and tag[0] in ("dead-letter", "refused")


def _open_part(part: RowColumns | SealedPart) -> RowColumns:
    assert not isinstance(part, SealedPart), "no row is named that a task has put together"
    return part


def _sink_part(row: RefusedRow) -> int:
    part = _part_of(row)
    assert part is not None, "only sink rows are handled"
    return part
