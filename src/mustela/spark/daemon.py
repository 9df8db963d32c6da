"""The parent of Spark's Python workers, with everything a task needs already imported.

Spark starts this module instead of its own daemon and forks a worker from it whenever one is
needed. Workers so share the memory of the imported code and are ready at once. They look for
garbage by rules of their own (`mustela.spark.garbage`), and never at what was imported, or at what
their first tasks leave, such as the program.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mustela.spark.early import EARLY, hand_over, wait_for_spark
from mustela.spark.forks import AGAIN, Sockets, Worker, can_serve, open_sockets, serve
from mustela.spark.garbage import GARBAGE

UnraisableHook = Callable[[Any], object]

_MODULES = (
    "confluent_kafka",
    "lmdb",
    "msgspec",
    "pyspark.daemon",
    "pyspark.core.broadcast",
    "pyspark.shuffle",
    "pyspark.worker",
    "mustela.spark.lane_writer",
    "mustela.spark.owners",
    "mustela.spark.small_epochs",
    "mustela.spark.worker",
)
"""What tasks use; none of these opens a file when it is imported, or starts a thread."""

_FROZEN_AFTER = (1, 3, 10)
"""After so many tasks of a worker what it has is taken for what it will keep. Not after each: of
what was frozen no cycle is ever freed."""


def used_again(worker: Worker) -> Worker:
    """Return ``worker`` for tasks that follow each other in one process.

    When Spark closes the socket of an idle one there is no traceback; and what the first tasks
    leave is frozen. Looking at 35,000 objects took 8 to 20 ms after each task.
    """
    tasks = 0

    def run(sock: socket.socket, authenticated: bool) -> int:
        nonlocal tasks
        if not tasks:
            sys.unraisablehook = but_for_broken_pipes(sys.unraisablehook)
            GARBAGE.take_over()
        try:
            code = worker(sock, authenticated)
        except BrokenPipeError:
            return 1
        tasks += 1
        if tasks in _FROZEN_AFTER:
            GARBAGE.freeze()
        else:
            GARBAGE.between_tasks()
        return code

    return run


def leave_garbage(daemon: Any) -> None:
    """Let Spark's daemon not look for garbage after each task: `used_again` does, where it pays."""
    daemon.gc = SimpleNamespace(collect=lambda: 0)


def but_for_broken_pipes(hook: UnraisableHook) -> UnraisableHook:
    """Return ``hook`` for all but what a buffer raises that is dropped with its socket closed.

    From Python 3.13 on this is reported, and no caller can catch it.
    """

    def report(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, BrokenPipeError):
            hook(unraisable)

    return report


def without_archives(path: list[str]) -> list[str]:
    """Return ``path`` without the zip files of a Spark that is installed as a package as well.

    Spark puts them first. Python keeps no compiled code of what it imports from a zip file, so each
    start compiled PySpark anew, which took more than a second.

    Example:
        >>> without_archives(["/opt/spark/python/lib/pyspark.zip", "/home/me"])
        ['/opt/spark/python/lib/pyspark.zip', '/home/me']
    """
    files = [entry for entry in path if not entry.endswith(".zip")]
    spark, py4j = (PathFinder.find_spec(name, files) for name in ("pyspark", "py4j"))
    if spark is None or spark.origin is None or py4j is None:
        return path
    own = Path(spark.origin).parent / "python" / "lib"
    return [entry for entry in path if Path(entry).parent != own or entry in files]


def main() -> None:
    """Import, freeze what was imported, and serve Spark."""
    words = sys.argv[1:]
    if words[:1] == [AGAIN]:
        sys.argv[1:] = words[3:]
        _prepare()
        _serve(Sockets.of(words[1:3]))
        return
    if words[:1] == ["--early"]:
        held = wait_for_spark(Path(words[1]), _prepare, _run_alone, int(words[2]))
        if held is None:
            return
        sys.path[:] = without_archives(sys.path)
        if can_serve():
            _serve(open_sockets(held))
            return
    else:
        early = os.environ.pop(EARLY, "")
        if early and hand_over(Path(early), words):
            return
        _prepare()
    from pyspark import daemon

    daemon.worker = used_again(daemon.worker)
    leave_garbage(daemon)
    daemon.manager()


def _serve(sockets: Sockets) -> None:
    from pyspark import daemon

    serve(sockets, used_again(daemon.worker))


def _run_alone(task: bytes) -> None:
    """Run a task of the driver's, in a process that was forked for it, as a worker of Spark's."""
    sys.unraisablehook = but_for_broken_pipes(sys.unraisablehook)
    GARBAGE.take_over()
    from mustela.spark.frames import load_object

    for _ in load_object(task)(0, ()):
        pass


def _prepare() -> None:
    sys.path[:] = without_archives(sys.path)
    GARBAGE.take_over()  # imports make little
    for module in _MODULES:
        importlib.import_module(module)
    GARBAGE.freeze()
    GARBAGE.give_back()  # imports took more than they need now


if __name__ == "__main__":
    main()
