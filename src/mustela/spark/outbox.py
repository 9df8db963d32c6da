"""What a task has to say, as frames, each with the lane that it goes to."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from mustela.connectors.kafka.row_checks import outline_of
from mustela.connectors.kafka.row_handler import RowHandler
from mustela.kernel.core.output import DeadLetters, Place, SinkRows, StageOutput
from mustela.plan.batch import Batch
from mustela.plan.epoch import EpochOrder, Failure, TaskReport
from mustela.plan.files import LETTERS
from mustela.plan.keygroups import rows_by_lane
from mustela.plan.plan import Exchange
from mustela.plan.ranges import RangeReport
from mustela.plan.sealed import SealedPart
from mustela.spark.frames import (
    CHANGELOG,
    DEAD_LETTERS,
    EXCHANGE,
    MARKERS,
    OWNED,
    PLACED,
    REPORT,
    ROWS,
    SEALED,
    Frame,
    FrameColumns,
    dump_object,
    pack,
    pack_batch,
    pack_placed,
    pack_sealed,
)
from mustela.spark.process import Process
from mustela.spark.row_sender import RowSender
from mustela.spark.spool import Spool
from mustela.state.interfaces import Rows

if TYPE_CHECKING:
    from mustela.spark.files import RowFiles
    from mustela.spark.lane_writer import ForOwners, LaneWriter, Sealer

__all__ = ["DRIVER", "Outbox", "Parcel", "failure_of"]

Parcel = tuple[int, bytes]
"""A lane, and the frame that goes there."""

DRIVER = -1


def failure_of(error: BaseException) -> Failure:
    """Pack an error so that it survives the way to the driver."""
    text = "".join(traceback.format_exception(error))
    try:
        dump_object(error)
    except Exception:  # noqa: BLE001 - any error may refuse to be pickled, its text does not
        return Failure(None, text)
    return Failure(error, text)


class Outbox:
    """Turns a stage's output into frames.

    Args:
        process: The process's things.
        order: The epoch.
        stage: The sending stage.
        task: The sending task.
    """

    def __init__(self, process: Process, order: EpochOrder, stage: int, task: int) -> None:
        self.process = process
        self.order = order
        self._stage = stage
        self._task = task
        program = process.program
        self._lanes = program.lanes_in(order)
        self._lane_of_group = program.lane_of_groups(order)
        self._sender: RowSender | None = None
        if program.guarantee == "at_least_once" and not order.probe:
            handler = RowHandler.of(
                program.kernel.get("production_handler", "fail"),
                program.plan.nodes,
                program.application_id,
            )
            claim = process.claim(order.token.incarnation)
            sending = process.sink, process.row_checks, handler, order.header
            self._sender = RowSender(*sending, claim.look)
        self._files: RowFiles | None = None
        if program.files is not None:
            from mustela.spark.files import RowFiles  # with Arrow, which only this needs

            self._files = RowFiles(program.files, order.token.epoch, stage, task)
        self._writer: LaneWriter | None = None
        if order.ticket is not None and not order.probe:
            self._writer = process.lane_writer(order.ticket)
        self._sealer: Sealer | None = None
        self._for_owners: ForOwners | None = None
        if order.owners and not order.probe:
            self._for_owners = process.for_owners(order.header, order.owners)
        elif order.seals and not order.probe:
            self._sealer = process.sealer(order.header)
        self._sequence = 0
        self._spool = Spool(program.spool_dir, order.token, stage, task)
        context = TaskContext.get()
        spark_stage = -1 if context is None else context.stageId()
        self.report = TaskReport(stage=stage, task=task, pid=os.getpid(), spark_stage=spark_stage)

    def _frame(self, kind: int, stage: int, name: str, body: bytes) -> bytes:
        frame = Frame(kind, stage, self._stage, self._task, self._sequence, name, body)
        self._sequence += 1
        return pack(frame)

    def _for_lane(self, exchange: Exchange, batch: Batch, index: Sequence[int] | None) -> bytes:
        """Return the frame of the records that go to one lane."""
        body = self._spool.keep_bytes(
            pack_batch(batch, index, ordered=exchange.ordered, raw=exchange.raw)
        )
        return self._frame(EXCHANGE, exchange.target, exchange.name, body)

    def _for_driver(self, kind: int, name: str, columns: FrameColumns) -> Parcel:
        """Return the frame of rows that the driver sends to Kafka."""
        body = self._spool.keep(columns)
        if kind == ROWS:
            self.report.sink_bytes += len(body)
        return self._home(), self._frame(kind, DRIVER, name, body)

    def send(self, output: StageOutput) -> Iterator[Parcel]:
        """Yield the frames of what a stage gave."""
        for name, count in output.counters.items():
            self.report.counters[name] = self.report.counters.get(name, 0) + count
        for name, batches in output.exchanges.items():
            exchange = self.process.wired.exchanges[name]
            for batch in batches:
                yield from self._exchange(exchange, batch)
        yield from self._rows(output.rows)
        if len(output.dead_letters):
            yield from self._dead_letters(output.dead_letters)

    def _exchange(self, exchange: Exchange, batch: Batch) -> Iterator[Parcel]:
        keys = batch.key_bytes
        assert keys is not None, f"exchange {exchange.name} got a batch without key bytes"
        suffix = exchange.key.group_suffix
        for lane, index in rows_by_lane(keys, self._lane_of_group, suffix=suffix):
            yield lane, self._for_lane(exchange, batch, index)

    def _rows(self, rows: list[SinkRows]) -> Iterator[Parcel]:
        for part in rows:
            if not len(part):
                continue
            columns = FrameColumns(
                part.topic, part.keys, part.values, part.timestamps, part.headers, part.partitions
            )
            if self._files is not None:
                self._files.write(part.step, columns, part.steps)
            elif part.spread and part.places is not None:
                yield self._placed(part.step, columns, part.places)
            elif self._sender is not None:
                self._sender.send(columns)
            elif self._for_owners is not None:
                self.report.sealed_outlines.append(outline_of(columns))
                for owner, sealed in self._for_owners.add(columns):
                    yield self._for_owner(owner, sealed)
            else:
                sealed = None if self._sealer is None else self._sealer.seal(columns)
                if sealed is None:
                    self.report.outlines.append(outline_of(columns))
                    yield self._for_driver(ROWS, part.step, columns)
                else:
                    self.report.sealed_outlines.append(outline_of(columns))
                    yield self._home(), self._sealed(SEALED, part.step, sealed)

    def _for_owner(self, owner: int, part: SealedPart) -> Parcel:
        """Return the frame of rows that an owner of partitions writes."""
        return owner, self._sealed(OWNED, str(owner), part)

    def _sealed(self, kind: int, name: str, part: SealedPart) -> bytes:
        self.report.sealed += sum(rows.row_count for rows in part.rows)
        body = self._spool.keep_bytes(pack_sealed(part))
        self.report.sink_bytes += len(body)
        return self._frame(kind, DRIVER, name, body)

    def _placed(self, step: str, columns: FrameColumns, places: list[Place]) -> Parcel:
        """Return the frame of rows that the driver sorts, whoever sends all others."""
        body = self._spool.keep_bytes([pack_placed(columns, places)])
        return self._home(), self._frame(PLACED, DRIVER, step, body)

    def _dead_letters(self, letters: DeadLetters) -> Iterator[Parcel]:
        columns = FrameColumns(
            "", letters.keys, letters.values, letters.timestamps, letters.headers, None
        )
        if self._files is not None:
            self._files.write(LETTERS, columns)
        else:
            yield self._for_driver(DEAD_LETTERS, "", columns)

    def changelog(self, store: str, group: int, rows: Rows) -> Iterator[Parcel]:
        """Write one store's changes in one key group; yield their frame if the driver does that."""
        if self._writer is None:
            yield self._changelog(store, group, rows)
        else:
            self._writer.add(store, group, rows)

    def _changelog(self, store: str, group: int, rows: Rows) -> Parcel:
        keys: list[Any] = [key for key, _ in rows]
        values = [value for _, value in rows]
        columns = FrameColumns(store, keys, values, None, None, group)
        return self._for_driver(CHANGELOG, store, columns)

    def markers(self, ranges: list[RangeReport], *, failed: bool) -> Iterator[Parcel]:
        """Yield, for every lane of the next stage, what the sources saw and whether one failed."""
        body = dump_object((ranges, failed))
        for lane in range(self._lanes):
            yield lane, self._frame(MARKERS, self._stage + 1, "", body)

    def finish(self) -> Iterator[Parcel]:
        """Send what tasks send themselves, then yield the report."""
        if self._for_owners is not None and self.report.failure is None:
            yield from self._left_for_owners(self._for_owners)
        if self._sender is not None:
            yield from self._sent(self._sender)
        if self._writer is not None:
            yield from self._written(self._writer)
        if self._files is not None:
            self._files.close()
        self._spool.close()
        yield self._home(), self._frame(REPORT, DRIVER, "", dump_object(self.report))

    def _left_for_owners(self, rows: ForOwners) -> Iterator[Parcel]:
        """Yield the rows that wait for more of their partitions."""
        try:
            for owner, part in rows.rest():
                yield self._for_owner(owner, part)
        except Exception as error:  # noqa: BLE001 - the report carries it to the driver
            self.report.failure = failure_of(error)

    def _sent(self, sender: RowSender) -> Iterator[Parcel]:
        """See the rows arrive that this task sends itself; yield those that never will."""
        report = self.report
        try:
            if report.failure is None:
                for topic, count in sender.finish().items():
                    report.counters[f"refused_rows:{topic}"] = count
                letters = sender.letters()
                if letters is not None:
                    yield self._for_driver(DEAD_LETTERS, "", letters)
        except Exception as error:  # noqa: BLE001 - the report carries it to the driver
            report.failure = failure_of(error)
        if report.failure is not None:
            sender.give_up()

    def _written(self, writer: LaneWriter) -> Iterator[Parcel]:
        """See the rows arrive that this lane writes; yield those that the driver is to write."""
        report = self.report
        try:
            if report.failure is None:
                sent = writer.finish()
                report.written, report.written_bytes = sent.ends, sent.size
                for few in writer.few():
                    yield self._changelog(*few)
        except Exception as error:  # noqa: BLE001 - the report carries it to the driver
            report.failure = failure_of(error)
        finally:
            writer.close()

    def _home(self) -> int:
        """The lane that carries frames for the driver: the task's own."""
        return self._task % self._lanes
