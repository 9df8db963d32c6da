"""Faults of the broker are borne for a while."""

from __future__ import annotations

import pytest

from mustela.clock import ManualClock
from mustela.errors import EnvironmentFault
from mustela.runtime.passing_faults import PassingFaults


class Passing(EnvironmentFault):
    code = "TEST_PASSING"
    retryable = True


def test_a_fault_that_cannot_pass_is_raised_at_once() -> None:
    """Waiting does not bring a permission."""
    with pytest.raises(EnvironmentFault):
        PassingFaults(ManualClock(), limit=60.0).note(EnvironmentFault("no"))


def test_a_fault_that_may_pass_is_borne_up_to_the_limit() -> None:
    """Counted from the first fault of a row."""
    clock = ManualClock()
    faults = PassingFaults(clock, limit=60.0)
    for _ in range(7):
        faults.note(Passing("gone"))
        clock.advance(10_000)
    assert faults.is_tried
    with pytest.raises(Passing):
        faults.note(Passing("gone"))


def test_a_good_answer_begins_anew() -> None:
    """An hour of single faults is no outage."""
    clock = ManualClock()
    faults = PassingFaults(clock, limit=60.0)
    for _ in range(20):
        faults.note(Passing("gone"))
        clock.advance(50_000)
        faults.clear()
        assert not faults.is_tried


def test_an_act_is_done_again_while_its_faults_may_pass() -> None:
    """Each fault is told; the first success ends it."""
    told: list[BaseException] = []
    to_come = [Passing("gone"), Passing("gone")]

    def act() -> str:
        if to_come:
            raise to_come.pop()
        return "done"

    faults = PassingFaults(ManualClock(), limit=1.0)
    assert faults.retry(act, told.append) == "done"
    assert len(told) == 2
    assert not faults.is_tried
