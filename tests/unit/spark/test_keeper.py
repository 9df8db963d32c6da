"""How the driver has lanes placed and copies tended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

from mustela.plan.epoch import EpochOrder, GroupMark, RestoreOrder, TaskReport
from mustela.spark.frames import REPORT, Frame, dump_object, pack
from mustela.spark.homes import Homes
from mustela.spark.keeper import HomeKeeper
from mustela.spark.located import ExecutorList
from mustela.spark.placement import Executor
from mustela.spark.tending import Errand, Tended
from mustela.state.interfaces import Token

GROUPS = 4


@dataclass
class Aside:
    """A job that ends when the test says so."""

    frames: list[bytes]
    has_ended: bool = False
    fails: bool = False
    cancelled: bool = False

    def result(self) -> list[bytes] | None:
        if self.fails:
            raise Py4JError("an executor was lost")
        return self.frames if self.has_ended else None

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Cluster:
    """Hosts that do every errand at once, and the clock, the list and the jobs of a keeper."""

    up: list[Executor] = field(default_factory=list[Executor])
    asides: list[Aside] = field(default_factory=list[Aside])
    orders: list[RestoreOrder] = field(default_factory=list[RestoreOrder])
    seconds: float = 0.0

    def now(self) -> list[Executor]:
        return sorted(self.up)

    def monotonic(self) -> float:
        return self.seconds

    def _frames(self, task: Any) -> list[bytes]:
        _shipment, order, errands = task.args
        self.orders.append(order)
        return [self._frame(order, errand) for errand in errands]

    def _frame(self, order: RestoreOrder, errand: Errand) -> bytes:
        ends = order.marks[1]
        told = {group: sum(ends[group].changelog_ends) for group in errand.groups}
        return pack(Frame(REPORT, -1, -1, 0, 0, "", dump_object(Tended(errand.host, told))))

    def run_tasks(self, _tasks: int, task: Any, _where: Any) -> Iterable[bytes]:
        return self._frames(task)

    def begin(self, _tasks: int, task: Any, _where: Any) -> Aside:
        self.asides.append(Aside(self._frames(task)))
        return self.asides[-1]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster([Executor("a", "0", 1), Executor("b", "1", 1)])


def keeper_on(cluster: Cluster, said: list[str]) -> HomeKeeper:
    made: Any = cluster
    keeper = HomeKeeper(None, made, Homes(GROUPS), 2.0, said.append, made)
    keeper._list = made
    return keeper


def order_of(ends: int) -> EpochOrder:
    marks = {1: (GroupMark(None, (ends,), 0),) * GROUPS}
    return EpochOrder(token=Token(1, ends, 0), ranges=(), marks=marks, now_ms=0)


def ask_all(keeper: HomeKeeper) -> None:
    order = RestoreOrder(incarnation=1, marks=order_of(0).marks)
    keeper.ask_all(None, order, iter)  # type: ignore[arg-type]


def epoch(keeper: HomeKeeper, ends: int) -> list[TaskReport]:
    """Run an epoch whose lanes write all key groups at home."""
    order = keeper.place(order_of(ends), 2)
    assert order.placement is not None
    lane_of = order.placement.lane_of
    own: Sequence[list[int]] = [[g for g in range(GROUPS) if lane_of[g] == n] for n in range(2)]
    reports = [TaskReport(stage=1, task=n, wrote=own[n]) for n in range(2)]
    keeper.ran(order, reports)
    keeper.tend(None, order)  # type: ignore[arg-type]
    return reports


def test_one_errand_at_a_time_and_none_before_it_is_due(cluster: Cluster) -> None:
    """Nobody waits for it; what it did is known when it has ended."""
    keeper = keeper_on(cluster, [])
    ask_all(keeper)
    epoch(keeper, 0)
    assert cluster.asides == []  # nothing has been written yet
    reports = epoch(keeper, 10)
    assert reports[0].measured.standby_lag == 10 * GROUPS
    assert len(cluster.asides) == 1
    cluster.seconds = 100.0
    epoch(keeper, 20)
    assert len(cluster.asides) == 1
    cluster.asides[0].has_ended = True
    reports = epoch(keeper, 30)
    assert reports[0].measured.standby_lag == 20 * GROUPS
    assert len(cluster.asides) == 1  # it ended just now
    cluster.seconds += 2.0
    epoch(keeper, 40)
    assert len(cluster.asides) == 2


def test_copies_become_current_while_there_are_no_epochs(cluster: Cluster) -> None:
    """Those that were tended after the last epoch lack what it wrote; a loss is seen, too."""
    said: list[str] = []
    keeper = keeper_on(cluster, said)
    ask_all(keeper)
    epoch(keeper, 0)
    committed = RestoreOrder(incarnation=1, marks=order_of(10).marks)

    def rest() -> int:
        return keeper.rest(None, lambda: committed, 2)  # type: ignore[arg-type]

    assert rest() == 10 * GROUPS
    assert cluster.orders[-1].marks == committed.marks
    assert rest() == 10 * GROUPS  # nobody waits for it
    cluster.asides[0].has_ended = True
    assert rest() == 0
    cluster.seconds += 100.0
    assert rest() == 0
    assert len(cluster.asides) == 1
    cluster.up = [Executor("b", "1", 1), Executor("c", "2", 1)]
    cluster.seconds += 100.0
    rest()
    assert len(said) == 1
    assert "none of them are to be restored" in said[0]


def test_what_a_lost_errand_did_not_do_is_done_by_the_next(cluster: Cluster) -> None:
    keeper = keeper_on(cluster, [])
    ask_all(keeper)
    epoch(keeper, 10)
    cluster.asides[0].fails = True
    epoch(keeper, 20)
    cluster.seconds = 100.0
    epoch(keeper, 30)
    assert len(cluster.asides) == 2
    assert [order.suspect for order in cluster.orders] == [False, False, True]
    assert cluster.orders[-1].marks == order_of(30).marks
    cluster.up.append(Executor("c", "2", 1))
    cluster.asides[1].fails = True
    epoch(keeper, 40)
    cluster.seconds += 1.0  # c has not been asked, and what fails again and again has time
    epoch(keeper, 50)
    assert len(cluster.asides) == 2
    cluster.seconds += 1.0
    epoch(keeper, 60)
    assert len(cluster.asides) == 3
    keeper.stop()
    assert cluster.asides[2].cancelled


def test_a_loss_is_said_and_counted(cluster: Cluster) -> None:
    said: list[str] = []
    keeper = keeper_on(cluster, said)
    ask_all(keeper)
    epoch(keeper, 10)
    cluster.asides[0].has_ended = True
    epoch(keeper, 20)
    del cluster.up[1]
    reports = epoch(keeper, 20)
    (text,) = said
    assert text.startswith("b has lost its executors: 2 of 4 key groups have another home, none")
    assert reports[0].counters == {
        "groups_followed": 2,
        "groups_lost": 0,
        "groups_balanced": 0,
    }
    assert epoch(keeper, 30)[0].counters == {}


def test_without_an_executor_nothing_is_placed(cluster: Cluster) -> None:
    """The first one comes just now: Spark counts it, and does not say yet where it is."""
    keeper = keeper_on(cluster, [])
    cluster.up.clear()
    assert keeper.place(order_of(0), 2) == order_of(0)
    assert keeper.everywhere() is None
    assert keeper.shares([(1, 0), (1, 1)], order_of(0), 2).places == [[(1, 0), (1, 1)]]
    keeper.ran(order_of(0), [])
    keeper.tend(None, order_of(0))  # type: ignore[arg-type]
    assert cluster.asides == []


def test_executors_are_read_from_what_spark_says_of_its_block_managers() -> None:
    """Not all that it knows take tasks: one may leave or be lost, and the driver takes none."""

    class Active:
        def mkString(self, _between: str) -> str:
            return "0\n3"

    class Spark:
        def __getattr__(self, _name: str) -> Any:
            return lambda *_: self

        def getExecutorIds(self) -> Active:
            return Active()

        def mkString(self, _between: str) -> str:
            ids = ["driver, 10.0.0.1, 1", "0, 10.0.0.2, 2", "2, 10.0.0.3, 3"]
            return "\n".join(f"BlockManagerId({one}, None)" for one in ids)

        def size(self) -> int:
            return 0

    class Context:
        _jsc = Spark()

    assert ExecutorList(Context()).now() == [Executor("10.0.0.2", "0", 1)]
