"""What a Spark job that failed becomes: an error of ours that says why."""

from __future__ import annotations

from typing import Final

from mustela.errors import InvariantError, MustelaError
from mustela.plan.epoch import Failure
from mustela.runtime.engine import EpochJobError
from mustela.spark.shipment import ProgramNotLoadedError, not_loaded

__all__ = ["WorkerError", "error_of", "job_error", "raised_in_worker"]

_WORKER_DIED: Final = (
    "Python worker exited unexpectedly",
    "EOFException",
    "ExecutorLostFailure",
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_JAVA_STACK: Final = "\n\tat "
_NOT_LOADED: Final = f"{ProgramNotLoadedError.__module__}.{ProgramNotLoadedError.__qualname__}: "
_CANNOT_LOAD: Final = "a Spark worker cannot load the program: "
_IMPORTS: Final = ("ModuleNotFoundError: ", "ImportError: ")
_LONGEST: Final = 300


class WorkerError(InvariantError):
    """A task failed with an error that is not one of Mustela's own."""

    code = "WORKER"


def job_error(text: str, *, debug: bool, cluster: bool) -> MustelaError:
    """Return the error for what Spark says of a job that failed as a whole.

    Args:
        text: Its words.
        debug: Whether all of them are wanted.
        cluster: Whether workers run on other hosts.
    """
    line = raised_in_worker(text)
    if line is not None and line.startswith((_NOT_LOADED, *_IMPORTS)):
        told = line.removeprefix(_NOT_LOADED).removeprefix(_CANNOT_LOAD)
        error: MustelaError = not_loaded(told, cluster=cluster)
        if debug:
            error.evidence["spark"] = text
        return error
    died = any(sign in text for sign in _WORKER_DIED)
    said = line or _first_words(text)
    failure = EpochJobError(
        "a Spark worker died" if died else f"the Spark job of an epoch failed: {said}",
        evidence={"spark": text if debug else said},
        fix=None if debug else "run again with --debug for Spark's own stack",
    )
    failure.suspect = died
    return failure


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
    error = WorkerError(
        f"a task failed: {line}",
        evidence={"worker": failure.text},
        fix="this is a bug of Mustela's, or a function that broke the worker: report it",
    )
    error.__cause__ = failure.error
    return error
