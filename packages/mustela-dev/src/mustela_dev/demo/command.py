"""mustela demo."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

from cyclopts import Parameter

from mustela.cli.console import ExitCode, Json, print_json
from mustela.errors import UsageError

__all__ = ["TooFewLinesError", "demo"]

LINES = 600_000
LINES_MIN = 500


class TooFewLinesError(UsageError):
    """The input is too small to show anything."""

    code = "DEMO_TOO_FEW_LINES"


def demo(
    *,
    crash: Annotated[bool, Parameter(negative=())] = False,
    keep: Annotated[bool, Parameter(negative=())] = False,
    stop: Annotated[Path | None, Parameter(negative=())] = None,
    lines: int = LINES,
    lanes: int | None = None,
    json: Json = False,
) -> int:
    """Count words with a real Kafka broker and Spark, and check every count.

    Starts its own broker, feeds it the source files of Python's standard library, runs a program of
    fifteen lines, checks the results against collections.Counter, and cleans up. Exits with 1 on
    any fault.

    Args:
        crash: Kill the whole application with SIGKILL near 25, 50 and 75 % of the input.
        keep: Leave the broker and the application running, and say what to type next.
        stop: Only end the demonstration that was kept running in this directory.
        lines: Lines of the input.
        lanes: Lanes of the application; by default as many as there are cores.
        json: Print one line of JSON.
    """
    from mustela_dev.demo.kept import stop_kept
    from mustela_dev.demo.report import outcome_fields
    from mustela_dev.demo.stage import DemoOptions, run_demo

    if stop is not None:
        stop_kept(stop)
        return ExitCode.OK
    if lines < LINES_MIN:
        what = f"{lines} lines are too few for a demonstration"
        raise TooFewLinesError(what, fix=f"use at least {LINES_MIN}")
    options = DemoOptions(lines=lines, lanes=lanes, crash=crash, keep=keep, quiet=json)
    with _terminated_like_interrupted():
        outcome, faults = run_demo(options)
    if json:
        print_json(outcome_fields(outcome))
    return ExitCode.FAULT if faults else ExitCode.OK


@contextmanager
def _terminated_like_interrupted() -> Generator[None]:
    """Make SIGTERM and a closed terminal clean up in the same way as Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
