"""The executors of a cluster: who is there, and waiting for somebody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mustela.clock import Clock
from mustela.errors import EnvironmentFault

__all__ = ["DEADLINE_S", "ExecutorsMissingError", "wait_for_executors"]

DEADLINE_S: Final = 300.0
"""So long an application waits for an executor before it fails."""

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
