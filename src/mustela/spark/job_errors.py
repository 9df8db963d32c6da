"""What a Spark job that failed becomes: an error of ours that says why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mustela.errors import EnvironmentFault, InvariantError, MustelaError
from mustela.plan.epoch import Failure
from mustela.runtime.engine import EpochJobError, JobInterruptedError, ProcessingTimeoutError
from mustela.runtime.shortage import shortage_told
from mustela.spark.differing import difference_told
from mustela.spark.executors import NOBODY_LEFT, ONE_LOST
from mustela.spark.shipment import ProgramNotLoadedError, not_loaded
from mustela.spark.watch import Stuck

__all__ = [
    "SparkDiedError",
    "WorkerError",
    "error_of",
    "interrupted",
    "job_error",
    "last_words",
    "raised_in_worker",
    "spark_died",
    "timed_out",
]

_WORKER_DIED: Final = (
    "Python worker exited unexpectedly",
    "EOFException",
    "ExecutorLostFailure",
    "ProcessBuilder$NullOutputStream",  # the process that forks workers, which Spark writes to
)
_EXECUTOR_LOST: Final = (
    "ExecutorLostFailure",
    "FetchFailed",
    "Executor heartbeat timed out",
    "Worker lost",
    "executor decommissioned",
    NOBODY_LEFT,
    ONE_LOST,
    "TaskRetriedError",  # the loss of an executor does not count among spark.task.maxFailures
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_JAVA_STACK: Final = "\n\tat "
_NOT_LOADED: Final = f"{ProgramNotLoadedError.__module__}.{ProgramNotLoadedError.__qualname__}: "
_CANNOT_LOAD: Final = "a Spark worker cannot load the program: "
_IMPORTS: Final = ("ModuleNotFoundError: ", "ImportError: ")
_LONGEST: Final = 300
_FATAL: Final = "Fatal Python error: "
_LINES_KEPT: Final = 20


class WorkerError(InvariantError):
    """A task failed with an error that is not one of Mustela's own."""

    code = "WORKER"


class SparkDiedError(EnvironmentFault):
    """The JVM of Spark ended, or no longer answers."""

    code = "SPARK_DIED"


def job_error(text: str, *, debug: bool, cluster: bool, dead: Sequence[Stuck] = ()) -> MustelaError:
    """Return the error for what Spark says of a job that failed as a whole.

    Args:
        text: Its words.
        debug: Whether all of them are wanted.
        cluster: Whether workers run on other hosts.
        dead: What workers were at when they died, where that is known.
    """
    differs = difference_told(text) if cluster else None
    if differs is not None:
        if debug:
            differs.evidence["spark"] = text
        return differs
    line = raised_in_worker(text)
    if line is not None and line.startswith((_NOT_LOADED, *_IMPORTS)):
        told = line.removeprefix(_NOT_LOADED).removeprefix(_CANNOT_LOAD)
        error: MustelaError = not_loaded(told, cluster=cluster)
        if debug:
            error.evidence["spark"] = text
        return error
    short = shortage_told(text)
    if short is not None:
        if debug:
            short.evidence["spark"] = text
        return short
    lost = cluster and any(sign in text for sign in _EXECUTOR_LOST)
    died = lost or any(sign in text for sign in _WORKER_DIED)
    said = line or _first_words(text)
    what = "a Spark worker died" if died else f"the Spark job of an epoch failed: {said}"
    failure = EpochJobError(
        "an executor was lost" if lost else what,
        evidence={**_of_the_dead(dead), "spark": text if debug else said},
        fix=None if debug else "run again with --debug for Spark's own stack trace",
    )
    failure.suspect, failure.lost_executor = died, lost
    steps = [one.step for one in dead if one.step]
    if steps:
        failure.fields["step"] = steps[0]
    return failure


