"""The tasks of an epoch, the same for every engine.

A source task reads its ranges chunk by chunk: it decodes the records and runs the steps that need
no state. A lane task merges in order what was sent to it, runs the stateful steps over its key
groups, and writes the pendings. An engine supplies their input and takes their output, through a
`TaskSite`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final, NamedTuple, Protocol

from mustela.faultpoints import reach
from mustela.kernel.calls.tape import KeepingDesk
from mustela.kernel.core.any_key import AnyKeyReader
from mustela.kernel.core.lane_state import LaneState
from mustela.kernel.core.left_out import leave_out, spans_of
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.split_order import mend_order
from mustela.kernel.stage import StageRunner
from mustela.kernel.wiring import WiredPlan
from mustela.plan.batch import Batch, SourceChunk
from mustela.plan.epoch import EpochOrder, TaskReport
from mustela.plan.keygroups import row_groups, schedule_group
from mustela.plan.plan import Exchange, Plan, Stage
from mustela.plan.ranges import RangeReport, RawChunk, SourceRange
from mustela.plan.time import NEVER, EpochTime
from mustela.plan.watermark import epoch_time
from mustela.state.interfaces import Committed, Environment, Rows, Snapshot
from mustela.state.overlay import Overlay

__all__ = ["LaneGroup", "LaneTask", "LoggedRows", "Lookups", "SourceTask", "TaskSite"]

_KEYS_AT_A_TIME: Final = 1_000
"""Of so many keys the groups are found, until all groups of the lane are."""


class Lookups(NamedTuple):
    """What the steps of a task can look up besides the state of their lane.

    Attributes:
        global_tables: The copies of global tables, by store.
        any_key: Reads any key of any store; None if no step does.
    """

    global_tables: Mapping[str, Any]
    any_key: AnyKeyReader | None


class LaneGroup(NamedTuple):
    """A key group that a lane has opened.

    Attributes:
        environment: Where its pending is written.
        committed: What was committed when the epoch began.
        snapshot: A view of that.
    """

    environment: Environment
    committed: Committed
    snapshot: Snapshot


class LoggedRows(NamedTuple):
    """Rows for the changelog of one store in one key group."""

    group: int
    store: str
    rows: Rows


class TaskSite(Protocol):
    """What an engine provides for the tasks of an epoch."""

    @property
    def wired(self) -> WiredPlan:
        """The plan to run."""
        ...

    @property
    def lane_of(self) -> Sequence[int]:
        """The lane of each key group."""
        ...

    @property
    def key_groups(self) -> int:
        """Number of key groups."""
        ...

    @property
    def options(self) -> KernelOptions:
        """The kernel's options."""
        ...

    def chunks(self, source_range: SourceRange, *, goes_on: bool) -> Iterable[RawChunk]:
        """Read a range.

        Args:
            source_range: The range.
            goes_on: Whether the task's next range begins where this one ends.
        """
        ...

    def begin_batch(self, source_range: SourceRange, offsets: Sequence[int]) -> None:
        """Called with the records that are decoded and handled next."""
        ...

    def lookups(self, stage: Stage, restored: dict[str, int]) -> AbstractContextManager[Lookups]:
        """Open what the steps of a stage look up, for the duration of a task.

        Args:
            stage: The stage.
            restored: Filled with the number of records read from changelogs, by store.
        """
        ...

    def open_groups(
        self, stage: Stage, groups: Sequence[int], restored: dict[str, int]
    ) -> Iterable[LaneGroup]:
        """Open key groups of a stage, in this order; ``restored`` as for `lookups`."""
        ...


def _runner(
    site: TaskSite,
    stage: Stage,
    time: EpochTime,
    lookups: Lookups,
    state: LaneState | None = None,
    options: KernelOptions | None = None,
) -> StageRunner:
    return StageRunner(
        stage,
        topics=site.wired.plan.topics,
        options=options or site.options,
        state=state,
        time=time,
        global_tables=lookups.global_tables,
        any_key=lookups.any_key,
        wiring=site.wired.wirings[stage.index],
    )


