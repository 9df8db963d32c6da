"""What a failed job becomes: an error of ours, with the JVM's stack only on demand."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from mustela.errors import EnvironmentFault, InvariantError, UsageError
from mustela.plan.epoch import EpochOrder, Failure, GroupMark, RestoreOrder, TaskReport
from mustela.plan.ranges import SourceRange
from mustela.runtime.engine import EngineOptions, EpochJobError
from mustela.spark import worker
from mustela.spark.engine import SparkEngine
from mustela.spark.frames import load_object, unpack
from mustela.spark.hold import SparkStoppedError
from mustela.spark.job_errors import SparkDiedError, WorkerError
from mustela.spark.keeper import Shares
from mustela.spark.outbox import failure_of
from mustela.spark.output import Came
from mustela.spark.process import Process
from mustela.spark.properties import ForcedSparkPropertyError
from mustela.spark.shipment import ProgramNotLoadedError, not_loaded
from mustela.spark.worker import OnPlace, places_task
from mustela.state.interfaces import Committed, Token
from tests.unit.plan.test_epoch import program

DIED = """An error occurred while calling x.
: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
	at java.Foo"""


def context_of(**properties: str) -> SimpleNamespace:
    conf = SimpleNamespace(getAll=lambda: list(properties.items()))
    return SimpleNamespace(
        defaultParallelism=2, _jsc=object(), getConf=lambda: conf, master="local[2]"
    )


def engine(*, debug: bool = False) -> SparkEngine:
    made = SparkEngine()
    context = context_of()
    made.start(EngineOptions(application_id="a", properties={}, session=context, debug=debug))
    made._program = program()
    return made


class Asked:
    """A context that counts how often it is asked for its cores."""

    def __init__(self, master: str) -> None:
        self.master = master
        self.times = 0
        self._jsc = object()

    @property
    def defaultParallelism(self) -> int:
        self.times += 1
        return self.times


@pytest.mark.parametrize(("master", "times"), [("local[2]", 1), ("spark://a:7077", 3)])
def test_the_jvm_is_asked_for_cores_again_only_where_they_change(master: str, times: int) -> None:
    """Every epoch asks for them, and is to cost no question where a task stays."""
    made, context = SparkEngine(), Asked(master)
    made._context = context
    assert [made.cores for _ in range(3)][-1] == context.times == times


def came(*reports: TaskReport) -> Came:
    """What came back from a job, when nothing but reports did."""
    made = Came(1 << 20)
    made.reports.extend(reports)
    return made


def failing(error: Exception) -> Iterator[bytes]:
    yield b"first"
    raise error


@pytest.mark.parametrize("kind", [Py4JError, OSError, PySparkException])
@pytest.mark.parametrize("text", [DIED, "java.io.IOException: some error"])
def test_what_spark_raises_is_a_failed_epoch(kind: type[Exception], text: str) -> None:
    """Retryable as a whole; state is suspect only after a worker died."""
    with pytest.raises(EpochJobError) as caught:
        list(engine()._guarded(failing(kind(text))))
    assert caught.value.suspect == (text is DIED)
    assert caught.value.retryable
    assert "java.Foo" not in str(caught.value)
    assert "Exception: " in caught.value.evidence["spark"]
    assert "--debug" in str(caught.value)


@pytest.mark.parametrize("kind", [Py4JError, Py4JNetworkError, OSError])
def test_a_jvm_that_was_killed_is_not_tried_again(kind: type[Exception]) -> None:
    """It is named with its signal, and state is not settled through it."""
    made = engine()
    with subprocess.Popen(["sleep", "60"]) as process:
        process.kill()
        made._context._gateway = SimpleNamespace(proc=process)
        with pytest.raises(SparkDiedError) as caught:
            list(made._guarded(failing(kind("Answer from Java side is empty"))))
    assert not caught.value.retryable
    assert caught.value.evidence == {
        "jvm": "killed by 9",
        "spark": "Answer from Java side is empty",
    }
    made.settle(RestoreOrder(incarnation=1, marks={}, suspect=False))


def test_a_jvm_that_is_gone_between_two_epochs_is_named_too() -> None:
    """Its cores are asked for before a job is made: that question may be the first to fail."""

    class Gone(SimpleNamespace):
        @property
        def defaultParallelism(self) -> int:
            raise ConnectionRefusedError(111, "Connection refused")

    made = engine()
    with subprocess.Popen(["sleep", "60"]) as process:
        process.kill()
        made._context = Gone(
            _jsc=object(), master="spark://a:7077", _gateway=SimpleNamespace(proc=process)
        )
        with pytest.raises(SparkDiedError):
            _ = made.cores


def test_an_answer_that_breaks_off_with_the_jvm_is_no_bug() -> None:
    """Frames that were not sent are missing reports."""
    made = engine()
    with subprocess.Popen(["false"]) as process:
        made._context._gateway = SimpleNamespace(proc=process)
        with pytest.raises(SparkDiedError):
            made._check(came(), order_of(1))


@pytest.mark.parametrize("kind", [Py4JError, Py4JNetworkError, OSError, PySparkException])
@pytest.mark.parametrize(
    ("words", "code"),
    [("No space left on device", "DISK_FULL"), ("Too many open files", "OPEN_FILES")],
)
def test_what_the_host_lacks_is_named(kind: type[Exception], words: str, code: str) -> None:
    """The same for Spark's own directory and for what a task reported."""
    text = (
        f"An error occurred while calling x.\n: Job aborted: java.io.IOException: {words}\n\tat x"
    )
    if kind is Py4JNetworkError:  # the driver's own connection to the JVM
        error: Exception = kind("An error occurred while trying to connect to the Java server")
        error.__context__ = OSError(24 if code == "OPEN_FILES" else 28, words)
    else:
        error = kind(text)
    made = engine()
    with pytest.raises(EnvironmentFault) as caught:
        list(made._guarded(failing(error)))
    assert (caught.value.code, caught.value.retryable) == (code, False)
    assert words in caught.value.evidence["said"]
    assert "java.io" not in caught.value.what
    failure = Failure(None, f"Traceback …\nOSError: [Errno 1] {words}: '/spool/1'\n")
    with pytest.raises(EnvironmentFault) as caught:
        made._check(came(TaskReport(stage=0, task=0, failure=failure)), order_of(1))
    assert (caught.value.code, "/spool/1" in str(caught.value)) == (code, True)


