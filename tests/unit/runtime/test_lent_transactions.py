"""When lanes get a transaction to write into, and what follows when they cannot use it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mustela.config.settings import Settings
from mustela.connectors.kafka.errors import RowsRefused, TransactionFailed, TransactionFenced
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.connectors.kafka.writers import features
from mustela.connectors.kafka.writers.transactions import SharedTransactions
from mustela.plan.epoch import EpochOrder
from mustela.runtime.engine import EpochOutput
from mustela.runtime.epoch.epoch_job import FAILURES_MAX, EpochJob
from mustela.runtime.hunt import Hunt
from mustela.runtime.start.writers import with_writers
from mustela.state.interfaces import Token
from tests.unit.runtime.fakes import FakeSink

ORDER = EpochOrder(token=Token(1, 2, 0), ranges=((),), marks={}, now_ms=0)
DONE = EpochOutput(reports=[], rows=(), changelogs=(), dead_letters=(), size=0)


class Stage:
    """A run of an application whose lanes fail as they are told to."""

    def __init__(self, *errors: TransactionFailed, logged: tuple[str, ...] = ("counts",)) -> None:
        self.errors = list(errors)
        self.orders: list[EpochOrder] = []
        self.settled: list[TransactionFailed] = []
        self.followed: frozenset[str] = frozenset()
        self.sink = FakeSink()
        self.order = ORDER

        def nothing(*_: object) -> None:
            pass

        self.run: Any = SimpleNamespace(
            engine=SimpleNamespace(run=self._job),
            plan=SimpleNamespace(stages=[SimpleNamespace(logged=logged)]),
            outcome=SimpleNamespace(
                refuse_if_replaced=nothing, settle=lambda error, _: self.settled.append(error)
            ),
            barrier=SimpleNamespace(start=nothing, give_up=nothing, move=nothing),
            world=SimpleNamespace(crash_point=nothing, transactions=self.sink),
            board=SimpleNamespace(changes=SimpleNamespace(followed=lambda: self.followed)),
            faults=SimpleNamespace(retry=lambda ask, _: ask()),
            listener=SimpleNamespace(on_error=nothing),
            budget=SimpleNamespace(halve=nothing),
            failures=0,
            losses=0,
            is_suspect=False,
            driver_writes=False,
            may_seal=True,
        )

    def _job(self, order: EpochOrder) -> EpochOutput:
        self.orders.append(order)
        if self.errors:
            raise self.errors.pop(0)
        return DONE

    def turns(self, count: int) -> list[EpochOutput | None]:
        job = EpochJob(self.run, Hunt("fail", lambda: ("in",), lambda _: None))
        turn: Any = SimpleNamespace(order=self.order)
        return [job.output(turn, None) for _ in range(count)]


def test_each_attempt_has_a_transaction_of_its_own() -> None:
    """The next attempt's lanes never write under an older one's ticket."""
    stage = Stage()
    assert stage.turns(3) == [DONE] * 3
    tickets = [order.ticket for order in stage.orders]
    assert None not in tickets
    assert len({ticket.producer_epoch for ticket in tickets if ticket}) == 3


def test_lanes_get_none_where_they_write_nothing_or_somebody_follows_what_they_write() -> None:
    """Who follows the changes of a store is told of the rows that come to the driver."""
    stage = Stage(logged=())
    stage.turns(1)
    owned = Stage(logged=())
    owned.order = replace(ORDER, owners=2)
    owned.turns(1)
    assert owned.orders[0].ticket is not None
    follow = Stage()
    follow.order = owned.order
    follow.followed = frozenset({"counts"})
    follow.turns(1)
    assert [order.ticket for order in (*stage.orders, *follow.orders)] == [None, None]


@pytest.mark.parametrize(
    "error", [TransactionFenced("fenced"), RowsRefused.later("INVALID_RECORD", "a row")]
)
def test_after_lanes_could_not_write_the_driver_does(error: TransactionFailed) -> None:
    """Fenced with no successor is a late request of its own: the producer is opened anew."""
    stage = Stage(error)
    assert stage.turns(2) == [None, DONE]
    assert stage.settled == [error]
    assert stage.orders[0].ticket is not None
    assert stage.orders[1].ticket is None
    assert stage.run.driver_writes
    assert stage.run.may_seal != isinstance(error, RowsRefused)


def test_a_transaction_that_always_fails_ends_the_application() -> None:
    """As one of the driver's does."""
    stage = Stage(*(TransactionFenced("fenced") for _ in range(FAILURES_MAX)))
    with pytest.raises(TransactionFenced):
        stage.turns(FAILURES_MAX)


def _world(settings: Settings, said: list[str]) -> Any:
    from mustela.clock import ManualClock
    from mustela.runtime.kafka_world import kafka_world

    return with_writers(kafka_world(settings, ManualClock(0)), settings, said.append)


def test_lanes_write_where_nothing_is_missing_and_nobody_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is missing is said to whoever asked for lanes; whoever chose the driver asks nobody."""
    said: list[str] = []
    lacks: list[str] = []
    asked: list[object] = []

    def lacking(properties: object) -> list[str]:
        asked.append(properties)
        return lacks

    monkeypatch.setattr(features, "lacking_anywhere", lacking)
    auto = Settings.load(application_id="app", environ={})
    lanes = auto.with_values({"commit.writers": "lanes"})
    driver = auto.with_values({"commit.writers": "driver"})
    assert isinstance(_world(driver, said).transactions, TransactionalSink)
    assert asked == []
    assert isinstance(_world(auto, said).transactions, SharedTransactions)
    assert isinstance(_world(lanes, said).transactions, SharedTransactions)
    lacks.append("Produce 9")
    assert isinstance(_world(auto, said).transactions, TransactionalSink)
    assert said == []
    assert isinstance(_world(lanes, said).transactions, TransactionalSink)
    assert "Produce 9" in said[0]
