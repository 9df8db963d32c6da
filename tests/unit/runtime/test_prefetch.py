"""A job that runs ahead is used for its own epoch alone."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mustela.plan.epoch import EpochOrder
from mustela.plan.plan import Plan
from mustela.plan.watermark import WatermarkOrder
from mustela.runtime.cutting.prefetch import Prefetch, Turn, prefetch_work
from mustela.runtime.engine import EpochJobError, EpochOutput
from mustela.runtime.time.watermark import Look
from mustela.state.interfaces import Token
from tests.patience import PATIENCE_S
from tests.unit.runtime.plans import word_count_plan

NEXT = Token(1, 8, 0)


class Output(EpochOutput):
    """Rows that remember whether they were let go."""

    def __init__(self) -> None:
        super().__init__(reports=[], rows=(), changelogs=(), dead_letters=(), size=0)
        self.closed = False

    def close(self) -> None:
        self.closed = True


def turn(token: Token = NEXT) -> Turn:
    order = EpochOrder(token=token, ranges=((),), marks={}, now_ms=0, event_time=WatermarkOrder())
    return Turn(cuts={}, look=Look(now_ms=0, short=set()), order=order, started=0.0)


def test_the_output_of_the_next_epoch_is_waited_for() -> None:
    """It is being made while something else is done."""
    may_end, output = threading.Event(), Output()

    def run(_order: EpochOrder) -> EpochOutput:
        may_end.wait(PATIENCE_S)
        return output

    ahead = Prefetch()
    ahead.begin(turn(), run)
    taken = ahead.take(NEXT)
    assert taken is not None
    may_end.set()
    assert taken[1]() is output
    assert taken[0].order.token == NEXT
    assert not output.closed
    ahead.close()


@pytest.mark.parametrize("token", [Token(1, 8, 1), Token(1, 7, 1), Token(2, 8, 0)])
def test_the_output_of_another_attempt_is_thrown_away(token: Token) -> None:
    """The epoch before it was not committed, so its records are read again."""
    output = Output()
    ahead = Prefetch()
    ahead.begin(turn(), lambda _order: output)
    assert ahead.take(token) is None
    assert output.closed
    assert ahead.take(NEXT) is None
    ahead.close()


def test_a_job_that_failed_fails_its_own_epoch() -> None:
    """Not the one that was being committed; and nobody hears of one that is thrown away."""

    def run(_order: EpochOrder) -> EpochOutput:
        raise EpochJobError("a worker died")

    ahead = Prefetch()
    ahead.begin(turn(), run)
    taken = ahead.take(NEXT)
    assert taken is not None
    with pytest.raises(EpochJobError):
        taken[1]()
    ahead.begin(turn(), run)
    ahead.close()


def test_what_is_done_ahead_depends_on_the_plan() -> None:
    """All of a job without state, the reading where only lanes keep state, else nothing."""
    engine: Any = SimpleNamespace(run=lambda _: "all", read=lambda _: "read")
    stateless, counts = Plan(stages=(), topics=(), fingerprint=""), word_count_plan()
    work = prefetch_work(stateless, "exactly_once", engine)
    assert work is not None
    assert work(turn().order) == "all"
    assert work(replace(turn().order, owners=2)) == "read"  # who have no transaction yet
    assert prefetch_work(counts, "exactly_once", engine) is engine.read
    assert prefetch_work(stateless, "at_least_once", engine) is None
    assert prefetch_work(counts, "at_least_once", engine) is None


def test_a_stage_that_reads_stores_waits_for_the_commit() -> None:
    """Its functions would see what nobody has committed, or miss what somebody has."""
    engine: Any = SimpleNamespace(run=object(), read=object())
    counts = word_count_plan()
    first, *others = counts.stages
    reader = replace(first, stores=counts.stages[1].stores)
    assert prefetch_work(replace(counts, stages=(reader, *others)), "exactly_once", engine) is None