class SourceTask:
    """A task of the first stage.

    Args:
        site: What the engine provides.
        order: The epoch.
        report: The task's report, filled with what it saw.
    """

    def __init__(self, site: TaskSite, order: EpochOrder, report: TaskReport) -> None:
        self._site = site
        self._order = order
        self._report = report

    def run(self) -> Generator[StageRunner]:
        """Read the ranges, and yield the stage after each chunk and at the end.

        The caller takes the output of the stage then, or lets it accumulate.
        """
        order, report = self._order, self._report
        stage = self._site.wired.plan.stages[0]
        before = order.event_time.before
        time = EpochTime(before=before, watermark=before, now_ms=order.now_ms)
        with self._site.lookups(stage, report.restored) as lookups:
            runner = _runner(self._site, stage, time, lookups)
            ranges = order.ranges[report.task]
            for source_range, following in zip_longest(ranges, ranges[1:]):
                goes_on = following is not None and following.continues(source_range)
                yield from self._read(runner, source_range, goes_on=goes_on)
            runner.finish()
            yield runner
            runner.measure(report.measured)
            report.traced = runner.spans

    def _read(
        self, runner: StageRunner, source_range: SourceRange, *, goes_on: bool
    ) -> Iterator[StageRunner]:
        order, report = self._order, self._report
        spans = spans_of(order, source_range)
        reading = _Reading(self._site.wired.plan, runner, source_range)
        for raw in self._site.chunks(source_range, goes_on=goes_on):
            reading.leader = raw.leader_epoch
            gone = leave_out(raw, spans)
            if raw.offsets or not gone:
                self._site.begin_batch(source_range, raw.offsets or (source_range.start,))
                reading.take(raw)
            gone.cut(bisect_left(gone.offsets, reading.end))  # those after it belong to the epoch
            runner.give_up(gone, spans)  # that reads that far
            yield runner
            reach("in-source")
            if reading.next_ms >= 0:
                break
        seen = reading.report()
        report.ranges.append(seen)
        if seen.future:
            name = f"future_records:{self._site.wired.plan.topics[source_range.topic_index]}"
            report.counters[name] = report.counters.get(name, 0) + seen.future


class _Reading:
    """A range being read: its chunks go through the stage, and its report is built.

    Attributes:
        end: Offset after the last record read.
        next_ms: The order time of the record at which reading stopped; -1 if it has not stopped.
        leader: The leader epoch of the last record.
    """

    def __init__(self, plan: Plan, runner: StageRunner, source_range: SourceRange) -> None:
        self._topics = plan.topics
        topic = plan.topics[source_range.topic_index]
        self._sources = [s.name for s in plan.stages[0].sources if topic in s.topics]
        self._runner = runner
        self._range = source_range
        self._floor = source_range.floor
        self._records = self._size = self._future = 0
        self._first_ms = self.next_ms = self.leader = -1
        self.end = source_range.end

    def take(self, raw: RawChunk) -> None:
        """Run a chunk through the stage, up to the end of what is to be read."""
        chunk, read = self._decoded(raw)
        until = self._range.until
        stopped = None if until == NEVER else chunk.reaches(until)
        if stopped is not None:
            row, self.next_ms = stopped
            self.end = raw.offsets[row]
            raw.cut(row)
            self._runner.take_output()  # output of records that another epoch reads
            chunk, read = self._decoded(raw)
        self._records += len(raw.offsets)
        self._size += _bytes_in(raw.keys) + _bytes_in(raw.values)
        counting, future = chunk.counting()  # after decoding, which may take times from values
        if self._first_ms < 0 and counting:
            self._first_ms = max(self._floor, counting[0])
        self._floor = max(self._floor, max(counting, default=-1))
        self._future += future
        for name, batch in read.items():
            self._runner.run({name: batch})

    def _decoded(self, raw: RawChunk) -> tuple[SourceChunk, dict[str, Batch]]:
        """Return a chunk and, for each source that reads it, its rows."""
        chunk = SourceChunk(
            topics=self._topics,
            topic_index=self._range.topic_index,
            partition=self._range.partition,
            offsets=raw.offsets,
            timestamps=raw.timestamps,
            floor=self._floor,
            headers=raw.headers,
            latest=self._range.latest,
        )
        decode = self._runner.decode
        return chunk, {name: decode(name, chunk, raw.keys, raw.values) for name in self._sources}

    def report(self) -> RangeReport:
        """Return the report of the range."""
        return RangeReport(
            self._range.topic_index,
            self._range.partition,
            self._range.start,
            self.end,
            self._records,
            self._floor,
            self._size,
            self._future,
            self.next_ms,
            self._first_ms,
            self.leader,
        )


def _bytes_in(column: Sequence[Any]) -> int:
    try:
        return sum(map(len, column))
    except TypeError:  # None has no length; checking for it first is slower
        return sum(len(item) for item in column if item is not None)


