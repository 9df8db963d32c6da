"""Keeps lanes at home on a cluster: asks who is there, places epochs, and has copies tended.

Errands are jobs that nobody waits for, one at a time. They begin when an epoch's job has ended, so
that they have the cores while the driver commits it, or while there are no epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.core.broadcast import Broadcast

from mustela.clock import Clock
from mustela.plan.epoch import EpochOrder, GroupMark, RestoreOrder, TaskReport
from mustela.spark.differing import difference_told
from mustela.spark.frames import load_object, unpack
from mustela.spark.homes import Homes, Moves, Placed
from mustela.spark.job import JobAside, Jobs
from mustela.spark.located import ExecutorList, Located
from mustela.spark.placement import Executor
from mustela.spark.shipment import Shipment
from mustela.spark.tending import Errand, Tended, reached, tend_task

__all__ = ["HomeKeeper", "Shares", "told_of"]

_COUNTERS: Final = ("groups_followed", "groups_lost", "groups_balanced")
_PRESSING_S: Final = 0.2
"""How long after errands the next ones begin, if key groups wait for them."""

Place = tuple[int, int]
"""A stage and a key group."""


class Shares(NamedTuple):
    """What each task is to do with key groups.

    Attributes:
        places: The key groups of each task.
        where: Where the tasks are at home; None if it is all the same.
    """

    places: list[list[Place]]
    where: Located | None


class _Order(Protocol):
    @property
    def marks(self) -> Mapping[int, tuple[GroupMark, ...]]:
        """The committed state of each key group, by stage."""
        ...


@dataclass(slots=True)
class HomeKeeper:
    """Keeps the lanes of one application at home; for one thread.

    Args:
        context: Spark's context.
        jobs: Runs jobs.
        homes: Who is at home where.
        lag_s: So old the copies of second homes may become.
        say: Told of moves.
        clock: Monotonic time.
    """

    context: Any
    jobs: Jobs
    homes: Homes
    lag_s: float
    say: Callable[[str], None]
    clock: Clock
    _list: ExecutorList = field(init=False)
    _located: Located | None = None
    _aside: tuple[list[Errand], JobAside] | None = None
    _tended_at: float = float("-inf")
    _suspect: bool = False
    _failed: bool = False
    _moved: Counter[str] = field(default_factory=Counter[str])
    _lanes: int = 0

    def __post_init__(self) -> None:
        """Nobody is known yet."""
        self._list = ExecutorList(self.context)

    def place(self, order: EpochOrder, lanes: int) -> EpochOrder:
        """Return the order with its lanes placed, if there is an executor."""
        self._hear()
        self._lanes = lanes
        self._suspect = self._suspect or order.suspect
        placed = self._placed(order)
        if placed is None:
            return order
        self.where(placed.executors, placed.readers)
        return replace(order, placement=placed.placement)

    def _placed(self, order: _Order) -> Placed | None:
        """Choose what is at home where, and say what has moved."""
        executors = self._list.now()
        if not executors:  # the first one comes just now, or the last one has gone
            return None
        placed = self.homes.place(executors, self._lanes, self._positions(order))
        for moves in self.homes.take_moves():
            self.say(told_of(moves, self.homes.groups))
            told = (moves.followed, moves.restored, moves.balanced)
            self._moved.update(dict(zip(_COUNTERS, told, strict=True)))
        return placed

    def where(self, executors: Sequence[Executor], readers: Sequence[Executor] = ()) -> Located:
        """Return what has Spark run one lane on each of these executors.

        Args:
            executors: The executors.
            readers: Where the records of sources are read, if not everywhere.
        """
        known, wanted = self._located, (tuple(executors), tuple(readers))
        if known is None or (known.executors, known.readers) != wanted:
            self._located = known = Located(self.context, *wanted)
        return known

    @property
    def lanes(self) -> Located | None:
        """Where the lanes of the last epoch that was placed are at home."""
        return self._located

    def everywhere(self) -> Located | None:
        """Return what has Spark run one task on each executor, if there is any."""
        executors = self._list.now()
        return Located(self.context, executors) if executors else None

    def shares(self, places: Sequence[Place], order: _Order, lanes: int) -> Shares:
        """Return key groups as tasks at their homes, as the lanes have them.

        Args:
            places: The key groups.
            order: Says what is committed.
            lanes: Number of lanes, if no epoch has been placed yet.
        """
        executors = self._list.now()
        if not executors:
            return Shares([list(places)], None)
        placed = self.homes.place(executors, self._lanes or lanes, self._positions(order))
        shares: dict[int, list[Place]] = {}
        for place in places:
            shares.setdefault(placed.placement.lane_of[place[1]], []).append(place)
        where = [placed.executors[lane] for lane in shares]
        return Shares(list(shares.values()), Located(self.context, where))

    def _positions(self, order: _Order) -> list[int]:
        marks = list(order.marks.values())
        return [reached(marks, group) for group in range(self.homes.groups)]

    def ran(self, order: EpochOrder, reports: Iterable[TaskReport]) -> None:
        """Note what an epoch's tasks wrote, and where.

        The first report takes what the driver alone knows: moves, and how far copies are behind.
        """
        if order.placement is None:
            return
        reports = list(reports)
        for report in reports:
            if report.wrote:
                lane = {report.task: not report.away}
                self.homes.ran(order.placement, lane, report.wrote)
        if reports:
            reports[0].measured.standby_lag = self.homes.behind()
            reports[0].counters.update(self._moved)
            self._moved.clear()

    def ask_all(
        self,
        shipment: Broadcast[Shipment],
        order: RestoreOrder,
        watched: Callable[[Iterator[bytes]], Iterable[bytes]],
    ) -> None:
        """Ask executors that are new what their hosts have, and wait for the answers.

        Args:
            shipment: The program, for workers.
            order: What is committed.
            watched: Watches over a job while its frames come.
        """
        executors = self._list.now()
        errands = [Errand(one.host, (), one) for one in self.homes.unasked(executors)]
        if errands:
            where, task = self._task(shipment, order, errands, executors)
            self._take(errands, list(watched(self.jobs.run_tasks(len(errands), task, where))))

    def tend(self, shipment: Broadcast[Shipment], order: EpochOrder) -> None:
        """Begin the errands that are due, if none are under way; an epoch has just run."""
        self._hear()
        if self._is_due:
            known = RestoreOrder(
                incarnation=order.token.incarnation,
                marks=order.marks,
                watermark=order.event_time.before,
            )
            self._begin_errands(shipment, known)

    def rest(
        self, shipment: Broadcast[Shipment], committed: Callable[[], RestoreOrder], lanes: int
    ) -> int:
        """Begin the errands that are due while there are no epochs.

        Args:
            shipment: The program, for workers.
            committed: Returns what is committed.
            lanes: Number of lanes, if no epoch has been placed yet.

        Returns:
            How many records the copies lack.
        """
        with suppress(Py4JError, OSError):  # the next epoch meets it, and can tell
            self._hear()
            order = committed()
            self._lanes = self._lanes or lanes
            if not self._is_due:
                self.homes.learn(self._positions(order))
            elif self._placed(order) is not None:
                self._begin_errands(shipment, order)
        return self.homes.behind()

    @property
    def _is_due(self) -> bool:
        """Whether it is time for errands, and none are under way."""
        wait_s = _PRESSING_S if self.homes.is_pressing and not self._failed else self.lag_s
        return self._aside is None and self.clock.monotonic() - self._tended_at >= wait_s

    def _begin_errands(self, shipment: Broadcast[Shipment], order: RestoreOrder) -> None:
        errands = self.homes.errands()
        if not errands:
            return
        known = replace(order, suspect=self._suspect)
        self._suspect = False
        with suppress(Py4JError, OSError):  # the next epoch meets it, and can tell
            where, task = self._task(shipment, known, errands, self._list.now())
            self._aside = errands, self.jobs.begin(len(errands), task, where)
        self._tended_at = self.clock.monotonic()

    def _task(
        self,
        shipment: Broadcast[Shipment],
        order: RestoreOrder,
        errands: list[Errand],
        executors: Sequence[Executor],
    ) -> tuple[Located, Any]:
        first = {one.host: one for one in reversed(executors)}
        at = [one.asked or first.get(one.host, Executor(one.host, "", 1)) for one in errands]
        return Located(self.context, at), partial(tend_task, shipment, order, errands)

    def _hear(self) -> None:
        """Take in the answers of errands that have ended.

        Raises:
            ExecutorDiffersError: If a host lacks what every task needs.
        """
        if self._aside is None:
            return
        errands, job = self._aside
        try:
            frames = job.result()
        except (Py4JError, OSError) as error:
            differs = difference_told(str(error))
            if differs is not None:  # epochs could run there no more than this
                self._aside = None
                raise differs from None
            frames, self._suspect = [], True  # a host was lost, say
        if frames is None:
            return
        self._failed = not frames
        self._aside = None
        self._tended_at = self.clock.monotonic()
        self._take(errands, frames)

    def _take(self, errands: list[Errand], frames: list[bytes]) -> None:
        for errand, data in zip(errands, frames, strict=False):
            told: Tended = load_object(unpack(data).body)
            self.homes.heard(errand, told)

    def new_program(self) -> None:
        """Forget what hosts have: another program may have other stores."""
        self.stop()
        self.homes.forget_copies()

    def stop(self) -> None:
        """Have no errands."""
        if self._aside is not None:
            with suppress(Py4JError, OSError):
                self._aside[1].cancel()
            self._aside = None


def told_of(moves: Moves, groups: int) -> str:
    """Return what is said of moves.

    Example:
        >>> told_of(Moves(("a",), 3, 1, 0), 8)
        'a has lost its executors: 4 of 8 key groups have another home, 1 of them is to be restored'
        >>> told_of(Moves((), 0, 0, 2), 8)
        '2 of 8 key groups have moved to hosts with less to do, which had caught up'
    """
    parts: list[str] = []
    if moves.lost and moves.followed + moves.restored:
        verb = "has lost its" if len(moves.lost) == 1 else "have lost their"
        lost = f"{', '.join(moves.lost)} {verb} executors: "
        lost += f"{moves.followed + moves.restored} of {groups} key groups have another home"
        verb = "is" if moves.restored == 1 else "are"
        parts.append(f"{lost}, {moves.restored or 'none'} of them {verb} to be restored")
    if moves.balanced:
        verb = "has" if moves.balanced == 1 else "have"
        text = f"{moves.balanced} of {groups} key groups {verb} moved to hosts with less to do"
        parts.append(f"{text}, which had caught up")
    return "; ".join(parts)
