"""What Spark's Python workers run: the source tasks, the lane tasks, and the restore tasks.

What source and lane tasks do is in `mustela.kernel.task`, and where they find it in `site`. Here
records become frames for the lanes of their keys, frames become the rows that a lane gets, and rows
for Kafka ride along to the driver, which alone commits.

A task that fails does not fail its Spark job: it says so in its report, and the lanes behind it
write nothing. A job fails only when a process dies.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from math import inf
from typing import NamedTuple

from pyspark import TaskContext
from pyspark.core.broadcast import Broadcast

from mustela.connectors.kafka.changelogs import tell_place
from mustela.connectors.kafka.copies import end_reading, make_current, read_ahead
from mustela.errors import InvariantError
from mustela.kernel.task import LaneTask, LoggedRows, SourceTask
from mustela.plan.batch import Batch
from mustela.plan.epoch import EpochOrder, RestoreOrder, TaskReport
from mustela.plan.ranges import RangeReport
from mustela.processes import collection_paused, queued_seconds
from mustela.spark.busy import Activity
from mustela.spark.frames import (
    EXCHANGE,
    MARKERS,
    OWNED,
    REPORT,
    Frame,
    dump_object,
    load_object,
    pack,
    unpack,
    unpack_batch,
)
from mustela.spark.outbox import Outbox, Parcel, failure_of
from mustela.spark.process import Process, current
from mustela.spark.shipment import Shipment
from mustela.spark.site import WorkerSite
from mustela.spark.spool import SpoolReader
from mustela.spark.tending import is_here
from mustela.state.interfaces import Committed
from mustela.state.resident import let_go_of_mapped_files
from mustela.state.stored_value import StoredValueError

__all__ = [
    "OPEN",
    "RESTORE",
    "SETTLE",
    "OnPlace",
    "PlacesOrder",
    "begin_task",
    "deliver",
    "lane_parcels",
    "lane_task",
    "not_done",
    "places_task",
    "refuse_retry",
    "source_parcels",
    "source_task",
    "tidying",
    "warm_task",
    "work_on",
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
    refuse_retry()
    _exhaust(rows)


def warm_task(_task: int, rows: Iterable[object]) -> Iterator[bytes]:
    """Do nothing, in a worker that is then there."""
    _exhaust(rows)
    return iter(())


def refuse_retry() -> None:
    """Let no task run a second time.

    Raises:
        TaskRetriedError: If Spark ran the task before.
    """
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        msg = "Spark retried a task of an epoch"
        raise TaskRetriedError(
            msg,
            why="rerunning part of a job whose other parts were used could lose or duplicate rows",
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
    shuffled = len(process.program.plan.stages) > 1 or order.owners > 0
    return deliver(source_parcels(process, order, task), shuffled=shuffled)


def _settle_in(process: Process, order: EpochOrder) -> None:
    """Clear up on this host for who gives the orders; one that only tries them owns nothing yet."""
    process.settle_in(order.token.incarnation, None if order.probe else order.global_marks)


def source_parcels(process: Process, order: EpochOrder, task: int) -> Iterator[Parcel]:
    """Yield what one source task sends."""
    process.watermark, process.epoch = order.event_time.before, order.token.epoch
    outbox = Outbox(process, order, 0, task)
    report = outbox.report
    started, waited, queued = time.perf_counter(), 0.0, queued_seconds()
    process.note.begin(0, task)
    try:
        _settle_in(process, order)
        site = WorkerSite(process, order, report)
        site.gather()
        waited, queued = time.perf_counter() - started, queued_seconds()
        with closing(SourceTask(site, order, report).run()) as run:
            for runner in run:
                process.note.at(Activity.READ)
                yield from outbox.send(runner.take_output())
    except Exception as error:  # noqa: BLE001 - the report carries it to the driver
        report.failure = failure_of(error)
    finally:
        process.note.at()
        process.reader.drop_ahead()
        report.measured.clients.update(process.reader.statistics())
        let_go_of_mapped_files()
    report.seconds["source"] = time.perf_counter() - started
    report.seconds["waited"] = waited + queued_seconds() - queued
    if len(process.program.plan.stages) > 1:
        yield from outbox.markers(report.ranges, failed=report.failure is not None)
    yield from outbox.finish()


def lane_task(
    program: Broadcast[Shipment],
    order: EpochOrder,
    stage: int,
    lane: int,
    frames: Iterable[bytes],
) -> Iterator[bytes]:
    """Run one lane of a stage over what the stages before sent it."""
    refuse_retry()
    process = current(program.value)
    process.forget_others(stage, order.marks.get(stage, ()))
    last = stage == len(process.program.plan.stages) - 1 and not order.owners
    return deliver(lane_parcels(process, order, stage, lane, frames), shuffled=not last)


def lane_parcels(
    process: Process, order: EpochOrder, stage: int, lane: int, frames: Iterable[bytes]
) -> Iterator[Parcel]:
    """Yield what one lane of a stage sends; frames for later stages and the driver pass through."""
    process.watermark, process.epoch = order.event_time.before, order.token.epoch
    outbox = Outbox(process, order, stage, lane)
    report = outbox.report
    if order.placement is not None:
        report.away = not is_here(order.placement.hosts[lane])
        report.counters["lanes_away"] = int(report.away)
    started, queued = time.perf_counter(), queued_seconds()
    mine: list[Frame] = []
    markers: list[RangeReport] = []
    failed = False
    for data in frames:
        frame = unpack(data)
        if frame.stage != stage:
            yield int(frame.name) if frame.kind == OWNED else lane, data
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
            _settle_in(process, order)
            process.tell_calls(order)
            process.note.at(Activity.DECODE)
            yield from _run_lane(process, order, outbox, mine, markers)
        except Exception as error:  # noqa: BLE001 - the report carries it to the driver
            report.failure = failure_of(error)
        finally:
            process.note.at()
            if not process.program.spool_dir:
                report.callers = process.callers()
    report.seconds["lane"] = time.perf_counter() - started
    report.seconds["waited"] = queued_seconds() - queued
    if stage < len(process.program.plan.stages) - 1:
        bad = failed or report.failure is not None
        body = dump_object((markers if lane == 0 else [], bad))
        for target in range(process.program.lanes_in(order)):
            yield target, pack(Frame(MARKERS, stage + 1, stage, lane, 1 << 30, "", body))
    yield from outbox.finish()


def _run_lane(
    process: Process,
    order: EpochOrder,
    outbox: Outbox,
    frames: list[Frame],
    markers: list[RangeReport],
) -> Iterator[Parcel]:
    report, changelog_rows = outbox.report, 0
    received = _received(process, frames)
    task = LaneTask(WorkerSite(process, order, report), order, report, received, markers)
    try:
        with closing(task.run()) as run:
            for given in run:
                process.note.at()
                if isinstance(given, LoggedRows):
                    changelog_rows += len(given.rows)
                    yield from outbox.changelog(given.store, given.group, given.rows)
                else:
                    yield from outbox.send(given)
        report.counters["changelog-rows"] = changelog_rows
        for group in report.wrote:
            _measure_stores(process, report.stage, group, report)
    except StoredValueError as error:
        stage = process.program.plan.stages[report.stage]
        tell_place(process, stage, order.marks.get(stage.index, ()), error)
        raise
    finally:
        let_go_of_mapped_files()


def _received(process: Process, frames: list[Frame]) -> dict[str, Iterator[Batch]]:
    """Return what came by each exchange; nothing is unpacked before it is looked at."""
    by_exchange: dict[str, list[Frame]] = {}
    for frame in frames:
        assert frame.kind == EXCHANGE, frame.kind
        by_exchange.setdefault(frame.name, []).append(frame)
    return {name: _unpacked(process, received) for name, received in by_exchange.items()}


def _unpacked(process: Process, frames: list[Frame]) -> Iterator[Batch]:
    frames.sort(key=lambda frame: frame.place)
    with SpoolReader() as spools:
        for frame in frames:
            yield unpack_batch(spools.fetch_bytes(frame.body), process.program.plan.topics)


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


class PlacesOrder(NamedTuple):
    """What a worker is to do with key groups.

    Attributes:
        work: What.
        order: The committed state.
        places: Stages and key groups.
    """

    work: OnPlace
    order: RestoreOrder
    places: Sequence[tuple[int, int]]


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
    yield work_on(current(program.value), PlacesOrder(work, order, shares[task]), task)


def work_on(process: Process, todo: PlacesOrder, task: int = 0) -> bytes:
    """Do something for key groups, one after the other; return the frame of the report."""
    work, order, places = todo
    process.watermark = order.watermark
    plan = process.program.plan
    report = TaskReport(stage=-1, task=task)
    try:
        process.settle_in(order.incarnation, None)
        if order.suspect:
            process.weed_out(places)
        ahead = [
            (stage, group, order.marks[stage][group].committed(plan.stages[stage].logged))
            for stage, group in places
        ]
        started = time.perf_counter()
        for number, place in enumerate(ahead, 1):
            if number > 1 and time.perf_counter() - started >= work.seconds:
                break
            if work.ahead is not None and number < len(ahead):
                work.ahead(process, *ahead[number])
            work.act(process, *place, report)
    except Exception as error:  # noqa: BLE001 - the report carries it to the driver
        report.failure = failure_of(error)
    finally:
        if work.ahead is not None:
            end_reading(process)
    return pack(Frame(REPORT, -1, -1, task, 0, "", dump_object(report)))


def not_done(
    shares: list[list[tuple[int, int]]], reports: Sequence[TaskReport]
) -> list[tuple[int, int]]:
    """Return the places that tasks had no time for; each works through its share in order."""
    return [place for report in reports for place in shares[report.task][len(report.wrote) :]]


def _restore_place(
    process: Process, stage: int, group: int, committed: Committed, report: TaskReport
) -> None:
    """Bring a key group to the committed state."""
    _, read = make_current(process, stage, group, committed)
    for store, count in read.items():
        report.restored[store] = report.restored.get(store, 0) + count
    report.wrote.append(group)
    _measure_stores(process, stage, group, report)


def _measure_stores(process: Process, stage: int, group: int, report: TaskReport) -> None:
    """Tell how large the stores of a key group are."""
    for store, size in process.environment(stage, group).sizes().items():
        report.measured.stores[store, group] = size


def _settle_place(
    process: Process, stage: int, group: int, committed: Committed, report: TaskReport
) -> None:
    """Fold, sync and close a key group; before a clean stop."""
    environment = process.environment(stage, group)
    if environment.condition(committed).ready:
        environment.fold(committed)
        environment.compact(live_bytes_max=_COMPACTED_AT_STOP_BYTES, closing=True)
        environment.close(clean=True)
        report.wrote.append(group)


def _tidy_place(
    process: Process,
    stage: int,
    group: int,
    committed: Committed,
    report: TaskReport,
    *,
    live_bytes_max: int | None = None,
) -> None:
    """Give back the disk that a key group does not need."""
    environment = process.environment(stage, group)
    if environment.condition(committed).ready:
        environment.fold(committed)
        environment.compact(live_bytes_max=live_bytes_max)
    report.wrote.append(group)


def _open_place(
    process: Process, stage: int, group: int, committed: Committed, _report: TaskReport
) -> None:
    """Open the files of a key group, if they are there, and change nothing."""
    environment = process.environment(stage, group)
    if environment.path.exists():
        environment.condition(committed)


_ROUND_S = 2.0
"""How long a task restores before it says how far it is."""

RESTORE = OnPlace(_restore_place, read_ahead, _ROUND_S)
"""Bring key groups to the committed state, as many as there is time for."""

OPEN = OnPlace(_open_place)
"""Open key groups, so that the first epoch finds them open."""

SETTLE = OnPlace(_settle_place)
"""Fold, sync and close key groups before a clean stop."""

_TIDIED_S = 0.2
"""How long a task tidies before the driver looks for records again."""

_TIDIED_SOON_BYTES = 16 << 20
"""What takes about as long to copy."""


def tidying(*, soon: bool) -> OnPlace:
    """Return what gives back the disk that key groups do not need, as many as there is time for.

    Args:
        soon: Leave out those that are large.
    """
    act = partial(_tidy_place, live_bytes_max=_TIDIED_SOON_BYTES) if soon else _tidy_place
    return OnPlace(act, seconds=_TIDIED_S)