def _of_the_dead(dead: Sequence[Stuck]) -> dict[str, str]:
    """Return what is known of workers that died."""
    if not dead:
        return {}
    facts = {"worker": "\n".join(one.text for one in dead)}
    words = next(filter(None, (last_words(one.words) for one in dead)), None)
    facts["last words"] = words or (
        "none: it was killed, perhaps for lack of memory, or a function ended the process"
    )
    return facts


def last_words(words: str) -> str:
    r"""Return what the fault handler wrote as a worker crashed, if it did.

    Example:
        >>> last_words("File 1\nFatal Python error: Aborted\n\nCurrent thread 0x1\n")
        'Fatal Python error: Aborted\nCurrent thread 0x1'
    """
    _, found, rest = words.rpartition(_FATAL)
    lines = [line for line in f"{found}{rest}".splitlines() if line.strip()] if found else []
    return "\n".join(lines[:_LINES_KEPT])


def interrupted(dead: Sequence[Stuck]) -> JobInterruptedError:
    """Return the error for an epoch that was not done when the application had to stop."""
    return JobInterruptedError(
        "the application was stopped before its last epoch had finished",
        evidence={"worker": "\n".join(one.text for one in dead)} if dead else None,
        why="the epoch was still running after shutdown.grace; nothing of it is committed",
        fix="start the application again: it reruns the epoch; or give it more time with "
        "shutdown.grace",
    )


def spark_died(code: int | None, text: str, *, debug: bool) -> SparkDiedError:
    """Return the error for a JVM that is no more.

    Args:
        code: What its process returned, where that is known: a signal is negative.
        text: What was raised where it was asked for something.
        debug: Whether all of it is wanted.
    """
    ended = None if code is None else f"ended with {code}" if code >= 0 else f"killed by {-code}"
    evidence = {"jvm": ended} if ended else {}
    return SparkDiedError(
        "the JVM of Spark ended while the application was running",
        evidence={**evidence, "spark": text if debug else _first_words(text)},
        why="an application ends with its JVM; nothing of the epoch is committed",
        fix="start the application again: it continues after its last committed epoch; if the "
        "kernel killed the JVM for lack of memory (see dmesg), give the host more memory, or Spark "
        "less",
    )


def timed_out(stuck: Stuck, limit: float | None) -> ProcessingTimeoutError:
    """Return the error for a step that was at one batch for too long."""
    return ProcessingTimeoutError(
        f"a worker was killed after {limit:g} s with one batch",
        evidence={"worker": stuck.text},
        why="processing.timeout limits the time of a step for one batch; nothing of the epoch is "
        "committed",
        fix="add a timeout to whatever the function waits for, or raise processing.timeout; a "
        "lower epoch.max_records makes batches smaller",
        fields={"record": stuck.record},
    )


def raised_in_worker(text: str) -> str | None:
    r"""Return the first line of the exception that a worker raised, if it was one.

    Example:
        >>> raised_in_worker("PythonException: Traceback (most recent call last):\n"
        ...                  "  File 'x'\nValueError: no\n  at all\n\n\tat java.Foo")
        'ValueError: no'
    """
    _, found, rest = text.rpartition(_TRACEBACK)
    if not found:
        return None
    lines = rest.partition(_JAVA_STACK)[0].splitlines()
    told = (line for line in lines if line.strip() and not line.startswith(" "))
    return next(told, "")[:_LONGEST] or None


def _first_words(text: str) -> str:
    """Return what an error of the JVM says, without where it says so."""
    lines = [line.strip(" \t:") for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "An error occurred"))]
    return lines[0][:_LONGEST] if lines else text[:_LONGEST]


def error_of(failure: Failure) -> BaseException:
    """Return the error that a task reported."""
    if isinstance(failure.error, MustelaError):
        return failure.error
    line = failure.text.strip().splitlines()[-1]
    error = shortage_told(failure.text) or WorkerError(
        f"a task failed: {line}",
        evidence={"worker": failure.text},
        fix="this is a bug in Mustela, or a function that broke the worker: please report it",
    )
    error.__cause__ = failure.error
    return error
