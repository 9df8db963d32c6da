"""What functions of the user's log in workers: in the application's form, with where they are.

Nothing is noted for it while records run: where a function is, is looked for when it logs, in what
the worker writes of itself anyway and in the frames that the function is called from.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from mustela.logs.form import Facts, json_line
from mustela.logs.options import LogOptions
from mustela.logs.output import LogOutput
from mustela.plan.plan import Plan
from mustela.spark.busy import Activity, Doing, record_at

__all__ = ["Place", "worker_log"]


class Place(NamedTuple):
    """Where a worker is.

    Attributes:
        plan: What it runs.
        doing: What it is at.
        epoch: The epoch, or -1.
    """

    plan: Plan
    doing: Doing
    epoch: int


def worker_log(options: LogOptions | None, where: Callable[[], Place]) -> LogOutput | None:
    """Set up the logging of a worker; None where the application did not set up its own.

    Args:
        options: How the application logs.
        where: Says where the worker is.
    """
    if options is None:
        return None

    def facts() -> Facts:
        # Calls to the outside have threads of their own, which say by themselves where they are.
        if threading.current_thread() is not threading.main_thread():
            return {}
        return _facts(where(), inspect.currentframe())

    return LogOutput(options, place=facts, render=json_line if options.relayed else None)


def _facts(place: Place, frame: FrameType | None) -> dict[str, Any]:
    doing = place.doing
    if doing.kind == Activity.REST:
        return {}
    stage = place.plan.stages[doing.stage]
    found: dict[str, Any] = {"epoch": place.epoch, "stage": doing.stage}
    found["lane" if doing.stage else "task"] = doing.task
    if 0 <= doing.step < len(stage.steps):
        found["step"] = stage.steps[doing.step].name
    record = record_at(frame)
    origin = None if record is None else record[0].context(record[1])
    if origin is not None and origin.topic is not None:
        found |= {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
    elif doing.topic >= 0:
        found |= {"topic": place.plan.topics[doing.topic], "partition": doing.partition}
    return found
