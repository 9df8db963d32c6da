"""The tasks of a large epoch as orders to tasks that stay: an epoch without a Spark job of its own.

What a stage sends to the lanes of later ones passes through here. What is large of it lies in files
(`mustela.spark.spool`), so that these are names.
"""

from __future__ import annotations

import select
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from mustela.plan.epoch import EpochOrder, Program
from mustela.spark.channel import ChannelError
from mustela.spark.frames import unpack
from mustela.spark.outbox import DRIVER
from mustela.spark.resident import Resident
from mustela.spark.staying import PartOrder, parcel_of

__all__ = ["Boxes", "run_stages"]


class Boxes(defaultdict[tuple[int, int], list[bytes]]):
    """Frames for the lanes of later stages, by stage and lane."""

    def __init__(self) -> None:
        super().__init__(list)


def run_stages(
    members: Sequence[Resident], program: Program, order: EpochOrder, stages: range, boxes: Boxes
) -> Iterator[bytes]:
    """Run stages of an epoch, one after the other; yield the frames for the driver.

    After any fault tasks are still at work: the caller has them all leave.

    Args:
        members: The tasks that stay.
        program: The program.
        order: The epoch.
        stages: Which of its stages.
        boxes: What the stages before have left; what these leave comes in as well.

    Raises:
        OSError: If a worker died.
        Py4JError: What its job says of that.
    """
    for stage in stages:
        tasks = program.lanes_in(order) if stage else len(order.ranges)
        parts = [
            PartOrder(order, stage, task, boxes.pop((stage, task), ())) for task in range(tasks)
        ]
        for body in _answers(members, parts):
            lane, frame = parcel_of(body)
            target = unpack(frame).stage
            if target == DRIVER:
                yield frame
            else:
                boxes[target, lane].append(frame)


def _answers(members: Sequence[Resident], parts: Sequence[PartOrder]) -> Iterator[bytes]:
    """Yield what tasks answer; each of them has one part at a time."""
    todo = deque(parts)
    busy = _Busy()
    for member in members[: len(parts)]:
        busy.begin(member, todo.popleft())
    while busy:
        for member in busy.heard():
            frames, ended = busy.hear(member)
            yield from frames
            if ended and todo:
                busy.begin(member, todo.popleft())


class _Busy(dict[Resident, PartOrder]):
    """The tasks that are at work, each with its part."""

    def __init__(self) -> None:
        super().__init__()
        self._poll = select.poll()
        self._by_descriptor: dict[int, Resident] = {}

    def begin(self, member: Resident, part: PartOrder) -> None:
        """Give a task a part."""
        self[member] = part
        for descriptor in member.channel.descriptors:
            self._by_descriptor[descriptor] = member
            self._poll.register(descriptor, select.POLLIN)
        try:
            member.begin(part)
        except ChannelError:
            member.bury()

    def heard(self) -> set[Resident]:
        """Wait for tasks that say something, or have ended."""
        return {self._by_descriptor[descriptor] for descriptor, _ in self._poll.poll()}

    def hear(self, member: Resident) -> tuple[list[bytes], bool]:
        """Return what a task says of its part, and whether it is done."""
        try:
            frames, ended = member.hear(self[member])
        except ChannelError:
            member.bury()
        if ended:
            del self[member]
            for descriptor in member.channel.descriptors:
                self._poll.unregister(descriptor)
        return frames, ended
