"""A job that runs ahead is used for its own epoch alone."""

from __future__ import annotations

import threading

import pytest

from mustela.plan.epoch import EpochOrder
from mustela.plan.plan import Plan
from mustela.plan.watermark import WatermarkOrder
from mustela.runtime.ahead import Ahead, Turn, may_run_ahead
from mustela.runtime.engine import EpochJobError, EpochOutput
from mustela.runtime.watermark import Look
from mustela.state.interfaces import Token
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
        may_end.wait(10)
        return output

    ahead = Ahead(run)
    ahead.begin(turn())
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
    ahead = Ahead(lambda _order: output)
    ahead.begin(turn())
    assert ahead.take(token) is None
    assert output.closed
    assert ahead.take(NEXT) is None
    ahead.close()


def test_a_job_that_failed_fails_its_own_epoch() -> None:
    """Not the one that was being committed; and nobody hears of one that is thrown away."""

    def run(_order: EpochOrder) -> EpochOutput:
        raise EpochJobError("a worker died")

    ahead = Ahead(run)
    ahead.begin(turn())
    taken = ahead.take(NEXT)
    assert taken is not None
    with pytest.raises(EpochJobError):
        taken[1]()
    ahead.begin(turn())
    ahead.close()


def test_only_plans_without_state_run_ahead() -> None:
    """A lane would have to read what nobody has committed."""
    assert may_run_ahead(Plan(stages=(), topics=(), fingerprint=""), "exactly_once")
    assert not may_run_ahead(Plan(stages=(), topics=(), fingerprint=""), "at_least_once")
    assert not may_run_ahead(word_count_plan(), "exactly_once")
