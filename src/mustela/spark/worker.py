"""What Spark's Python workers run: the source tasks, the lane tasks, and the restore tasks.

This is the road of a record on an executor. A source task reads its offset ranges, decodes, runs
the stateless steps and sends records to the lanes of their keys. A lane task merges what it got in
order, runs the stateful steps over its key groups, and writes the pendings. Rows for Kafka ride
along to the driver, which alone commits.

A task that fails does not fail its Spark job: it says so in its report, and the lanes behind it
write nothing. A job fails only when a process dies.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from math import inf
from typing import Any, NamedTuple

from pyspark import TaskContext
from pyspark.core.broadcast import Broadcast

from mustela.errors import InvariantError
from mustela.faultpoints import reach
from mustela.kernel.lane_state import LaneState
from mustela.kernel.left_out import leave_out, spans_of
from mustela.kernel.split_order import mend_order
from mustela.kernel.stage import StageRunner, collection_paused
from mustela.plan.batch import Batch, SourceChunk
from mustela.plan.epoch import EpochOrder, Program, RestoreOrder, TaskReport
from mustela.plan.keygroups import lanes_by_group, row_groups
from mustela.plan.plan import Exchange
from mustela.plan.ranges import RangeReport, RawChunk, SourceRange
from mustela.plan.time import NEVER, EpochTime
from mustela.plan.watermark import epoch_time
from mustela.spark.any_key import any_key_reader
from mustela.spark.busy import Kind
from mustela.spark.changelogs import tell_place
from mustela.spark.frames import (
    EXCHANGE,
    MARKERS,
    REPORT,
    Frame,
    dump_object,
    load_object,
    pack,
    unpack,
    unpack_batch,
)
from mustela.spark.global_tables import global_views
from mustela.spark.lanes import LaneEnvironments, end_reading, make_current, read_ahead
from mustela.spark.outbox import Outbox, Parcel, failure_of
from mustela.spark.process import Process, current
from mustela.spark.shipment import Shipment
from mustela.spark.spool import SpoolReader
from mustela.state.interfaces import Committed
from mustela.state.resident import let_go_of_mapped_files
from mustela.state.stored_value import StoredValueError

__all__ = [
    "RESTORE",
    "SETTLE",
    "TIDY",
    "OnPlace",
    "begin_task",
    "deliver",
    "lane_parcels",
    "lane_task",
    "places_task",
    "source_parcels",
    "source_task",
]

_LANE = struct.Struct("!q")


class TaskRetriedError(InvariantError):
    """Spark ran a task a second time; an epoch must be run again whole."""

    code = "TASK_RETRIED"


def begin_task(rows: Iterable[object]) -> None:
    """Begin a task that has no input.

    Spark uses a worker again only if the task before read its input to the end.

    Raises:
        TaskRetriedError: If Spark ran the task before.
    """
    _refuse_retry()
    _exhaust(rows)


def _refuse_retry() -> None:
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        msg = "Spark retried a task of an epoch"
        raise TaskRetriedError(
            msg,
            why="a part of a job whose other parts were used could lose or double rows",
            fix="leave spark.task.maxFailures at 1",
        )


def _exhaust(rows: Iterable[object]) -> None:
    """Read the empty input of a task to its end, else Spark does not use the worker again."""
    for _ in rows:
        pass


def deliver(parcels: Iterator[Parcel], *, shuffled: bool) -> Iterator[bytes]:
    """Yield what Spark expects: lane and frame for a shuffle, else only the frame."""
    with collection_paused():
        for lane, frame in parcels:
            if shuffled:
                yield _LANE.pack(lane)
            yield frame


def source_task(
    program: Broadcast[Shipment], order: EpochOrder, task: int, rows: Iterable[object]
) -> Iterator[bytes]:
    """Read this task's ranges and run the source stage over them."""
    begin_task(rows)
    process = current(program.value)
    shuffled = len(process.program.plan.stages) > 1
    return deliver(source_parcels(process, order, task), shuffled=shuffled)


