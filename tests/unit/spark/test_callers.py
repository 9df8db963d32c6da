"""Calls that were begun on one host, as lanes on another one see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mustela.api.calls import AsyncOptions
from mustela.clock import SystemClock
from mustela.connectors.calls.pool import CallPool
from mustela.connectors.calls.spool import CallSpool
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import EnvironmentFault
from mustela.plan.calls import CallOutcome, CallRequest
from mustela.plan.epoch import EpochOrder, Program, TaskReport
from mustela.planner.planner import plan
from mustela.spark.callers import Callers, answer
from mustela.spark.frames import REPORT, Frame, dump_object, pack
from mustela.state.interfaces import Token
from mustela.topology.async_calls import AsyncNode

STEP, GROUP = "ask", 3


def program() -> Program:
    builder = StreamsBuilder()
    paths = builder.stream("in", key=str, value=str)
    paths.map_values_async(str.upper, AsyncOptions(), value=str, name=STEP).to("out", key=str)
    return Program(
        identity="run",
        application_id="app",
        cluster_id="cluster",
        plan=plan(builder.build()),
        lanes=2,
        key_groups=8,
        guarantee="exactly_once",
        kernel={},
        consumer={},
        producer={},
        state_dir="",
    )


class Hosts:
    """Two hosts, each with one process that makes calls, and a driver."""

    def __init__(self, directory: Path) -> None:
        self.program = program()
        self.roots = {name: directory / name for name in "ab"}
        self.pools = {
            name: CallPool(root, SystemClock(), watched=False) for name, root in self.roots.items()
        }
        self.reached = set(self.roots)
        self.now = 100.0
        self.fails = False
        self.driver = Callers(self.program, self.ask, None, lambda: self.now)
        self.epoch = 0
        (self.node,) = (
            step.node
            for stage in self.program.plan.stages
            for step in stage.steps
            if isinstance(step.node, AsyncNode)
        )

    def ask(self, task: Callable[..., Iterator[bytes]]) -> list[bytes]:
        if self.fails:
            msg = "an executor was lost"
            raise EnvironmentFault(msg)
        question = task.args[1]  # type: ignore[attr-defined]
        told = [answer(self.roots[name], self.program, question) for name in sorted(self.reached)]
        return [pack(Frame(REPORT, -1, -1, 0, 0, "", dump_object(one))) for one in told]

    def asked(self, seconds: float = 3.0) -> set[tuple[int, int]]:
        self.now += seconds
        return self.driver.new()

    def order(self) -> EpochOrder:
        self.epoch += 1
        order = EpochOrder(token=Token(1, self.epoch, 0), ranges=(), marks={}, now_ms=0)
        return self.driver.tell(order)

    def lane(self, name: str) -> Any:
        """Begin a lane on a host, as the next order has it."""
        order, pool = self.order(), self.pools[name]
        pool.tell(order.callers, order.outcomes)
        calls = pool.step(self.node)
        calls.begin(0)
        return calls

    def reports(self, name: str) -> None:
        self.driver.hear([TaskReport(stage=1, task=0, callers=self.pools[name].seen())])

    def parks(self, name: str, number: int) -> str:
        """Have a lane on a host leave a call that is not made before the test says so."""
        calls = self.lane(name)
        request = CallRequest(f"id{number}", GROUP, b"k", b"v")
        calls._calls[request.call_id] = Running()
        assert calls.park(request.call_id) is None
        self.reports(name)
        return str(calls.owner)

    def ends(self, name: str, number: int) -> CallOutcome:
        outcome = CallOutcome(f"id{number}", 1, b"V")
        CallSpool(self.roots[name], STEP).write(GROUP, outcome)
        return outcome


class Running:
    """Stands for a call that is being made."""

    parked = False


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path)
    yield made
    for pool in made.pools.values():
        pool.close()


def test_a_call_of_a_live_host_is_not_made_again_on_another(hosts: Hosts) -> None:
    """Its outcome reaches the other host through the driver, once, and is then forgotten."""
    owner = hosts.parks("a", 1)
    calls = hosts.lane("b")
    assert calls.fate("id1", owner) == "running"
    assert calls.arrived({"id1"}) == []
    hosts.reports("b")
    outcome = hosts.ends("a", 1)
    assert {group for _, group in hosts.asked()} == {GROUP}
    assert hosts.asked() == set()
    assert hosts.lane("b").arrived({"id1"}) == [outcome]
    for _ in range(3):
        hosts.reports("b")
        hosts.parks("b", 2)
        hosts.asked()
    assert list(CallSpool(hosts.roots["a"], STEP).names()) == []
    assert hosts.order().outcomes == {}


def test_an_epoch_that_fails_has_its_outcomes_again(hosts: Hosts) -> None:
    """Also if it fails when the next one has begun, during its commit."""
    hosts.parks("a", 1)
    outcome = hosts.ends("a", 1)
    hosts.asked()
    assert hosts.order().outcomes == {STEP: (outcome,)}
    assert hosts.order().outcomes == {STEP: (outcome,)}
    hosts.epoch -= 2
    assert hosts.order().outcomes == {STEP: (outcome,)}


def test_a_call_is_made_again_when_its_process_is_gone(hosts: Hosts) -> None:
    """Its own host says so; what it left is taken all the same."""
    owner = hosts.parks("a", 1)
    other = hosts.parks("a", 2)
    assert owner == other
    outcome = hosts.ends("a", 1)
    hosts.pools.pop("a").close()
    assert hosts.lane("b").fate("id2", owner) == "running"  # nobody has asked yet
    hosts.asked()
    calls = hosts.lane("b")
    assert calls.arrived({"id1", "id2"}) == [outcome]
    assert calls.fate("id2", owner) == "lost"


def test_a_host_is_gone_when_many_questions_have_not_met_it(hosts: Hosts) -> None:
    """Not when one has not, nor while the driver could ask nobody."""
    owner = hosts.parks("a", 1)
    hosts.reached.remove("a")
    hosts.fails = True
    for _ in range(10):
        hosts.asked()
        hosts.lane("b").fate("id1", owner)
        hosts.reports("b")
    hosts.fails = False
    for _ in range(4):
        hosts.asked()
        assert hosts.lane("b").fate("id1", owner) == "running"
        hosts.reports("b")
    hosts.asked()
    assert hosts.lane("b").fate("id1", owner) == "lost"


def test_nobody_is_asked_while_no_lane_waits(hosts: Hosts) -> None:
    """An application that rests does not run jobs."""
    hosts.fails = True
    hosts.lane("a")
    hosts.reports("a")
    asked: list[object] = []
    hosts.driver.ask = lambda task: asked.append(task) or []  # type: ignore[func-returns-value]
    hosts.asked()
    assert asked == []
    hosts.parks("a", 1)
    hosts.asked()
    assert len(asked) == 1
    hosts.asked(100.0)
    assert len(asked) == 1
