"""What a host is sent for besides epochs: to say which key groups it has, and to bring some up.

Runs on executors. A copy that is tended reads on in the changelogs, as a lane would before it runs;
so it is right whatever the driver believes of it, and the driver may be late or wrong.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from pyspark.core.broadcast import Broadcast

from mustela.connectors.kafka.copies import StateAheadError, end_reading, make_current
from mustela.plan.epoch import GroupMark, RestoreOrder
from mustela.spark.frames import REPORT, Frame, dump_object, pack
from mustela.spark.placement import Executor
from mustela.spark.process import Process, current
from mustela.spark.shipment import Shipment

__all__ = ["Errand", "Tended", "is_here", "reached", "tend_task"]

_SLICE_S: Final = 0.5
"""After so long no further key group is begun: the next epoch may want the core."""


class Errand(NamedTuple):
    """What a host is asked to do.

    Attributes:
        host: The host.
        groups: Key groups to bring to the committed state, as many as there is time for.
        asked: The executor that is to say of every key group how far the host has it; None if no
            one is.
    """

    host: str
    groups: tuple[int, ...]
    asked: Executor | None


class Tended(NamedTuple):
    """What it answers.

    Attributes:
        host: The host, or empty if Spark ran the errand elsewhere: then nothing was done.
        positions: How far the host has key groups, as `reached` says it.
        records: Records that were read from changelogs.
        trouble: Why it did not get on.
    """

    host: str
    positions: dict[int, int]
    records: int = 0
    trouble: str = ""


def reached(marks: Iterable[Sequence[GroupMark]], group: int) -> int:
    """Return how much the changelogs of a key group hold, over all stages and stores."""
    return sum(sum(stage[group].changelog_ends) for stage in marks)


@cache
def is_here(host: str) -> bool:
    """Whether a name or address is this host's: nowhere else can a socket have it.

    Example:
        >>> is_here("127.0.0.1"), is_here("192.0.2.1")
        (True, False)
    """
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False


def tend_task(
    program: Broadcast[Shipment],
    order: RestoreOrder,
    errands: Sequence[Errand],
    task: int,
    rows: Iterable[object],
) -> Iterator[bytes]:
    """Do the errand of a host, if this is the host."""
    for _ in rows:  # a task that leaves its input unread costs the worker
        pass
    errand = errands[task]
    told = Tended("", {})
    if is_here(errand.host):
        told = _tend(current(program.value), order, errand)
    yield pack(Frame(REPORT, -1, -1, task, 0, "", dump_object(told)))


def _tend(process: Process, order: RestoreOrder, errand: Errand) -> Tended:
    positions: dict[int, int] = {}
    records = 0
    try:
        process.settle_in(order.incarnation, None)
        if order.suspect:
            process.weed_out((stage, group) for stage in order.marks for group in errand.groups)
        started = time.perf_counter()
        for group in errand.groups:
            if positions and time.perf_counter() - started >= _SLICE_S:
                break
            records += _bring_up(process, order, group)
            positions[group] = reached(order.marks.values(), group)
        if errand.asked:
            others = range(process.program.key_groups)
            told = {group: _position(process, order, group) for group in others}
            positions = {**told, **positions}
    except Exception as error:  # noqa: BLE001 - an epoch that needs the copy will meet it
        return Tended(errand.host, positions, records, str(error) or type(error).__name__)
    finally:
        end_reading(process)
    return Tended(errand.host, positions, records)


def _bring_up(process: Process, order: RestoreOrder, group: int) -> int:
    """Bring a key group to what the order says; return how many records that took.

    A host that has run the key group meanwhile has more than this order knows of.
    """
    records = 0
    for stage, marks in order.marks.items():
        committed = marks[group].committed(process.program.plan.stages[stage].logged)
        try:
            _, read = make_current(process, stage, group, committed)
        except StateAheadError:
            continue
        records += sum(read.values())
    return records


def _position(process: Process, order: RestoreOrder, group: int) -> int:
    """Return how far this host has a key group; changes nothing."""
    reach = 0
    for stage, marks in order.marks.items():
        mark = marks[group]
        environment = process.environment(stage, group)
        if not environment.path.exists():
            continue
        condition = environment.condition(mark.committed(process.program.plan.stages[stage].logged))
        if condition.ready:
            reach += sum(mark.changelog_ends)
        elif condition.catches_up:
            reach += sum(environment.positions().values())
    return reach