def source_parcels(process: Process, order: EpochOrder, task: int) -> Iterator[Parcel]:
    """Yield what one source task sends."""
    process.watermark = order.event_time.before
    outbox = Outbox(process, order, 0, task)
    report = outbox.report
    started = time.perf_counter()
    process.note.begin(0, task)
    try:
        options = process.options
        topics = process.program.plan.topics
        stage = process.program.plan.stages[0]
        before = order.event_time.before
        time_now = EpochTime(before=before, watermark=before, now_ms=order.now_ms)
        with (
            global_views(process, order, stage) as views,
            any_key_reader(process, order, stage, report.restored) as any_key,
        ):
            runner = StageRunner(
                stage,
                topics=topics,
                options=options,
                time=time_now,
                global_tables=views,
                any_key=any_key,
            )
            ranges = order.ranges[task]
            for source_range, following in zip_longest(ranges, ranges[1:]):
                goes_on = following is not None and following.continues(source_range)
                yield from _read_range(outbox, runner, source_range, goes_on=goes_on)
            runner.finish()
            process.note.at()
            yield from outbox.send(runner.take_output())
    except Exception as error:  # noqa: BLE001 - the report carries it to the driver
        report.failure = failure_of(error)
    finally:
        process.note.at()
        process.reader.drop_ahead()
        let_go_of_mapped_files()
    report.seconds["source"] = time.perf_counter() - started
    if len(process.program.plan.stages) > 1:
        yield from outbox.markers(report.ranges, failed=report.failure is not None)
    yield from outbox.finish()


_BATCH_UNTIL_MOMENT = 1_000
"""Records taken at once from a range that ends at a moment, which nobody knows the offset of."""


def _read_range(
    outbox: Outbox,
    runner: StageRunner,
    source_range: SourceRange,
    *,
    goes_on: bool,
) -> Iterator[Parcel]:
    process, order = outbox.process, outbox.order
    program = process.program
    topic = program.plan.topics[source_range.topic_index]
    floor, records, size, future, first_ms, leader = source_range.floor, 0, 0, 0, -1, -1
    end, stopped = source_range.end, None
    chunks = process.reader.read(
        topic,
        source_range.partition,
        source_range.start,
        source_range.end,
        max_batch=_batch_records(program, source_range),
        goes_on=goes_on,
    )
    note, task = process.note, outbox.report.task
    place = source_range.topic_index, source_range.partition
    spans = spans_of(order, source_range)
    for raw in chunks:
        leader = raw.leader_epoch
        if spans:
            yield from outbox.send(leave_out(raw, spans))
            if not raw.offsets:
                continue
        note.batch(0, task, place, raw.offsets or (source_range.start,))
        chunk, read = _decode(program, runner, source_range, raw, floor)
        stopped = None if source_range.until == NEVER else chunk.reaches(source_range.until)
        if stopped is not None:
            end = raw.offsets[stopped[0]]
            raw.cut(stopped[0])
            runner.take_output()  # of records that another epoch reads
            chunk, read = _decode(program, runner, source_range, raw, floor)
        records += len(raw.offsets)
        size += _size(raw)
        counting, ahead = chunk.counting()  # behind decoding, which may take times from values
        if first_ms < 0 and counting:
            first_ms = max(floor, counting[0])
        floor = max(floor, max(counting, default=-1))
        future += ahead
        for name, batch in read.items():
            runner.run({name: batch})
        note.at(Kind.READ)
        yield from outbox.send(runner.take_output())
        reach("in-source")
        if stopped is not None:
            break
    outbox.report.ranges.append(
        RangeReport(
            source_range.topic_index,
            source_range.partition,
            source_range.start,
            end,
            records,
            floor,
            size,
            future,
            -1 if stopped is None else stopped[1],
            first_ms,
            leader,
        )
    )
    if future:
        counters = outbox.report.counters
        name = f"future_records:{topic}"
        counters[name] = counters.get(name, 0) + future


def _batch_records(program: Program, source_range: SourceRange) -> int:
    """Return how many records to take at once: few where what is too many is read in vain."""
    if source_range.until == NEVER:
        return program.batch_records
    return min(program.batch_records, _BATCH_UNTIL_MOMENT)


def _decode(
    program: Program, runner: StageRunner, source_range: SourceRange, raw: RawChunk, floor: int
) -> tuple[SourceChunk, dict[str, Batch]]:
    """Return a chunk and, for each source that reads it, its rows."""
    topic = program.plan.topics[source_range.topic_index]
    chunk = SourceChunk(
        topics=program.plan.topics,
        topic_index=source_range.topic_index,
        partition=source_range.partition,
        offsets=raw.offsets,
        timestamps=raw.timestamps,
        floor=floor,
        headers=raw.headers,
        latest=source_range.latest,
    )
    sources = [source for source in program.plan.stages[0].sources if topic in source.topics]
    read = {s.name: runner.decode(s.name, chunk, raw.keys, raw.values) for s in sources}
    return chunk, read


def _size(raw: RawChunk) -> int:
    return _bytes_in(raw.keys) + _bytes_in(raw.values)