class LaneTask:
    """A lane of a later stage.

    Args:
        site: What the engine provides.
        order: The epoch.
        report: The lane's report, with stage and lane set; filled with what was done.
        received: The rows received through each exchange, in the order of their senders and with
            their key bytes.
        markers: What the source tasks saw.
    """

    def __init__(
        self,
        site: TaskSite,
        order: EpochOrder,
        report: TaskReport,
        received: Mapping[str, Iterable[Batch]],
        markers: Sequence[RangeReport],
    ) -> None:
        self._site = site
        self._order = order
        self._report = report
        self._received = received
        self._markers = markers
        self._stage = site.wired.plan.stages[report.stage]
        self._time = epoch_time(order.event_time, markers, order.now_ms, order.triggered)
        self._due = self._due_groups()
        self._open: dict[int, tuple[LaneGroup, Overlay]] = {}

    @property
    def is_idle(self) -> bool:
        """Return whether the lane has nothing to do."""
        return not (self._received or self._due)

    def run(self) -> Generator[StageOutput | LoggedRows]:
        """Yield the lane's output, and then its rows for the changelogs."""
        site, stage, report = self._site, self._stage, self._report
        inputs = {name: self._input(name, batches) for name, batches in self._received.items()}
        groups = self._groups(inputs)
        try:
            with site.lookups(stage, report.restored) as lookups:
                state = LaneState(self._opened(groups), key_groups=site.key_groups)
                options = self._options()
                runner = _runner(site, stage, self._time, lookups, state, options)
                runner.run(inputs)
                inputs.clear()  # what was received need not be held until all is written
                runner.finish()
            if stage.acts_on_time:
                report.due.update(runner.due_times(groups))
            yield runner.take_output()
            runner.measure(report.measured)
            report.traced = runner.spans
            reach("in-lane-before-pending")
            yield from self._write()
            reach("in-lane-after-pending")
        finally:
            for _, overlay in self._open.values():
                overlay.close()

    def _options(self) -> KernelOptions:
        """Return the kernel's options; the report keeps what is learned from calls, if wanted."""
        options = self._site.options
        if options.calls is None or not options.keep_calls:
            return options
        desk = KeepingDesk(options.calls)
        self._report.calls = desk.tapes
        return replace(options, calls=desk)

    def _input(self, name: str, batches: Iterable[Batch]) -> Batch:
        """Return an input as one batch, merged in order where order matters."""
        exchange = self._site.wired.exchanges[name]
        if not exchange.ordered:
            return _with_keys(Batch.concatenate(list(batches)), exchange)
        ranges, markers = self._order.ranges, self._markers
        keyed = (_with_keys(batch, exchange) for batch in batches)
        return Batch.merge([mend_order(batch, ranges, markers) for batch in keyed])

    def _groups(self, inputs: Mapping[str, Batch]) -> list[int]:
        """Return the key groups that have records or need to run without any."""
        groups: set[int] = set()
        if self._stage.stores:
            groups.update(self._due)
            key_groups, own = self._site.key_groups, self._site.lane_of.count(self._report.task)
            for name, batch in inputs.items():
                suffix = self._site.wired.exchanges[name].key.group_suffix
                keys = batch.key_bytes or []
                for start in range(0, len(keys), _KEYS_AT_A_TIME):
                    if len(groups) == own:
                        break  # the lane has no others
                    some = keys[start : start + _KEYS_AT_A_TIME]
                    groups.update(row_groups(some, key_groups, suffix=suffix))
        return sorted(groups)

    def _due_groups(self) -> set[int]:
        """Return the lane's key groups that need to run even without records."""
        key_groups, lane_of = self._site.key_groups, self._site.lane_of
        due = self._time.due_groups(self._order.due.get(self._stage.index, ()))
        for step in self._stage.steps if self._order.triggered else ():
            if step.name in self._order.triggered:
                due.add(schedule_group(step.name, key_groups))
        lane = self._report.task
        return {group for group in due if lane_of[group] == lane}

    def _opened(self, groups: Sequence[int]) -> dict[int, Overlay]:
        opened = self._site.open_groups(self._stage, groups, self._report.restored)
        for group, state in zip(groups, opened, strict=True):
            self._open[group] = state, Overlay(state.snapshot)
        return {group: overlay for group, (_, overlay) in self._open.items()}

    def _write(self) -> Iterator[LoggedRows]:
        """Write the pending of each key group."""
        logged_stores = self._stage.logged
        for group in list(self._open):
            state, overlay = self._open.pop(group)
            changes, known = overlay.changes(), overlay.known()
            overlay.close()
            if not changes:
                continue
            state.environment.write_pending(self._order.token, state.committed, changes, known)
            self._report.wrote.append(group)
            logged = overlay.logged(changes)
            for store in logged_stores:
                if store in logged:
                    yield LoggedRows(group, store, logged[store])


def _with_keys(batch: Batch, exchange: Exchange) -> Batch:
    """Decode the keys from their bytes."""
    if batch.key_bytes is not None:
        batch.keys = exchange.key.deserialize_many(batch.key_bytes)
    return batch
