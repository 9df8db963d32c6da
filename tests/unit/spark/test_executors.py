"""Executors that are not there yet, or no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.runtime.engine import EpochJobError
from mustela.spark.executors import (
    DEADLINE_S,
    NOBODY_LEFT,
    ExecutorsMissingError,
    not_without_executors,
    wait_for_executors,
)
from mustela.spark.job_errors import job_error
from tests.patience import looks

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


class Cluster:
    """A context whose executors are counted by a test, and whose jobs are cancelled."""

    def __init__(self, counts: list[int]) -> None:
        self._counts = counts
        self.looked = 0
        self.cancelled: list[str] = []
        self.fetched = 0
        self._jsc = SimpleNamespace(sc=lambda: self)

    def schedulerBackend(self) -> object:
        self.fetched += 1
        return self

    def addJobTag(self, tag: str) -> None:
        self.tag = tag

    def cancelJobsWithTag(self, tag: str, reason: str) -> None:
        assert tag == self.tag
        self.cancelled.append(reason)

    def count(self, _context: object) -> int:
        self.looked += 1
        return self._counts[min(self.looked, len(self._counts)) - 1]


@pytest.mark.parametrize(("counts", "cancelled"), [([2, 1, 0, 0], True), ([1, 0, 1, 0, 1], False)])
def test_a_job_without_executors_is_cancelled_and_its_epoch_runs_again(
    counts: list[int], cancelled: bool
) -> None:
    """Spark alone would wait for ever; one that comes back at once is not taken for gone."""
    cluster: Any = Cluster(counts)
    with not_without_executors(cluster, count=cluster.count, look_s=0.001, empty_s=0.001):
        assert any(looks(lambda: cluster.looked > 2 * len(counts)))
    assert bool(cluster.cancelled) is cancelled
    for reason in cluster.cancelled:
        error = job_error(f"Job 7 cancelled {reason}", debug=False, cluster=True)
        assert isinstance(error, EpochJobError)
        assert error.lost_executor
    assert NOBODY_LEFT in (cluster.cancelled or [NOBODY_LEFT])


@pytest.mark.parametrize(("there", "cancelled"), [({"0", "2"}, True), ({"0", "1", "2"}, False)])
def test_a_job_whose_lanes_have_lost_their_home_is_cancelled_at_once(
    there: set[str], cancelled: bool
) -> None:
    """Spark alone would wait for locality, and then have tasks run again that refuse to."""
    cluster: Any = Cluster([len(there)])
    looked: list[object] = []

    def connected(scheduler: object) -> set[str]:
        looked.append(scheduler)
        return there

    with not_without_executors(cluster, {"0", "1"}, connected=connected, look_s=0.001):
        assert any(looks(lambda: len(looked) > 3))
    assert cluster.fetched == 1, "each handle costs a question, and each job asks often"
    assert bool(cluster.cancelled) is cancelled
    for reason in cluster.cancelled:
        error = job_error(f"Job 7 cancelled {reason}", debug=False, cluster=True)
        assert isinstance(error, EpochJobError)
        assert error.lost_executor


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