def _bytes_in(column: Sequence[Any]) -> int:
    try:
        return sum(map(len, column))
    except TypeError:  # None has no length; to look for it first takes longer
        return sum(len(item) for item in column if item is not None)


def lane_task(
    program: Broadcast[Shipment],
    order: EpochOrder,
    stage: int,
    lane: int,
    frames: Iterable[bytes],
) -> Iterator[bytes]:
    """Run one lane of a stage over what the stages before sent it."""
    _refuse_retry()
    process = current(program.value)
    last = stage == len(process.program.plan.stages) - 1
    return deliver(lane_parcels(process, order, stage, lane, frames), shuffled=not last)


def lane_parcels(
    process: Process, order: EpochOrder, stage: int, lane: int, frames: Iterable[bytes]
) -> Iterator[Parcel]:
    """Yield what one lane of a stage sends; frames for later stages and the driver pass through."""
    process.watermark = order.event_time.before
    outbox = Outbox(process, order, stage, lane)
    report = outbox.report
    started = time.perf_counter()
    mine: list[Frame] = []
    markers: list[RangeReport] = []
    failed = False
    for data in frames:
        frame = unpack(data)
        if frame.stage != stage:
            yield lane, data
            continue
        if frame.kind == MARKERS:
            ranges, bad = load_object(frame.body)
            markers.extend(ranges)
            failed = failed or bad
        else:
            mine.append(frame)
    report.seconds["wait"] = time.perf_counter() - started
    if not failed:
        process.note.begin(stage, lane)
        try:
            process.note.at(Kind.DECODE)
            inputs = _inputs(process, order, mine, markers)
            time_now = epoch_time(order.event_time, markers, order.now_ms)
            yield from _run_lane(process, order, outbox, inputs, time_now)
        except Exception as error:  # noqa: BLE001 - the report carries it to the driver
            report.failure = failure_of(error)
        finally:
            process.note.at()
    report.seconds["lane"] = time.perf_counter() - started
    if stage < len(process.program.plan.stages) - 1:
        bad = failed or report.failure is not None
        body = dump_object((markers if lane == 0 else [], bad))
        for target in range(process.program.lanes):
            yield target, pack(Frame(MARKERS, stage + 1, stage, lane, 1 << 30, "", body))
    yield from outbox.finish()


def _run_lane(
    process: Process,
    order: EpochOrder,
    outbox: Outbox,
    inputs: dict[str, Batch],
    time_now: EpochTime,
) -> Iterator[Parcel]:
    program = process.program
    stage = program.plan.stages[outbox.report.stage]
    environments = LaneEnvironments(
        process, stage.index, order.marks.get(stage.index, ()), suspect=order.suspect
    )
    groups: set[int] = set()
    if stage.stores:
        for name, batch in inputs.items():
            suffix = process.exchanges[name].key.group_suffix
            groups.update(row_groups(batch.key_bytes or (), program.key_groups, suffix=suffix))
        groups.update(_due(process, order, outbox.report, time_now))
    try:
        with (
            global_views(process, order, stage) as views,
            any_key_reader(process, order, stage, outbox.report.restored) as any_key,
        ):
            runner = StageRunner(
                stage,
                topics=program.plan.topics,
                options=process.options,
                state=LaneState(environments.open(groups), key_groups=program.key_groups),
                time=time_now,
                global_tables=views,
                any_key=any_key,
            )
            runner.run(inputs)
            runner.finish()
            process.note.at()
        if stage.acts_on_time:
            outbox.report.due.update(runner.due_times(groups))
        yield from outbox.send(runner.take_output())
        reach("in-lane-before-pending")
        changes = 0
        for group, store, rows in environments.write(order.token):
            changes += len(rows)
            yield outbox.changelog(store, group, rows)
        outbox.report.wrote.extend(environments.wrote)
        outbox.report.counters["changelog-rows"] = changes
        reach("in-lane-after-pending")
    except StoredValueError as error:
        tell_place(process, stage, order.marks.get(stage.index, ()), error)
        raise
    finally:
        outbox.report.restored.update(environments.restored)
        environments.close()
        let_go_of_mapped_files()


def _due(process: Process, order: EpochOrder, report: TaskReport, time_now: EpochTime) -> set[int]:
    """Return the key groups of a lane that want to run though no record comes to them."""
    program = process.program
    lane_of_group = lanes_by_group(program.lanes, program.key_groups)
    due = time_now.due_groups(order.due.get(report.stage, ()))
    return {group for group in due if lane_of_group[group] == report.task}


