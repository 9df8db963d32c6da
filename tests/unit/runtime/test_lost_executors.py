"""An executor that is lost is not the program's failure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mustela.runtime.engine import EpochJobError
from mustela.runtime.epoch.epoch_job import FAILURES_MAX, LOSSES_MAX, EpochJob
from mustela.runtime.hunt import Hunt


class Budget:
    """Counts how often epochs were made smaller."""

    def __init__(self) -> None:
        self.halved = 0

    def halve(self) -> None:
        self.halved += 1


def run_of(*, lost: bool) -> Any:
    """Return what an epoch's job needs of an application, on an engine whose jobs all fail."""
    error = EpochJobError("an executor was lost" if lost else "a Spark worker died")
    error.lost_executor, error.suspect = lost, True

    def fails(_order: object) -> None:
        raise error

    def nothing(*_: object) -> None:
        pass

    return SimpleNamespace(
        engine=SimpleNamespace(run=fails),
        plan=SimpleNamespace(stages=()),
        outcome=SimpleNamespace(refuse_if_replaced=nothing),
        barrier=SimpleNamespace(start=nothing, give_up=nothing, move=nothing),
        world=SimpleNamespace(crash_point=nothing),
        listener=SimpleNamespace(on_error=nothing),
        budget=Budget(),
        failures=0,
        losses=0,
        is_suspect=False,
    )


def fail(run: Any, times: int) -> None:
    hunt = Hunt("fail", lambda: ("in",), lambda _: None)
    job = EpochJob(run, hunt)
    turn: Any = SimpleNamespace(order=SimpleNamespace(owners=0))
    for _ in range(times):
        assert job.output(turn, None) is None


def test_executors_that_are_lost_make_no_epoch_smaller_and_hunt_no_record() -> None:
    """More often than a program may fail; state is looked at when one is lost again."""
    run = run_of(lost=True)
    fail(run, 1)
    assert not run.is_suspect
    fail(run, FAILURES_MAX + 2)
    assert run.failures == 0
    assert run.budget.halved == 0
    assert run.is_suspect


def test_one_that_is_lost_again_and_again_ends_the_application() -> None:
    """As one that has too little memory for the program is."""
    run = run_of(lost=True)
    fail(run, LOSSES_MAX - 1)
    with pytest.raises(EpochJobError, match="an executor was lost"):
        fail(run, 1)
