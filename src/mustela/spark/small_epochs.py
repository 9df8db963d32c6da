"""An epoch of little work as one task: from its sources through all lanes, without an exchange.

Each stage costs a Spark job some twenty milliseconds whatever it does, most of it before and after
the user's code. Where all workers share one disk any of them can run any lane, so an epoch whose
work takes less than its stages cost is done by one task of one stage: the same source tasks and
lanes, one behind the other, with lists in place of the shuffle. Where there is no shuffle, what is
saved is the job, once such a task stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final

from pyspark.core.broadcast import Broadcast

from mustela.plan.epoch import EpochOrder, Program, TaskReport
from mustela.plan.ranges import RangeReport, SourceRange
from mustela.spark.arrivals import call_steps
from mustela.spark.channel import DONE, FRAME, ORDER, Channel, ChannelError, Key
from mustela.spark.frames import dump_object, load_object
from mustela.spark.outbox import Parcel
from mustela.spark.process import Process, current
from mustela.spark.shipment import Shipment
from mustela.spark.worker import begin_task, deliver, lane_parcels, source_parcels
from mustela.state.interfaces import Token

__all__ = ["SmallEpochs", "small_epoch_task", "stay_task"]

_GROWTH: Final = 2
"""With more than so many times the records of the last epoch nobody knows what the next one takes,
unless they are few."""
_FEW: Final = 100


class SmallEpochs:
    """Tells the epochs that one task is to do, by what the one before took.

    Lanes that wait for calls to the outside wait at the same time, so they never share a task.

    Args:
        program: What runs.
    """

    def __init__(self, program: Program) -> None:
        exchanges = max(1, len(program.plan.stages) - 1)  # a job costs as much as one
        can = bool(program.spool_dir) and not call_steps(program.plan)
        self._limit = program.small_seconds * exchanges if can else 0.0
        self._seconds = self._limit
        self._records = 0

    def has(self, order: EpochOrder) -> bool:
        """Whether an epoch is expected to be small; the first one is not."""
        if order.suspect or self._seconds >= self._limit:
            return False
        return _offsets(order.ranges) <= max(_FEW, _GROWTH * self._records)

    def narrowed(self, order: EpochOrder) -> EpochOrder:
        """Return the order of a small epoch: all ranges in one source task, all groups in one lane.

        One task does them one after the other anyway, and each costs as much as many records. There
        is a source task even if there is nothing to read: it may have a schedule.
        """
        return replace(order, lanes=1, ranges=(tuple(chain.from_iterable(order.ranges)),))

    def learn(self, reports: Sequence[TaskReport]) -> None:
        """Take in how long the tasks of an epoch worked.

        That they waited for a core, or for the broker, says nothing of their work: a machine that
        is busy with other things would have the dearer jobs, and so still more to do.
        """
        self._seconds = sum(_worked(report.seconds) for report in reports)
        self._records = _offsets(report.ranges for report in reports)


def _worked(seconds: Mapping[str, float]) -> float:
    took = seconds.get("source", 0.0) + seconds.get("lane", 0.0)
    return max(0.0, took - seconds.get("waited", 0.0))


def _offsets(tasks: Iterable[Iterable[SourceRange | RangeReport]]) -> int:
    return sum(part.end - part.start for part in chain.from_iterable(tasks))


def small_epoch_task(
    program: Broadcast[Shipment], order: EpochOrder, _task: int, rows: Iterable[object]
) -> Iterator[bytes]:
    """Run all of an epoch."""
    begin_task(rows)
    return deliver(_all_stages(current(program.value), order), shuffled=False)


def stay_task(
    program: Broadcast[Shipment], key: Key, _task: int, rows: Iterable[object]
) -> Iterator[bytes]:
    """Run whole epochs as the driver orders them, until it wants no more or is gone."""
    begin_task(rows)
    process = current(program.value)
    try:
        channel = key.enter()
    except OSError:  # the driver has changed its mind meanwhile
        return iter(())
    with channel, suppress(ChannelError):
        _serve(process, channel)
    return iter(())


def _serve(process: Process, channel: Channel) -> None:
    last = Token(-1, -1, -1)
    while (message := channel.receive())[0] == ORDER:
        order: EpochOrder = load_object(message[1])
        assert order.token >= last, f"an order for {order.token} after {last}"
        last = order.token
        for frame in deliver(_all_stages(process, order), shuffled=False):
            channel.send(FRAME, frame)
        channel.send(DONE, dump_object(tuple(order.token)))
        channel.flush()


def _all_stages(process: Process, order: EpochOrder) -> Iterator[Parcel]:
    lanes = process.program.lanes_in(order)
    stages = len(process.program.plan.stages)
    tasks = [source_parcels(process, order, task) for task in range(len(order.ranges))]
    for stage in range(1, stages):
        boxes: list[list[bytes]] = [[] for _ in range(lanes)]
        for lane, frame in chain.from_iterable(tasks):
            boxes[lane].append(frame)
        tasks = [lane_parcels(process, order, stage, lane, box) for lane, box in enumerate(boxes)]
    yield from chain.from_iterable(tasks)
