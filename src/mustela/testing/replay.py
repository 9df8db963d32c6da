"""One epoch of the past, run again in this process: the kernel of the test driver on its input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from mustela.api.handlers import app_handlers, wants_raws
from mustela.config.settings import Settings, app_configs
from mustela.errors import DataError, EnvironmentFault
from mustela.kernel.core.options import KernelOptions
from mustela.plan.batch import Batch
from mustela.plan.epoch import EpochOrder, Placement
from mustela.plan.plan import Plan, Stage
from mustela.plan.ranges import RawChunk, SourceRange
from mustela.runtime.record.history_row import HistoryRow, due_of, event_time_of, lane_name
from mustela.runtime.time.watermark import WatermarkState, topic_options, watermark_options
from mustela.state.interfaces import Committed, Token
from mustela.state.memory import MemoryEnvironment
from mustela.testing.cluster import (
    JobResult,
    MemoryCluster,
    Place,
    dead_letter_rows,
    sink_rows,
)
from mustela.testing.job import Job
from mustela.testing.row import BrokerRow
from mustela.testing.taped_calls import TapedDesk

__all__ = ["InputChangedError", "Replayed", "Then", "replay"]

OnRows = Callable[[str, Batch], None]


class InputChangedError(EnvironmentFault):
    """A source does not hold the records that the epoch read."""

    code = "HISTORY_INPUT"


class Then(Protocol):
    """What can be asked about the time before an epoch; see `mustela.runtime.replica.past`."""

    def input(self, topic: str, partition: int, start: int, end: int) -> Iterable[RawChunk]:
        """Read a range of a source."""
        ...

    def log(self, log: str, group: int, end: int) -> Sequence[tuple[bytes, bytes | None]]:
        """Return what a changelog held before an offset."""
        ...

    def sink_partitions(self, plan: Plan) -> Mapping[str, int]:
        """Return how many partitions the topics of sinks have."""
        ...


@dataclass(slots=True, kw_only=True)
class Replayed:
    """What an epoch gives.

    Attributes:
        rows: Rows for the topics of sinks, and dead letters, in order.
        changes: By store and key, the new value in the store as bytes, or None if it is deleted.
        records: How many records were read.
        counters: Counts by name.
        unlogged: Stores without a changelog, which were empty before it.
        calls: Calls that the epoch had not made, and that have no result here.
        error: The error that it failed with.
    """

    rows: list[BrokerRow] = field(default_factory=list[BrokerRow])
    changes: dict[tuple[str, bytes], bytes | None] = field(
        default_factory=dict[tuple[str, bytes], "bytes | None"]
    )
    records: int = 0
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    unlogged: tuple[str, ...] = ()
    calls: Collection[str] = ()
    error: DataError | None = None


def replay(
    row: HistoryRow,
    plan: Plan,
    settings: Settings,
    then: Then,
    *,
    exact: bool = True,
    on_rows: OnRows | None = None,
) -> Replayed:
    """Run an epoch again; nothing is written, and no call to the outside is made.

    Args:
        row: The epoch.
        plan: The program: the one that ran then, or another version of it.
        settings: Its settings, under the application's id.
        then: The time before the epoch.
        exact: Whether the sources must hold as many records as were read then.
        on_rows: Called with a step's name and the rows that it forwards.

    Raises:
        InputChangedError: If a source does not hold what was read then.
    """
    plan = plan.with_topics(topic for topic in row.topics if topic not in plan.topics)
    cluster = _PastCluster(plan, settings, row, then)
    unknown: set[str] = set()
    job = _PastJob(cluster, _options(row, plan, settings, then, on_rows), row, unknown)
    result = JobResult(job.order.token, watermark=WatermarkState(), now_ms=row.now_ms)
    made = Replayed(calls=unknown)
    try:
        job.run(result)
    except DataError as error:
        made.error = error
        return made
    finally:
        job.close()
        made.records = job.records
    if exact and row.read:
        _check_read(row, result)
    made.rows = [one for columns in result.rows for one in sink_rows(columns)]
    for letters in result.dead_letters:
        made.rows += dead_letter_rows(letters, settings.dead_letter_topic)
    for changes in result.changes.values():
        for store, rows in changes.items():
            made.changes.update({(store, key): value for key, value in rows})
    made.counters = dict(result.counters)
    made.unlogged = tuple(
        store.name for stage in plan.stages for store in stage.stores if not store.logged
    )
    return made


def _options(
    row: HistoryRow, plan: Plan, settings: Settings, then: Then, on_rows: OnRows | None
) -> KernelOptions:
    return KernelOptions(
        emit=settings.emit,
        event_time=settings.event_time,
        key_groups=row.key_groups,
        **dict[str, Any](app_handlers(settings)),
        letter_raws=wants_raws(node.on_error for node in plan.nodes),
        topic_partitions=then.sink_partitions(plan),
        late_letters=plan.late_letters,
        application_id=settings.application_id,
        app_configs=app_configs(settings),
        call_wait_ms=0,
        on_rows=on_rows,
    )


def _check_read(row: HistoryRow, result: JobResult) -> None:
    """Refuse an input that is not what was read.

    Raises:
        InputChangedError: If it is not.
    """
    known = {(one.topic_index, one.partition, one.start): one.records for one in row.read}
    names = row.topics
    for report in result.reports:
        for one in report.ranges:
            there = known.get((one.topic_index, one.partition, one.start))
            if there is not None and there != one.records:
                what = (
                    f"{names[one.topic_index]}-{one.partition} holds {one.records} records from"
                    f" offset {one.start} on, where epoch {row.epoch} read {there}"
                )
                why = "the topic is compacted, or records of it were deleted"
                fix = "replay a later epoch; min.compaction.lag.ms of the topic keeps its records"
                raise InputChangedError(what, why=why, fix=fix)


class _PastCluster(MemoryCluster):
    """The durable side as it was before an epoch; key groups are restored when they are opened."""

    def __init__(self, plan: Plan, settings: Settings, row: HistoryRow, then: Then) -> None:
        super().__init__(
            plan,
            application_id=settings.application_id,
            key_groups=row.key_groups,
            dead_letter_topic=settings.dead_letter_topic,
            watermark=watermark_options(settings),
        )
        self.row = row
        self.then = then
        self._log_names = plan.log_names
        for topic, mark in row.global_marks.items():
            for partition, end in enumerate(mark.ends):
                for chunk in then.input(topic, partition, 0, end):
                    for one in _rows(topic, partition, chunk):
                        self.global_topics.append(one)

    def committed(self, place: Place) -> Committed:
        """Return the state of a place before the epoch."""
        stage, group = self.plan.stages[place[0]], place[1]
        none = [0] * self.key_groups
        ends = {
            store: self.row.changelog_ends.get(self._log_names.get(store, store), none)[group]
            for store in stage.logged
        }
        if not any(ends.values()):
            return Committed(changelog_ends=ends)
        before = Token(self.row.incarnation, self.row.epoch - 1, 0)
        return Committed(token=before, changelog_ends=ends, time_ms=self.row.now_ms)

    def environment(self, place: Place) -> MemoryEnvironment:
        """Return an environment in that state."""
        environment, committed = self.environments[place], self.committed(place)
        if environment.condition(committed).ready:
            return environment
        for store, end in committed.changelog_ends.items():
            rows = self.then.log(self._log_names.get(store, store), place[1], end)
            environment.restore(store, rows, end)
        environment.finish_restore(committed)
        return environment


def _rows(topic: str, partition: int, chunk: RawChunk) -> Iterator[BrokerRow]:
    headers = chunk.headers or [()] * len(chunk)
    columns = zip(chunk.keys, chunk.values, chunk.timestamps, headers, strict=True)
    for key, value, stamp, own in columns:
        yield BrokerRow(topic, key, value, stamp, own, partition)


class _PastJob(Job):
    """The job of an epoch of the past."""

    def __init__(
        self, cluster: _PastCluster, options: KernelOptions, row: HistoryRow, unknown: set[str]
    ) -> None:
        plan = cluster.plan
        index = {topic: at for at, topic in enumerate(plan.topics)}
        topics = {at: index[name] for at, name in enumerate(row.topics) if name in index}
        strategies = topic_options(plan, cluster.watermark.options)
        custom = {
            index[topic]: rule.custom
            for topic, rule in strategies.items()
            if rule.custom is not None and topic in index
        }
        self.order = EpochOrder(
            token=Token(row.incarnation, row.epoch, row.attempt),
            ranges=tuple(
                tuple(
                    one._replace(topic_index=topics[one.topic_index])
                    for one in part
                    if one.topic_index in topics
                )
                for part in row.ranges
            ),
            marks={},
            now_ms=row.now_ms,
            event_time=event_time_of(row, topics, custom),
            due=due_of(row, plan),
            global_marks=row.global_marks,
            left_out=tuple(
                one._replace(topic_index=topics[one.topic_index])
                for one in row.left_out
                if one.topic_index in topics
            ),
            placement=Placement(tuple(row.lane_of), ()) if row.lane_of else None,
        )
        self.records = 0
        self._row = row
        self._then = cluster.then
        self._plain = options
        self._unknown = unknown
        super().__init__(cluster, options, row.lanes, self.order)

    def begin_lane(self, stage: Stage, lane: int) -> None:
        """Let the steps of a lane have the results of the calls that it made then."""
        tapes = (self._row.calls or {}).get(lane_name(stage, lane), {})
        self.options = replace(self._plain, calls=TapedDesk(tapes, self._unknown))

    def chunks(self, source_range: SourceRange, *, goes_on: bool) -> Iterator[RawChunk]:
        """Read a range of a source."""
        del goes_on
        topic = self.wired.plan.topics[source_range.topic_index]
        for chunk in self._then.input(
            topic, source_range.partition, source_range.start, source_range.end
        ):
            self.records += len(chunk)
            yield chunk
