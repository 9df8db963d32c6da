"""An epoch of little work as one task: from its sources through all lanes, without an exchange.

Each stage costs a Spark job some twenty milliseconds whatever it does, most of it before and after
the user's code. Where all workers share one disk any of them can run any lane, so an epoch for
which all cores together would save less than its job costs is done by one task of one stage: the
same source tasks and lanes, one behind the other, with lists in place of the shuffle. Where there
is no shuffle, what is saved is the job, once such a task stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from typing import Final

from pyspark.core.broadcast import Broadcast

from mustela.plan.epoch import FIRST_RECORDS, EpochOrder, Program, TaskReport
from mustela.plan.ranges import RangeReport, SourceRange
from mustela.spark.arrivals import call_steps
from mustela.spark.outbox import Parcel
from mustela.spark.process import Process, current
from mustela.spark.shipment import Shipment
from mustela.spark.worker import begin_task, deliver, lane_parcels, source_parcels

__all__ = ["SmallEpochs", "all_stages", "small_epoch_task"]

_FEW: Final = 100
"""What so few records take has little to do with how many they are."""
_NEWEST: Final = 0.3
"""Weight of the last epoch in how much of a core lanes are given."""
_LEAST_CORES: Final = 1.25
"""What cores that others keep busy are worth at least, as a number of idle ones."""


class SmallEpochs:
    """Tells the epochs that one task is to do, by what the one before took.

    An epoch of twice the records is taken to need twice the work; what does not depend on records
    makes that too much for larger ones, so that they have their jobs. Work is what tasks did, and
    what they waited for others; not how long they waited for a processor, else a machine that is
    full would make epochs look large, and their jobs would fill it up. What lanes do wait for one
    says how much of the cores others leave, and so what is to be saved by using all of them.

    Lanes that wait for calls to the outside wait at the same time, so they never share a task.

    Args:
        program: What runs.
    """

    def __init__(self, program: Program) -> None:
        exchanges = max(1, len(program.plan.stages) - 1)  # a job costs as much as one
        can = bool(program.spool_dir) and not call_steps(program.plan)
        self._limit = program.small_seconds * exchanges if can else 0.0
        # A job of all tasks costs most when nothing of it was done before.
        self._unknown = 0 if program.lanes_named else FIRST_RECORDS
        self._seconds = inf  # nothing is known
        self._records = 0
        self._share = 1.0

    def has(self, order: EpochOrder) -> bool:
        """Whether an epoch is expected to be small; the first one is if it reads little."""
        if order.suspect or not self._limit:
            return False
        records = _offsets(order.ranges)
        if self._seconds == inf:
            return records <= self._unknown
        parts = max(2, len(order.ranges))  # it is read by as many tasks as there are cores
        cores = max(_LEAST_CORES, parts * self._share)
        return self._expected(records) < self._limit * cores / (cores - 1)

    def _expected(self, records: int) -> float:
        """Return how long the tasks of an epoch will work."""
        growth = records / max(1, self._records)
        if records <= _FEW:
            growth = min(1.0, growth) if self._records > _FEW else 1.0
        return self._seconds * growth

    def narrowed(self, order: EpochOrder) -> EpochOrder:
        """Return the order of a small epoch: all ranges in one source task, all groups in one lane.

        One task does them one after the other anyway, and each costs as much as many records. There
        is a source task even if there is nothing to read: it may have a schedule.
        """
        return replace(order, lanes=1, ranges=(tuple(chain.from_iterable(order.ranges)),))

    def learn(self, reports: Sequence[TaskReport]) -> None:
        """Take in how long the tasks of an epoch worked.

        With what they waited, a machine that is busy with other things would have the dearer jobs,
        and so still more to do.
        """
        self._seconds = sum(report.worked for report in reports)
        self._records = _offsets(report.ranges for report in reports)
        lanes = [report for report in reports if report.stage > 0]
        if (took := sum(lane.seconds.get("lane", 0.0) for lane in lanes)) > 0.0:
            share = sum(lane.worked for lane in lanes) / took
            self._share += _NEWEST * (share - self._share)


def _offsets(tasks: Iterable[Iterable[SourceRange | RangeReport]]) -> int:
    return sum(part.end - part.start for part in chain.from_iterable(tasks))


def small_epoch_task(
    program: Broadcast[Shipment], order: EpochOrder, _task: int, rows: Iterable[object]
) -> Iterator[bytes]:
    """Run all of an epoch."""
    begin_task(rows)
    return deliver(all_stages(current(program.value), order), shuffled=False)


def all_stages(process: Process, order: EpochOrder) -> Iterator[Parcel]:
    """Yield what all tasks of an epoch send to the driver, one behind the other."""
    lanes = process.program.lanes_in(order)
    stages = len(process.program.plan.stages)
    tasks = [source_parcels(process, order, task) for task in range(len(order.ranges))]
    for stage in range(1, stages):
        boxes: list[list[bytes]] = [[] for _ in range(lanes)]
        for lane, frame in chain.from_iterable(tasks):
            boxes[lane].append(frame)
        tasks = [lane_parcels(process, order, stage, lane, box) for lane, box in enumerate(boxes)]
    yield from chain.from_iterable(tasks)
