"""What a task that stays does: it takes orders until the driver wants no more.

An order is a whole small epoch, one task of a large one, or work on key groups. The answer is the
frames that a job of its own would have given.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from mustela.plan.epoch import EpochOrder
from mustela.spark.channel import DONE, FRAME, ORDER, Channel, ChannelError, Key
from mustela.spark.frames import dump_object, load_object
from mustela.spark.garbage import GARBAGE
from mustela.spark.outbox import Parcel
from mustela.spark.process import Process, current
from mustela.spark.shipment import Shipped
from mustela.spark.small_epochs import all_stages
from mustela.spark.worker import (
    PlacesOrder,
    begin_task,
    deliver,
    lane_parcels,
    source_parcels,
    work_on,
)
from mustela.state.interfaces import Token

__all__ = ["Order", "PartOrder", "answer_to", "packed_parcel", "parcel_of", "stay_task"]

_LANE: Final = struct.Struct("!i")


class PartOrder(NamedTuple):
    """One task of an epoch.

    Attributes:
        order: The epoch.
        stage: The task's stage.
        task: Its number there, which behind the first stage is the lane.
        frames: What stages before have sent it.
    """

    order: EpochOrder
    stage: int
    task: int
    frames: Sequence[bytes] = ()

    @property
    def token(self) -> Token:
        """The epoch's."""
        return self.order.token


Order = EpochOrder | PartOrder | PlacesOrder


def stay_task(program: Shipped, key: Key, _task: int, rows: Iterable[object]) -> Iterator[bytes]:
    """Do what the driver orders, until it wants no more or is gone."""
    begin_task(rows)
    process = current(program.value)
    GARBAGE.give_back()
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
        order: Order = load_object(message[1])
        if not isinstance(order, PlacesOrder):
            assert order.token >= last, f"an order for {order.token} after {last}"
            last = order.token
        for frame in _frames(process, order):
            channel.send(FRAME, frame)
        channel.send(DONE, answer_to(order))
        channel.flush()
        GARBAGE.between_tasks()


def _frames(process: Process, order: Order) -> Iterator[bytes]:
    if isinstance(order, PlacesOrder):
        yield work_on(process, order)
    elif isinstance(order, PartOrder):
        parcels = _part_parcels(process, order)
        packed = ((lane, packed_parcel(lane, frame)) for lane, frame in parcels)
        yield from deliver(packed, shuffled=False)
    else:
        yield from deliver(all_stages(process, order), shuffled=False)


def _part_parcels(process: Process, part: PartOrder) -> Iterator[Parcel]:
    order, stage, task, frames = part
    if stage == 0:
        return source_parcels(process, order, task)
    process.forget_others(stage, order.marks.get(stage, ()))
    return lane_parcels(process, order, stage, task, frames)


def packed_parcel(lane: int, frame: bytes) -> bytes:
    """Return what says where a frame goes, and the frame."""
    return _LANE.pack(lane) + frame


def parcel_of(body: bytes) -> Parcel:
    """Return the lane and the frame that `packed_parcel` put together."""
    return _LANE.unpack_from(body)[0], body[_LANE.size :]


def answer_to(order: Order) -> bytes:
    """Return what stands at the end of the whole answer to an order."""
    if isinstance(order, PlacesOrder):
        return dump_object(())
    part = (order.stage, order.task) if isinstance(order, PartOrder) else ()
    return dump_object((*order.token, *part))
