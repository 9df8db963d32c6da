"""Start, recognise and end one process, even if its id is reused."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mustela.processes import boot_id, read_process
from mustela_dev.broker import tether

__all__ = ["Child", "ProcessMark", "launch", "mark_of"]

POLL_S = 0.02
LAUNCH_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """Identifies a process, even if its id is reused.

    Attributes:
        pid: The process id.
        started: When it started, in clock ticks since boot.
        boot: The id of that boot.
    """

    pid: int
    started: int
    boot: str

    @property
    def alive(self) -> bool:
        """Whether exactly this process still runs; a zombie does not count."""
        return mark_of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process, but not to another one that has its id by now."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def mark_of(pid: int) -> ProcessMark | None:
    """Return the mark of the process that now has ``pid``, or None."""
    stat = read_process(pid)
    if stat is None or stat.state in {"Z", "X"}:
        return None
    return ProcessMark(pid=pid, started=stat.started, boot=boot_id())


@dataclass(slots=True, kw_only=True)
class Child:
    """A process that this program started, or found by its mark.

    Attributes:
        mark: Identifies the process.
        process: The handle to reap it with, if it is a child of this program.
    """

    mark: ProcessMark
    process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        if self.process is not None:
            # This also reaps it, unlike checking its mark.
            return self.process.poll() is None
        return self.mark.alive

    def end(self, *, patience_s: float) -> bool:
        """Ask it to end, and kill it if it has not ended after ``patience_s`` seconds.

        Returns:
            Whether it ended by itself.
        """
        self.mark.send(signal.SIGTERM)
        by_itself = self.wait(patience_s)
        if not by_itself:
            self.kill()
        return by_itself

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does, and wait until it is gone."""
        self.mark.send(signal.SIGKILL)
        self.wait(LAUNCH_TIMEOUT_S)

    def wait(self, limit_s: float) -> bool:
        """Wait until it has ended, at most ``limit_s`` seconds; return whether it has."""
        for _ in range(max(1, int(limit_s / POLL_S))):
            if not self.alive:
                return True
            time.sleep(POLL_S)
        return not self.alive


def launch(
    command: Sequence[str],
    *,
    log: Path,
    directory: Path,
    environment: Mapping[str, str],
    tied: bool,
) -> Child:
    """Start ``command`` in a new session, so that Ctrl-C in the terminal does not reach it.

    Args:
        command: The program, with its full path, and its arguments.
        log: File that its output is appended to.
        directory: Its working directory.
        environment: Its environment.
        tied: Whether it is killed when the calling thread, and so this program, ends. Otherwise it
            outlives this program.
    """
    shim = [sys.executable, "-I", "-S", str(Path(tether.__file__).resolve())]
    if not tied:
        answer = subprocess.run(
            [*shim, "detach", str(log.resolve()), *command],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=LAUNCH_TIMEOUT_S,
            check=True,
        )
        pid = int(answer.stdout)
        return Child(mark=mark_of(pid) or ProcessMark(pid=pid, started=0, boot=""))
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*shim, "tie", str(os.getpid()), *command],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    mark = mark_of(process.pid) or ProcessMark(pid=process.pid, started=0, boot="")
    return Child(mark=mark, process=process)
