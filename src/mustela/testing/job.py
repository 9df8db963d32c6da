"""The job of an epoch in one process: every stage, every lane, exchanges in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mustela.kernel.any_key import AnyKeyReader
from mustela.kernel.lane_state import LaneState
from mustela.kernel.options import KernelOptions
from mustela.kernel.output import StageOutput
from mustela.kernel.sink_order import in_record_order
from mustela.kernel.stage import StageRunner
from mustela.model import TopicPartition
from mustela.plan.batch import Batch, SourceChunk
from mustela.plan.epoch import TaskReport
from mustela.plan.keygroups import lanes_by_group, row_groups, schedule_group
from mustela.plan.plan import Exchange, Stage
from mustela.plan.ranges import RangeReport
from mustela.plan.time import Due, EpochTime
from mustela.plan.watermark import epoch_time
from mustela.runtime.watermark import Look
from mustela.state.interfaces import Snapshot
from mustela.state.overlay import Overlay
from mustela.testing.cluster import Cluster, JobResult, Place
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["run_job"]

_Inputs = dict[int, dict[str, list[Batch]]]
"""By lane, then by exchange."""


def run_job(
    cluster: Cluster,
    options: KernelOptions,
    *,
    lanes: int,
    look: Look,
) -> JobResult:
    """Run what no committed epoch has read through every stage, and write the pendings.

    Args:
        cluster: What is durable.
        options: Options of the kernel.
        lanes: Number of lanes.
        look: What is known of the epoch.

    Raises:
        DataError: If a record is bad and its handler is ``fail``; nothing is committed then.
    """
    return _Job(cluster, options, lanes, look).run()


class _Job:
    def __init__(self, cluster: Cluster, options: KernelOptions, lanes: int, look: Look) -> None:
        self._cluster = cluster
        self._options = options
        self._lanes = lanes
        self._topics = cluster.plan.topics
        self._lane_of_group = lanes_by_group(lanes, cluster.key_groups)
        self._look = look
        self._watermark = cluster.watermark.copy()
        self._watermark.track(
            (
                TopicPartition(topic, 0)
                for topic, rows in cluster.inputs.items()
                if len(rows) > cluster.offsets[topic]
            ),
            look.now_ms,
        )
        self._time = EpochTime()
        self._due: Mapping[int, tuple[Due, ...]] = cluster.due.order()
        self._result = JobResult(
            cluster.next_token(), watermark=self._watermark, now_ms=look.now_ms
        )
        self._inputs: dict[int, _Inputs] = {}
        self._global_tables = cluster.global_topics.views(look.now_ms)
        self._opened: dict[Place, Snapshot] = {}
        self._any_key = AnyKeyReader(cluster.plan.stores, self._open, cluster.key_groups)

    def _open(self, stage: int, group: int) -> Snapshot:
        """Return the state of a place behind the epoch before, for steps that read any key."""
        place = stage, group
        if place not in self._opened:
            cluster = self._cluster
            snapshot = cluster.environment(place).snapshot(cluster.committed(place))
            self._opened[place] = snapshot
        return self._opened[place]

    def run(self) -> JobResult:
        """Run the stages in order."""
        try:
            return self._run()
        finally:
            for snapshot in self._opened.values():
                snapshot.close()

    def _run(self) -> JobResult:
        first, *others = self._cluster.plan.stages
        topics = self._cluster.topics
        order = self._watermark.order(topics, self._look)
        before = order.before
        self._time = EpochTime(before=before, watermark=before, now_ms=self._look.now_ms)
        report = TaskReport(stage=0, task=0)
        self._gather(first, self._run_sources(first, report.ranges))
        self._result.reports.append(report)
        self._result.watermark = self._watermark.after(topics, self._look, report.ranges)
        self._time = replace(
            epoch_time(order, report.ranges, self._look.now_ms), triggered=self._look.triggered
        )
        for stage in others:
            received = self._inputs.get(stage.index, {})
            due = self._due_groups(stage)
            for lane in sorted(received.keys() | due.keys()):
                self._run_lane(stage, lane, received.get(lane, {}), due.get(lane, set()))
        self._result.rows = in_record_order(self._result.rows, spread=True)
        return self._result

    def _due_groups(self, stage: Stage) -> dict[int, set[int]]:
        """Return, by lane, the key groups that want to run though no record comes to them."""
        found: dict[int, set[int]] = {}
        groups = self._time.due_groups(self._due.get(stage.index, ()))
        for step in stage.steps:
            if step.name in self._look.triggered:
                groups.add(schedule_group(step.name, self._cluster.key_groups))
        for group in groups:
            found.setdefault(self._lane_of_group[group], set()).add(group)
        return found

    def _run_sources(self, stage: Stage, ranges: list[RangeReport]) -> StageOutput:
        runner = StageRunner(
            stage,
            topics=self._topics,
            options=self._options,
            time=self._time,
            global_tables=self._global_tables,
            any_key=self._any_key,
        )
        for index, topic in enumerate(self._topics):
            unread = self._cluster.inputs[topic][self._cluster.offsets[topic] :]
            if not unread:
                continue
            place, start = TopicPartition(topic, 0), self._cluster.offsets[topic]
            floor = self._watermark.partitions[place].max_timestamp
            headers = [row.headers for row in unread]
            chunk = SourceChunk(
                topics=self._topics,
                topic_index=index,
                partition=0,
                offsets=list(range(start, start + len(unread))),
                timestamps=[row.timestamp for row in unread],
                floor=floor,
                headers=headers if any(headers) else None,
                latest=self._watermark.options_of(topic).latest_ms(self._look.now_ms),
            )
            keys, values = [row.key for row in unread], [row.value for row in unread]
            read = {
                source.name: runner.decode(source.name, chunk, keys, values)
                for source in stage.sources
                if topic in topics_of(source)
            }
            counting, future = chunk.counting()
            top, end = max([floor, *counting]), start + len(unread)
            ranges.append(RangeReport(index, 0, start, end, len(unread), top, 0, future))
            if future:
                self._result.counters[f"future_records:{topic}"] += future
            for name, batch in read.items():
                runner.run({name: batch})
        runner.finish()
        return runner.take_output()

    def _run_lane(
        self, stage: Stage, lane: int, received: Mapping[str, list[Batch]], due: set[int]
    ) -> None:
        exchanges = {e.name: e for s in self._cluster.plan.stages for e in s.exchanges}
        inputs = {name: _joined(exchanges[name], batches) for name, batches in received.items()}
        cluster, groups = self._cluster, set(due)
        if stage.stores:
            for name, batch in inputs.items():
                suffix = exchanges[name].key.group_suffix
                keys = batch.key_bytes or ()
                groups.update(row_groups(keys, cluster.key_groups, suffix=suffix))
        places = [(stage.index, group) for group in sorted(groups)]
        overlays = {
            place[1]: Overlay(cluster.environment(place).snapshot(cluster.committed(place)))
            for place in places
        }
        state = LaneState(overlays, key_groups=cluster.key_groups)
        try:
            runner = StageRunner(
                stage,
                topics=self._topics,
                options=self._options,
                state=state,
                time=self._time,
                global_tables=self._global_tables,
                any_key=self._any_key,
            )
            runner.run(inputs)
            runner.finish()
            if stage.acts_on_time:
                report = TaskReport(stage=stage.index, task=lane, due=runner.due_times(groups))
                self._result.reports.append(report)
            self._gather(stage, runner.take_output())
            changes = state.changes()
            logged = {group: state.logged(group, rows) for group, rows in changes.items()}
        finally:
            state.close()
        for group, rows in changes.items():
            place = stage.index, group
            committed = cluster.committed(place)
            cluster.environments[place].write_pending(self._result.token, committed, rows)
            self._result.changes[place] = logged[group]

    def _gather(self, stage: Stage, output: StageOutput) -> None:
        self._result.rows += output.rows
        self._result.dead_letters.append(output.dead_letters)
        self._result.counters.update(output.counters)
        exchanges = {exchange.name: exchange for exchange in stage.exchanges}
        for name, batches in output.exchanges.items():
            for batch in batches:
                self._send(exchanges[name], batch)

    def _send(self, exchange: Exchange, batch: Batch) -> None:
        """Give each row to the lane of its key; a row without a key goes to key group 0."""
        places: dict[int, list[int]] = {}
        suffix = exchange.key.group_suffix
        groups = row_groups(self._keys(batch), self._cluster.key_groups, suffix=suffix)
        for row, group in enumerate(groups):
            lane = self._lane_of_group[group]
            places.setdefault(lane, []).append(row)
        for lane, rows in places.items():
            target = self._inputs.setdefault(exchange.target, {}).setdefault(lane, {})
            part = batch if len(rows) == len(batch) else batch.take(rows)
            target.setdefault(exchange.name, []).append(part)

    @staticmethod
    def _keys(batch: Batch) -> list[bytes | None]:
        assert batch.key_bytes is not None
        return list(batch.key_bytes)


def _joined(exchange: Exchange, batches: list[Batch]) -> Batch:
    """Return an input as one batch, with what travels and nothing more."""
    travelled: list[Batch] = []
    for batch in batches:
        order = batch.order if exchange.ordered else None
        assert batch.key_bytes is not None
        arrived = batch.with_origins(order, raws=exchange.raw)
        arrived.keys = exchange.key.deserialize_many(batch.key_bytes)
        travelled.append(arrived)
    return Batch.merge(travelled) if exchange.ordered else Batch.concatenate(travelled)


def topics_of(source: SourceNode | TableSourceNode) -> tuple[str, ...]:
    """Return the topics that a source reads."""
    return source.topics if isinstance(source, SourceNode) else (source.topic,)
