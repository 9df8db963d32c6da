"""The application of the demonstration as a process, and killing its whole process tree."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from mustela.errors import InvariantError
from mustela_dev.broker.child import Child, ProcessMark, launch, mark_of

__all__ = ["AppEndedError", "AppProcess", "child_environment", "kill_tree"]

MARK = "MUSTELA_DEMO_RUN"
LOG_TAIL_LINES = 30
LOG_TAIL_BYTES = 32 << 10
GONE_TIMEOUT_S = 20.0
POLL_S = 0.02
STOP_TIMEOUT_S = 90.0
_OWN_SETTINGS = (
    "MUSTELA__APPLICATION_ID",
    "MUSTELA__BOOTSTRAP_SERVERS",
    "MUSTELA__DEAD_LETTER",
    "MUSTELA__EPOCH_HEADER",
    "MUSTELA__KAFKA",
    "MUSTELA__LANES",
    "MUSTELA__PROCESSING_GUARANTEE",
    "MUSTELA__STATE_DIR",
    "MUSTELA_CONFIG_FILE",
    "MUSTELA_FAULT_",
)


class AppEndedError(InvariantError):
    """The application of the demonstration ended by itself."""

    code = "DEMO_APP_ENDED"


def child_environment(
    base: Mapping[str, str], scratch: Path, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of the application: the user's, without settings of Mustela and Spark.

    Args:
        base: The environment of this process.
        scratch: The directory for temporary files of the application and Spark.
        extra: Further variables.
    """
    kept = {name: value for name, value in base.items() if not name.startswith(_OWN_SETTINGS)}
    temporary = scratch / "tmp"
    temporary.mkdir(exist_ok=True)
    own = {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary), MARK: str(scratch)}
    return {**kept, **own, **(extra or {})}


class AppProcess:
    """Runs the program with ``mustela run``, as a user would.

    Args:
        target: ``module:app``.
        directory: The directory of the module and ``mustela.yaml``.
        scratch: The directory for temporary files; it also identifies this run's processes.
        tied: Whether it is killed when this program ends.
    """

    def __init__(self, target: str, directory: Path, scratch: Path, *, tied: bool) -> None:
        self._target = target
        self._directory = directory
        self._scratch = scratch
        self._tied = tied
        self._child: Child | None = None
        self.log_file = scratch / "app.log"

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._child is not None and self._child.alive

    @property
    def mark(self) -> ProcessMark:
        """The mark that identifies its process."""
        assert self._child is not None, "it was not started"
        return self._child.mark

    def start(self, extra: Mapping[str, str] | None = None) -> None:
        """Start it, and return at once.

        Args:
            extra: Further variables of its environment.
        """
        self._child = launch(
            [sys.executable, "-m", "mustela.cli.main", "run", self._target],
            log=self.log_file,
            directory=self._directory,
            environment=child_environment(os.environ, self._scratch, extra),
            tied=self._tied,
        )

    def kill(self) -> int:
        """Kill it and all its descendants, as ``kill -9`` does; return how many were killed."""
        child, self._child = self._child, None
        if child is None or not child.alive:
            return 0
        killed = kill_tree(child.mark.pid)
        child.wait(GONE_TIMEOUT_S)
        return killed

    def stop(self) -> int | None:
        """Ask it to stop and wait; return its exit code, or None if unknown."""
        child = self._child
        if child is None:
            return None
        by_itself = child.end(patience_s=STOP_TIMEOUT_S)
        self._child = None
        if not by_itself:
            return -9
        return None if child.process is None else child.process.returncode

    def sweep(self) -> int:
        """Kill all remaining processes of this run; return how many were killed."""
        self.kill()
        left: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self._scratch):
                    process.kill()
                    left.append(process)
            except (psutil.Error, OSError):
                continue
        _wait_until_gone(left)
        return len(left)

    def check_alive(self) -> None:
        """Raise if it has ended.

        Raises:
            AppEndedError: With the last lines that it printed.
        """
        if not self.alive:
            what = "the application of the demonstration ended on its own"
            raise AppEndedError(
                what, evidence={"says": self.log_tail() or "nothing"}, fix="read its log"
            )

    def log_tail(self) -> str:
        """Return the last lines that it printed."""
        try:
            data = self.log_file.read_bytes()[-LOG_TAIL_BYTES:]
        except OSError:
            return ""
        lines = data.decode("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])


def kill_tree(pid: int) -> int:
    """Kill a process and all its descendants at once; return how many there were.

    They are suspended first, from the root down, so that none can start another meanwhile.
    """
    try:
        root = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return 0
    family: dict[int, psutil.Process] = {}
    while True:
        found = [root, *_children(root)]
        fresh = [process for process in found if process.pid not in family]
        if not fresh:
            break
        for process in fresh:
            family[process.pid] = process
            try:
                process.suspend()
            except psutil.Error:
                continue
    for process in family.values():
        try:
            process.kill()
        except psutil.Error:
            continue
    # The root is a child of this program and is reaped by its starter.
    others = [process for process in family.values() if process.pid != pid]
    _wait_until_gone(others)
    return len(family)


def _wait_until_gone(processes: Sequence[psutil.Process]) -> None:
    """Wait until none is running; unreaped zombies, as in containers, do not count."""
    marks = [mark for mark in (mark_of(process.pid) for process in processes) if mark is not None]
    pause = threading.Event()
    for _ in range(int(GONE_TIMEOUT_S / POLL_S)):
        if not any(mark.alive for mark in marks):
            return
        pause.wait(POLL_S)


def _children(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.Error:
        return []
