"""The epochs of a batch: cut by time, run by the engine, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from mustela.connectors.kafka.splitting import split_ranges
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder, GlobalMark, GroupMark, Program
from mustela.plan.ranges import SourceRange
from mustela.plan.time import NEVER
from mustela.plan.watermark import watermark_after
from mustela.runtime.engine import EpochOutput
from mustela.runtime.time.due_times import DueTimes
from mustela.runtime.time.watermark import (
    Look,
    WatermarkOptions,
    WatermarkState,
    topic_options,
)
from mustela.spark.batch.cutting import Cutter
from mustela.spark.batch.segments import PartitionIndex
from mustela.state.interfaces import Token

__all__ = ["EpochRunner", "Loop"]

_QUIET_MAX = 100_000
"""How many epochs without records may follow one another."""


class EpochRunner(Protocol):
    """What of an engine the epochs need."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        ...

    def run(self, order: EpochOrder) -> EpochOutput:
        """Run the job of an epoch."""
        ...


class Loop:
    """Runs a program over all records of its files.

    Nothing is ever repeated: what survives a failure of an epoch is thrown away with everything
    else. So there is no log of changes, and the marks of what is committed are kept here.

    Args:
        program: The program; the engine has loaded it.
        engine: Runs epochs.
        indexes: The times of each source partition's records.
        rules: How event time follows the records.
        records: About how many records an epoch reads.

    Attributes:
        counters: Counts by name.
        watermark: Event time.
        epochs: Number of epochs run.
        marks: What is committed of each key group, by stage.
    """

    def __init__(
        self,
        program: Program,
        engine: EpochRunner,
        indexes: Mapping[TopicPartition, PartitionIndex],
        *,
        rules: WatermarkOptions,
        records: int,
    ) -> None:
        plan = program.plan
        self._program = program
        self._engine = engine
        self._indexes = indexes
        self._cutter = Cutter(indexes, records)
        self._topics = {topic: index for index, topic in enumerate(plan.topics)}
        self._due = DueTimes(plan, program.key_groups, known=True)
        self._read = dict.fromkeys(indexes, 0)
        self.watermark = WatermarkState(rules, by_topic=topic_options(plan, rules))
        self.watermark.track(indexes, 0)
        self.counters: Counter[str] = Counter()
        self.epochs = 0
        nothing = GroupMark(None, (), 0)
        self.marks = {
            stage.index: [nothing] * program.key_groups for stage in plan.stages if stage.stores
        }
        files = program.files
        assert files is not None
        self._globals = {
            table.topic: GlobalMark(
                "files",
                tuple(sum(s.rows for s in part) for part in files.inputs.get(table.topic, ()))
                or (0,),
            )
            for table in plan.global_tables
        }

    def run(self) -> None:
        """Run epochs until every record is read and nothing is due.

        Raises:
            MustelaError: If an epoch fails.
        """
        while any(self._read[place] < index.size for place, index in self._indexes.items()):
            cut = self._cutter.cut(self._read)
            self._epoch(cut.ends, Look(now_ms=0, short=self._read.keys(), until_ms=cut.until))
        self._run_due(-1)

    def flush(self, to_ms: int) -> None:
        """Move event time on without records, and run what becomes due.

        Args:
            to_ms: How far.
        """
        self._run_due(to_ms)

    def _run_due(self, at_least_ms: int) -> None:
        for _ in range(_QUIET_MAX):
            look = Look(now_ms=0, short=self._read.keys(), at_least_ms=at_least_ms)
            order = self.watermark.order(self._topics, look)
            if not self._due.first.reached(watermark_after(order, ()), self._now(look)):
                return
            self._epoch(self._read, look)

    def _now(self, look: Look) -> int:
        """Return the clock's time: event time, as far as the epoch brings it."""
        until = -1 if look.until_ms is None else look.until_ms
        return max(1, self.watermark.value, until, look.at_least_ms)

    def _epoch(self, ends: Mapping[TopicPartition, int], look: Look) -> None:
        now_ms = self._now(look)
        ranges = [
            SourceRange(
                self._topics[place.topic],
                place.partition,
                self._read[place],
                end,
                self.watermark.partitions[place].max_timestamp,
                latest=NEVER,
            )
            for place, end in ends.items()
            if end > self._read[place]
        ]
        plan = self._program.plan
        self.epochs += 1
        order = EpochOrder(
            token=Token(1, self.epochs, 0),
            ranges=split_ranges(sorted(ranges), self._engine.cores, whole=plan.unsplit) or ((),),
            marks={stage: tuple(marks) for stage, marks in self.marks.items()},
            now_ms=now_ms,
            event_time=self.watermark.order(self._topics, look),
            due=self._due.order(),
            global_marks=self._globals,
        )
        self._commit(order, self._engine.run(order), look)
        self._read = dict(ends)

    def _commit(self, order: EpochOrder, output: EpochOutput, look: Look) -> None:
        mark = GroupMark(order.token, (), order.now_ms)
        for report in output.reports:
            self.counters.update(report.counters)
            for group in report.wrote:
                self.marks[report.stage][group] = mark
        self.watermark = self.watermark.after(self._topics, look, output.ranges_read())
        self._due.learn(output.reports, watermark=self.watermark.value, now_ms=order.now_ms)
        output.close()
