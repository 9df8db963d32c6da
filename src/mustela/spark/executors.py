"""The executors of a cluster: who is there, waiting for somebody, and when nobody is left."""

from __future__ import annotations

from collections.abc import Callable, Generator, Set as AbstractSet
from contextlib import contextmanager, suppress
from itertools import count as count_from
from threading import Event, Thread
from typing import Any, Final

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

from mustela.clock import Clock
from mustela.errors import EnvironmentFault

__all__ = [
    "DEADLINE_S",
    "NOBODY_LEFT",
    "ONE_LOST",
    "ExecutorsMissingError",
    "connected_executors",
    "count_executors",
    "not_without_executors",
    "scheduler_of",
    "wait_for_executors",
]

DEADLINE_S: Final = 300.0
"""So long an application waits for an executor before it fails."""

NOBODY_LEFT: Final = "no executor is left"
"""Why a job was cancelled, as Spark repeats it."""

ONE_LOST: Final = "an executor was lost whose lanes it has"
"""Why else."""

_TAG: Final = "mustela-epochs"
_LOOK_S: Final = 0.05
_EMPTY_S: Final = 1.0
"""So long nobody must be there."""

_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0
_TOLD_EVERY_S: Final = 10.0
_INSTANCES: Final = "spark.executor.instances"


class ExecutorsMissingError(EnvironmentFault):
    """No executor came to run the application's tasks."""

    code = "EXECUTORS_MISSING"
    retryable = True


def count_executors(context: Any) -> int:
    """Return how many executors the driver of a context knows; it is none of them itself."""
    return max(0, len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1)


def wait_for_executors(
    context: Any,
    *,
    clock: Clock,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
    count: Callable[[Any], int] = count_executors,
) -> None:
    """Return when there is an executor; say so while there is none.

    Args:
        context: Spark's context.
        clock: Monotonic time.
        say: Told at once, and again every ten seconds.
        stopped: Whether nobody needs an executor any more.
        count: Counts the executors of a context.

    Raises:
        ExecutorsMissingError: If none came within `DEADLINE_S`.
    """
    if count(context) or stopped():
        return
    wanted = context.getConf().get(_INSTANCES, "") or "1"
    began, told, pause = clock.monotonic(), None, _PAUSE_S
    while not count(context) and not stopped():
        now = clock.monotonic()
        if now - began >= DEADLINE_S:
            msg = f"no executor came within {DEADLINE_S:g} s: 0 of {wanted}"
            raise ExecutorsMissingError(
                msg,
                why=f"epochs run on executors, and {context.master} gave none",
                fix="see on the master's page whether its workers have the memory and the cores "
                "that spark.executor.memory and spark.executor.cores ask for, and start the "
                "application again",
                fields={"master": str(context.master)},
            )
        if told is None or now - told >= _TOLD_EVERY_S:
            say(f"waiting for executors, 0 of {wanted}")
            told = now
        clock.sleep(pause)
        pause = min(_PAUSE_MAX_S, 2 * pause)


def scheduler_of(context: Any) -> Any:
    """Return what holds the connections to executors of a cluster's context, as long as that lives.

    Who asks often keeps it: each handle on the way to it costs a question to the JVM, and another
    one to give it back.
    """
    return context._jsc.sc().schedulerBackend()


def connected_executors(scheduler: Any) -> set[str]:
    """Return the numbers of the executors that the driver can reach."""
    return set(str(scheduler.getExecutorIds().mkString("\n")).splitlines())


@contextmanager
def not_without_executors(
    context: Any,
    needed: AbstractSet[str] = frozenset(),
    *,
    count: Callable[[Any], int] = count_executors,
    connected: Callable[[Any], AbstractSet[str]] = connected_executors,
    look_s: float = _LOOK_S,
    empty_s: float = _EMPTY_S,
) -> Generator[None]:
    """Cancel the jobs of a block when an executor that they need is gone, or the last one.

    Spark would keep lanes for the host of one that is gone as long as it waits for locality, and
    have those run again that had run there, which refuse. If nobody is left it would wait for ever.
    A job that is cancelled fails, its epoch is tried again at the lanes' second homes, and if there
    is nobody, that waits with a deadline.

    Args:
        context: Spark's context.
        needed: The executors where lanes are at home.
        count: Counts the executors of a context.
        connected: Tells those that the driver can reach, of the context's scheduler.
        look_s: How often to look for those that are needed.
        empty_s: How long nobody must have been there.
    """
    over = Event()

    def cancel(why: str) -> None:
        if not over.is_set():
            context._jsc.sc().cancelJobsWithTag(_TAG, why)

    def look() -> None:
        scheduler: Any = None
        empty, every = False, max(1, round(empty_s / look_s))
        for turn in count_from(1):
            if over.wait(look_s):
                return
            with suppress(Py4JError, OSError):  # the JVM ends: the job will say so
                if needed:
                    scheduler = scheduler or scheduler_of(context)
                    if not needed <= connected(scheduler):
                        cancel(ONE_LOST)
                if turn % every == 0:
                    before, empty = empty, count(context) == 0
                    if before and empty:
                        cancel(NOBODY_LEFT)

    context.addJobTag(_TAG)
    watch = Thread(target=look, name="mustela-executors", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