RAISED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted: org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "/x/pickle.py", line 1, in load
{cause}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
{last}
  why:   it is so

	at org.apache.spark.api.python.BasePythonRunner.Foo"""


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_module_that_a_worker_cannot_import_is_named_and_not_tried_again(wrapped: bool) -> None:
    """The last line says which; the fix is not to look at Spark's stack."""
    cause = "ModuleNotFoundError: No module named 'prices'"
    ours = f"mustela.spark.shipment.{not_loaded(cause, cluster=False).what}"
    last = ours.replace("shipment.a", "shipment.ProgramNotLoadedError: a") if wrapped else cause
    with pytest.raises(ProgramNotLoadedError) as caught:
        list(engine()._guarded(failing(Py4JError(RAISED.format(cause=cause, last=last)))))
    assert caught.value.what == f"a Spark worker cannot load the program: {cause}"
    assert caught.value.fields == {"module": "prices"}
    assert not caught.value.retryable
    assert "put prices next to the program" in str(caught.value)


def test_what_a_worker_raised_is_the_first_thing_that_is_told() -> None:
    """Not that Spark could not call something of its own."""
    text = RAISED.format(cause="KeyError: 1", last="ValueError: no such thing")
    with pytest.raises(EpochJobError) as caught:
        list(engine()._guarded(failing(Py4JError(text))))
    assert caught.value.what == "the Spark job of an epoch failed: ValueError: no such thing"
    assert not caught.value.suspect


def test_the_stack_of_the_jvm_shows_when_debugging() -> None:
    """Then, and only then."""
    with pytest.raises(EpochJobError) as caught:
        list(engine(debug=True)._guarded(failing(Py4JError(DIED))))
    assert "java.Foo" in str(caught.value)


def test_a_session_that_its_owner_has_stopped_is_named() -> None:
    """It will not come back, so nothing is tried again."""
    stopped = engine()
    stopped._context._jsc = None
    with pytest.raises(SparkStoppedError) as caught:
        list(stopped._guarded(iter([b"frame"])))
    assert not caught.value.retryable


def test_a_session_that_runs_tasks_twice_is_refused() -> None:
    """Other properties of a user's session are the user's business."""
    options = {"application_id": "a", "properties": {}}
    calm = context_of(**{"spark.speculation": "false"})
    SparkEngine().start(EngineOptions(session=calm, **options))
    hasty = context_of(**{"spark.speculation": "true"})
    with pytest.raises(ForcedSparkPropertyError, match="speculation"):
        SparkEngine().start(EngineOptions(session=hasty, **options))