def _inputs(
    process: Process, order: EpochOrder, frames: list[Frame], markers: list[RangeReport]
) -> dict[str, Batch]:
    """Return each input as one batch, merged in order where order matters."""
    by_exchange: dict[str, list[Frame]] = {}
    for frame in frames:
        assert frame.kind == EXCHANGE, frame.kind
        by_exchange.setdefault(frame.name, []).append(frame)
    inputs: dict[str, Batch] = {}
    for name, received in by_exchange.items():
        exchange = process.exchanges[name]
        received.sort(key=lambda frame: frame.place)
        topics = process.program.plan.topics
        with SpoolReader() as spools:
            bodies = (spools.fetch_bytes(frame.body) for frame in received)
            batches = [unpack_batch(body, topics) for body in bodies]
        if exchange.ordered:
            keyed = (_with_keys(batch, exchange) for batch in batches)
            batches = [mend_order(batch, order.ranges, markers) for batch in keyed]
            inputs[name] = Batch.merge(batches)
        else:
            inputs[name] = _with_keys(Batch.concatenate(batches), exchange)
    return inputs


def _with_keys(batch: Batch, exchange: Exchange) -> Batch:
    """Make the keys from their bytes."""
    if batch.key_bytes is not None:
        batch.keys = exchange.key.deserialize_many(batch.key_bytes)
    return batch


_COMPACTED_AT_STOP_BYTES = 16 << 20
"""Larger key groups are not rewritten when the application stops: it should not take long."""


class OnPlace(NamedTuple):
    """What a task does with the key groups of stages, one after the other.

    Attributes:
        act: Does it with one key group.
        ahead: Is told of the key group that comes next, before ``act`` has this one.
        seconds: After so many no further key group is begun.
    """

    act: Callable[[Process, int, int, Committed, TaskReport], None]
    ahead: Callable[[Process, int, int, Committed], None] | None = None
    seconds: float = inf


def places_task(
    work: OnPlace,
    program: Broadcast[Shipment],
    order: RestoreOrder,
    shares: Sequence[Sequence[tuple[int, int]]],
    task: int,
    rows: Iterable[object],
) -> Iterator[bytes]:
    """Do something for the key groups of this task, one after the other, and report it."""
    _exhaust(rows)
    places = shares[task]
    process = current(program.value)
    process.watermark = order.watermark
    plan = process.program.plan
    report = TaskReport(stage=-1, task=task)
    try:
        if order.suspect:
            process.weed_out(places)
        todo = [
            (stage, group, order.marks[stage][group].committed(plan.stages[stage].logged))
            for stage, group in places
        ]
        started = time.perf_counter()
        for number, place in enumerate(todo, 1):
            if number > 1 and time.perf_counter() - started >= work.seconds:
                break
            if work.ahead is not None and number < len(todo):
                work.ahead(process, *todo[number])
            work.act(process, *place, report)
    except Exception as error:  # noqa: BLE001 - the report carries it to the driver
        report.failure = failure_of(error)
    finally:
        if work.ahead is not None:
            end_reading(process)
    yield pack(Frame(REPORT, -1, -1, task, 0, "", dump_object(report)))


def _restore_place(
    process: Process, stage: int, group: int, committed: Committed, report: TaskReport
) -> None:
    """Bring a key group to the committed state."""
    _, read = make_current(process, stage, group, committed)
    for store, count in read.items():
        report.restored[store] = report.restored.get(store, 0) + count
    report.wrote.append(group)


def _settle_place(
    process: Process, stage: int, group: int, committed: Committed, report: TaskReport
) -> None:
    """Fold, sync and close a key group; before a clean stop."""
    environment = process.environment(stage, group)
    if environment.condition(committed).ready:
        environment.fold(committed)
        environment.compact(live_bytes_max=_COMPACTED_AT_STOP_BYTES)
        environment.close(clean=True)
        report.wrote.append(group)


def _tidy_place(
    process: Process, stage: int, group: int, committed: Committed, report: TaskReport
) -> None:
    """Give back the disk that a key group does not need."""
    environment = process.environment(stage, group)
    if environment.condition(committed).ready:
        environment.fold(committed)
        if environment.compact():
            report.wrote.append(group)


_ROUND_S = 2.0
"""How long a task restores before it says how far it is."""

RESTORE = OnPlace(_restore_place, read_ahead, _ROUND_S)
"""Bring key groups to the committed state, as many as there is time for."""

SETTLE = OnPlace(_settle_place)
"""Fold, sync and close key groups before a clean stop."""

TIDY = OnPlace(_tidy_place)
"""Give back the disk that key groups do not need."""
