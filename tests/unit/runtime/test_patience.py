"""Faults of the broker are borne for a while."""

from __future__ import annotations

import pytest

from mustela.clock import ManualClock
from mustela.errors import EnvironmentFault
from mustela.runtime.patience import Patience


class Passing(EnvironmentFault):
    code = "TEST_PASSING"
    retryable = True


def test_a_fault_that_cannot_pass_is_raised_at_once() -> None:
    """Waiting does not bring a permission."""
    with pytest.raises(EnvironmentFault):
        Patience(ManualClock(), limit=60.0).bear(EnvironmentFault("no"))


def test_a_fault_that_may_pass_is_borne_up_to_the_limit() -> None:
    """Counted from the first fault of a row."""
    clock = ManualClock()
    patience = Patience(clock, limit=60.0)
    for _ in range(7):
        patience.bear(Passing("gone"))
        clock.advance(10_000)
    assert patience.is_tried
    with pytest.raises(Passing):
        patience.bear(Passing("gone"))


def test_a_good_answer_begins_anew() -> None:
    """An hour of single faults is no outage."""
    clock = ManualClock()
    patience = Patience(clock, limit=60.0)
    for _ in range(20):
        patience.bear(Passing("gone"))
        clock.advance(50_000)
        patience.rest()
        assert not patience.is_tried


def test_an_act_is_done_again_while_its_faults_may_pass() -> None:
    """Each fault is told; the first success ends it."""
    told: list[BaseException] = []
    faults = [Passing("gone"), Passing("gone")]

    def act() -> str:
        if faults:
            raise faults.pop()
        return "done"

    patience = Patience(ManualClock(), limit=1.0)
    assert patience.insist(act, told.append) == "done"
    assert len(told) == 2
    assert not patience.is_tried
