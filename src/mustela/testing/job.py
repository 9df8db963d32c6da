"""The job of an epoch in one process: every stage, every lane, exchanges in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from mustela.kernel.core.any_key import AnyKeyReader
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.records.sink_order import in_record_order
from mustela.kernel.task import LaneGroup, LaneTask, LoggedRows, Lookups, SourceTask
from mustela.model import TopicPartition
from mustela.plan.batch import Batch
from mustela.plan.epoch import EpochOrder, TaskReport
from mustela.plan.keygroups import lanes_by_group, rows_by_lane
from mustela.plan.plan import Exchange, Stage
from mustela.plan.ranges import RangeReport, RawChunk, SourceRange
from mustela.runtime.time.watermark import Look
from mustela.state.interfaces import Rows, Snapshot
from mustela.testing.cluster import JobResult, MemoryCluster, Place

__all__ = ["Job", "run_job"]


def run_job(
    cluster: MemoryCluster,
    options: KernelOptions,
    *,
    lanes: int,
    look: Look,
    triggered: Collection[str] = (),
) -> JobResult:
    """Run the records that no committed epoch has read through every stage, and write the pendings.

    Args:
        cluster: The durable side.
        options: Options of the kernel.
        lanes: Number of lanes.
        look: What is known about the epoch.
        triggered: Scheduled sources that tick whatever their schedule says.

    Raises:
        DataError: If a record is bad and its handler is ``fail``; nothing is committed then.
    """
    unread = {
        TopicPartition(topic, 0): (cluster.offsets[topic], len(rows))
        for topic, rows in cluster.inputs.items()
        if len(rows) > cluster.offsets[topic]
    }
    watermark = cluster.watermark.copy()
    watermark.track(unread, look.now_ms)
    ranges = [
        SourceRange(
            cluster.topics[place.topic],
            place.partition,
            *offsets,
            floor=watermark.partitions[place].max_timestamp,
            latest=watermark.options_of(place.topic).latest_ms(look.now_ms),
        )
        for place, offsets in unread.items()
    ]
    order = EpochOrder(
        token=cluster.next_token(),
        ranges=(tuple(sorted(ranges)),),
        marks={},  # the cluster itself knows what is committed
        now_ms=look.now_ms,
        event_time=watermark.order(cluster.topics, look),
        due=cluster.due.order(),
        triggered=triggered,
    )
    result = JobResult(order.token, watermark=watermark, now_ms=look.now_ms)
    job = Job(cluster, options, lanes, order)
    try:
        job.run(result)
    finally:
        job.close()
    result.watermark = watermark.after(cluster.topics, look, result.reports[0].ranges)
    return result


class Job:
    """A running epoch, and the site of its tasks (`mustela.kernel.task.TaskSite`)."""

    def __init__(
        self, cluster: MemoryCluster, options: KernelOptions, lanes: int, order: EpochOrder
    ) -> None:
        self._cluster = cluster
        self._order = order
        self.wired = cluster.wired
        self.options = options
        self.lanes = lanes
        self.key_groups = cluster.key_groups
        placed = order.placement
        self.lane_of = placed.lane_of if placed else lanes_by_group(lanes, cluster.key_groups)
        self._sent: dict[int, dict[int, dict[str, list[Batch]]]] = {}
        self._opened: dict[Place, Snapshot] = {}
        self._lookups = Lookups(
            cluster.global_topics.views(order.now_ms),
            AnyKeyReader(cluster.plan.stores, self._any_group, cluster.key_groups),
        )

    def run(self, result: JobResult) -> None:
        """Run the stages in order."""
        first, *others = self._cluster.plan.stages
        markers: list[RangeReport] = []
        for task in range(len(self._order.ranges)):
            report = TaskReport(stage=first.index, task=task)
            for runner in SourceTask(self, self._order, report).run():
                self._gather(result, runner.take_output())
            result.counters.update(report.counters)
            result.reports.append(report)
            markers += report.ranges
        for stage in others:
            sent = self._sent.get(stage.index, {})
            for lane in range(self.lanes):
                report = TaskReport(stage=stage.index, task=lane)
                self.begin_lane(stage, lane)
                task = LaneTask(self, self._order, report, sent.get(lane, {}), markers)
                if not task.is_idle:
                    self._run_lane(result, task, report)
        result.rows = in_record_order(result.rows, spread=True)

    def begin_lane(self, stage: Stage, lane: int) -> None:
        """Do nothing: every lane has the same options."""

    def _run_lane(self, result: JobResult, task: LaneTask, report: TaskReport) -> None:
        logged: dict[int, dict[str, Rows]] = {}
        for given in task.run():
            if isinstance(given, LoggedRows):
                logged.setdefault(given.group, {})[given.store] = given.rows
            else:
                self._gather(result, given)
        for group in report.wrote:
            result.changes[report.stage, group] = logged.get(group, {})
        result.reports.append(report)

    def _gather(self, result: JobResult, output: StageOutput) -> None:
        result.rows += output.rows
        result.dead_letters.append(output.dead_letters)
        result.counters.update(output.counters)
        for name, batches in output.exchanges.items():
            for batch in batches:
                self._send(self.wired.exchanges[name], batch)

    def _send(self, exchange: Exchange, batch: Batch) -> None:
        """Send each row, encoded, to the lane of its key."""
        assert batch.key_bytes is not None
        lanes = self._sent.setdefault(exchange.target, {})
        suffix = exchange.key.group_suffix
        for lane, rows in rows_by_lane(batch.key_bytes, self.lane_of, suffix=suffix):
            part = batch if rows is None else batch.take(rows)
            order = part.order if exchange.ordered else None
            travelled = part.with_origins(order, raws=exchange.raw)
            lanes.setdefault(lane, {}).setdefault(exchange.name, []).append(travelled)

    def chunks(self, source_range: SourceRange, *, goes_on: bool) -> Iterator[RawChunk]:
        """Read a topic."""
        del goes_on
        topic = self._cluster.plan.topics[source_range.topic_index]
        rows = self._cluster.inputs[topic][source_range.start : source_range.end]
        headers = [row.headers for row in rows]
        yield RawChunk(
            list(range(source_range.start, source_range.end)),
            [row.key for row in rows],
            [row.value for row in rows],
            [row.timestamp for row in rows],
            headers if any(headers) else None,
        )

    def begin_batch(self, source_range: SourceRange, offsets: Sequence[int]) -> None:
        """Do nothing: no supervisor watches this process."""

    def lookups(self, stage: Stage, restored: dict[str, int]) -> AbstractContextManager[Lookups]:
        """Return the lookups, shared by all stages of the epoch."""
        del stage, restored
        return nullcontext(self._lookups)

    def open_groups(
        self, stage: Stage, groups: Sequence[int], restored: dict[str, int]
    ) -> Iterator[LaneGroup]:
        """Open key groups in their committed state."""
        del restored
        for group in groups:
            committed = self._cluster.committed((stage.index, group))
            environment = self._cluster.environment((stage.index, group))
            yield LaneGroup(environment, committed, environment.snapshot(committed))

    def _any_group(self, stage: int, group: int) -> Snapshot:
        """Return the state of a place after the previous epoch, for steps that read any key."""
        place = stage, group
        if place not in self._opened:
            cluster = self._cluster
            snapshot = cluster.environment(place).snapshot(cluster.committed(place))
            self._opened[place] = snapshot
        return self._opened[place]

    def close(self) -> None:
        """Close what was opened."""
        for snapshot in self._opened.values():
            snapshot.close()
