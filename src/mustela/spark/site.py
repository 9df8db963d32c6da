"""What a worker has for the tasks of an epoch: readers of Kafka, local state, copies of tables."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from mustela.connectors.kafka.copies import open_current
from mustela.connectors.kafka.small_fetch import OffsetRange
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.task import LaneGroup, Lookups
from mustela.kernel.wiring import WiredPlan
from mustela.plan.epoch import EpochOrder, TaskReport
from mustela.plan.plan import Stage
from mustela.plan.ranges import RawChunk, SourceRange
from mustela.plan.time import NEVER
from mustela.spark.any_key import any_key_reader
from mustela.spark.global_tables import global_views
from mustela.spark.process import Process
from mustela.state.interfaces import Committed, Condition

__all__ = ["WorkerSite"]

_BATCH_UNTIL_MOMENT = 1_000
"""Records taken at once from a range that ends at a moment, which nobody knows the offset of."""


class WorkerSite:
    """Where a task runs in a worker; see `mustela.kernel.task.TaskSite`.

    Args:
        process: The process's things.
        order: The epoch.
        report: Its report, with stage and task set; takes what it counts.
    """

    def __init__(self, process: Process, order: EpochOrder, report: TaskReport) -> None:
        self._process = process
        self._order = order
        self._task = report.task
        self._counters = report.counters

    @property
    def wired(self) -> WiredPlan:
        """What runs."""
        return self._process.wired

    @property
    def lane_of(self) -> Sequence[int]:
        """The lane of each key group."""
        return self._process.program.lane_of_groups(self._order)

    @property
    def key_groups(self) -> int:
        """Number of key groups."""
        return self._process.program.key_groups

    @property
    def options(self) -> KernelOptions:
        """The kernel's options."""
        return self._process.options

    def gather(self) -> None:
        """Fetch all that a task reads with one question, if it is little."""
        topics = self._process.program.plan.topics
        ranges = self._order.ranges[self._task]
        self._process.reader.gather(
            [OffsetRange(topics[part.topic_index], *part[1:4]) for part in ranges]
        )

    def chunks(self, source_range: SourceRange, *, goes_on: bool) -> Iterator[RawChunk]:
        """Read a range: few records at once where what is too many is read in vain."""
        records = self._process.program.batch_records
        if source_range.until != NEVER:
            records = min(records, _BATCH_UNTIL_MOMENT)
        return self._process.reader.read(
            self._process.program.plan.topics[source_range.topic_index],
            source_range.partition,
            source_range.start,
            source_range.end,
            max_batch=records,
            goes_on=goes_on,
        )

    def begin_batch(self, source_range: SourceRange, offsets: Sequence[int]) -> None:
        """Note what this process is at: it may be the last that is heard of it."""
        place = source_range.topic_index, source_range.partition
        self._process.note.batch(0, self._task, place, offsets)

    @contextmanager
    def lookups(self, stage: Stage, restored: dict[str, int]) -> Generator[Lookups]:
        """Bring what the steps of a stage look up to what the order says, and open it."""
        process, order = self._process, self._order
        with (
            global_views(process, order, stage) as views,
            any_key_reader(process, order, stage, restored) as any_key,
        ):
            yield Lookups(views, any_key)

    def open_groups(
        self, stage: Stage, groups: Sequence[int], restored: dict[str, int]
    ) -> Iterator[LaneGroup]:
        """Bring key groups to the committed state, and open them."""
        process, order = self._process, self._order
        if order.suspect:
            process.weed_out((stage.index, group) for group in groups)
        for group in groups:
            committed = order.marks[stage.index][group].committed(stage.logged)
            if order.placement is not None:
                self._count_restored(stage, group, committed)
            environment, snapshot = open_current(process, stage.index, group, committed, restored)
            yield LaneGroup(environment, committed, snapshot)

    def _count_restored(self, stage: Stage, group: int, committed: Committed) -> None:
        """Count a key group that this host has to read from its changelogs first."""
        condition = self._process.environment(stage.index, group).condition(committed)
        if not condition.ready and committed.token is not None:
            what = "groups_caught_up" if condition is Condition.BEHIND else "groups_restored"
            self._counters[what] = self._counters.get(what, 0) + 1