def order_of(tasks: int) -> EpochOrder:
    ranges = tuple((SourceRange(0, n, 0, 1),) for n in range(tasks))
    return EpochOrder(token=Token(1, 1, 0), ranges=ranges, marks={}, now_ms=0)


def test_the_first_failure_in_the_order_of_stages_is_raised() -> None:
    """What fails in a lane may only follow from what failed before it."""
    reports = [
        TaskReport(stage=1, task=0, failure=failure_of(ValueError("late"))),
        TaskReport(stage=0, task=1, failure=failure_of(UsageError("second"))),
        TaskReport(stage=0, task=0, failure=failure_of(UsageError("first"))),
    ]
    with pytest.raises(UsageError, match="first"):
        engine()._check(came(*reports), order_of(2))


def test_an_error_that_is_not_ours_carries_the_workers_text() -> None:
    """Its last line is the first thing to read."""
    failure = Failure(None, "Traceback …\n  File x\nZeroDivisionError: division by zero\n")
    with pytest.raises(WorkerError) as caught:
        engine()._check(came(TaskReport(stage=0, task=0, failure=failure)), order_of(1))
    assert caught.value.what == "a task failed: ZeroDivisionError: division by zero"
    assert "File x" in str(caught.value)


@pytest.mark.parametrize("missing", [0, 1])
def test_every_task_of_an_epoch_must_have_reported(missing: int) -> None:
    """Two source tasks and two lanes: a report that is lost would be rows that are lost."""
    places = [(0, 0), (0, 1), (1, 0), (1, 1)][missing:]
    reports = [TaskReport(stage=stage, task=task) for stage, task in places]
    if not missing:
        engine()._check(came(*reports), order_of(2))
        return
    with pytest.raises(InvariantError, match="3 of 4"):
        engine()._check(came(*reports), order_of(2))


@pytest.mark.parametrize("each_round", [(1, 1), (3, 1), (4, 4)])
def test_a_restore_goes_on_with_what_a_round_left(
    each_round: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key group comes up until it is done, and progress counts those that are."""
    made = engine()
    done: list[tuple[int, int]] = []

    looked: list[bool] = []

    def run(_work: OnPlace, order: RestoreOrder, shares: Shares) -> list[TaskReport]:
        looked.append(order.suspect)
        reports: list[TaskReport] = []
        for task, share in enumerate(shares.places):
            mine = share[: each_round[task]]
            done.extend(mine)
            reports.append(
                TaskReport(
                    stage=-1, task=task, wrote=[group for _, group in mine], restored={"s": 1}
                )
            )
        return reports

    monkeypatch.setattr(made, "_run_shares", run)
    heard: list[tuple[int, int, int]] = []
    marks = {1: (GroupMark(None, (0,), 0),) * 8}
    order = RestoreOrder(incarnation=1, marks=marks, suspect=True)
    reports = made.restore(
        order, lambda new, so_far, total: heard.append((len(new), so_far, total))
    )
    assert sorted(done) == [(1, group) for group in range(8)]
    assert heard[0] == (0, 0, 8)
    assert [so_far for _, so_far, _ in heard] == sorted(so_far for _, so_far, _ in heard)
    assert heard[-1][1:] == (8, 8)
    assert len(reports) == sum(new for new, _, _ in heard)
    assert looked == [True] + [False] * (len(looked) - 1)  # a damaged place is looked at once


@pytest.mark.parametrize(("seconds", "wanted"), [(0.0, [5]), (inf, [5, 6, 7])])
def test_a_task_begins_no_key_group_when_its_time_is_up(
    seconds: float, wanted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is done in any case: a round that did nothing would be run again for ever."""
    seen: list[int] = []

    def act(_process: Process, _stage: int, group: int, _at: Committed, report: TaskReport) -> None:
        seen.append(group)
        report.wrote.append(group)

    process = Process(0, replace(program(), spool_dir="/where the driver is"))
    monkeypatch.setattr(worker, "current", lambda _shipment: process)
    order = RestoreOrder(incarnation=1, marks={1: (GroupMark(None, (0,), 0),) * 8})
    share = [[(1, 5), (1, 6), (1, 7)]]
    shipment: Any = SimpleNamespace(value=None)
    (said,) = places_task(OnPlace(act, seconds=seconds), shipment, order, share, 0, [])
    report: TaskReport = load_object(unpack(said).body)
    assert report.failure is None
    assert seen == report.wrote == wanted
