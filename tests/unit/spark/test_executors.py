"""Executors that are not there yet, or no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.runtime.engine import EpochJobError
from mustela.spark.executors import DEADLINE_S, ExecutorsMissingError, wait_for_executors
from mustela.spark.job_errors import job_error

CONTEXT: Any = SimpleNamespace(
    getConf=lambda: {"spark.executor.instances": "2"}, master="spark://a:7077"
)


def waiting(counts: Any, *, stopped: Any = lambda: False) -> tuple[list[str], float]:
    """Wait, and return what was said, and after how many seconds an executor was there."""
    said: list[str] = []
    clock = ManualClock()
    wait_for_executors(
        CONTEXT, clock=clock, say=said.append, stopped=stopped, count=lambda _: counts(clock)
    )
    return said, clock.monotonic()


def test_nobody_waits_where_an_executor_is() -> None:
    assert waiting(lambda _: 1) == ([], 0)


def test_waiting_is_said_and_ends_when_an_executor_comes() -> None:
    """At once, and every ten seconds; never a silent hang."""
    said, seconds = waiting(lambda clock: int(clock.monotonic() > 25))
    assert said == ["waiting for executors, 0 of 2"] * 3
    assert 25 < seconds < 28


def test_after_the_deadline_the_master_is_named_and_an_application_starts_again() -> None:
    """EXECUTORS_MISSING: with workers that have the memory the same start goes on."""
    with pytest.raises(ExecutorsMissingError, match="0 of 2") as caught:
        waiting(lambda _: 0)
    assert "spark.executor.memory" in (caught.value.fix or "")
    assert caught.value.retryable
    _, seconds = waiting(lambda clock: int(clock.monotonic() > DEADLINE_S - 5))
    assert seconds < DEADLINE_S


def test_an_application_that_is_stopped_waits_for_nobody() -> None:
    assert waiting(lambda _: 0, stopped=lambda: True) == ([], 0)


@pytest.mark.parametrize(
    "text",
    [
        "ExecutorLostFailure (executor 0 exited unrelated to the running tasks) Reason: Worker "
        "lost",
        "FetchFailed(BlockManagerId(1, 10.0.0.3, 4711, None), shuffleId=3, mapId=4)",
        "PythonException: Traceback (most recent call last):\n  File 'worker.py'\n"
        "mustela.spark.worker.TaskRetriedError: [TASK_RETRIED] Spark retried a task of an epoch\n"
        "\n\tat org.apache.spark.Task",
    ],
    ids=["executor", "what it held", "a task that Spark ran again"],
)
def test_a_lost_executor_is_told_from_a_worker_that_the_program_killed(text: str) -> None:
    """On one host there is no executor to lose but the driver."""
    error = job_error(f"Job aborted: {text}", debug=False, cluster=True)
    assert isinstance(error, EpochJobError)
    assert error.lost_executor
    assert error.suspect
    died = job_error("Python worker exited unexpectedly (crashed)", debug=False, cluster=True)
    assert isinstance(died, EpochJobError)
    assert died.suspect
    assert not died.lost_executor
