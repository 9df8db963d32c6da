"""Processes for statements: each runs one, and the next one is begun before it is asked for."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
from typing import Final

__all__ = ["Child", "Spare"]

_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; from mustela.sql.child import main; main()"
)


class Child:
    """A process that waits for its statement, or runs it.

    Attributes:
        end: The socket to it.
    """

    def __init__(self) -> None:
        self.end, theirs = socket.socketpair()
        with theirs:
            self._process = _started(theirs)

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self.end.close()
        self._process.wait()


class Spare:
    """Has a process ready when a statement comes soon after another one.

    To begin a process and load DuckDB takes longer than most statements.

    Args:
        kept_s: For how many seconds a process waits for a statement; with 0 none does.
    """

    def __init__(self, *, kept_s: float) -> None:
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._end: threading.Timer | None = None

    def take(self) -> Child:
        """Return a process that nobody else has."""
        child = self._taken()
        if child is not None and not child.lives:
            child.stop()
            child = None
        return child or Child()

    def renew(self) -> None:
        """Begin the process of the next statement, which is ended if none comes."""
        if self._kept_s <= 0:
            return
        with self._lock:
            if self._child is not None:
                return
            self._child = Child()
            self._end = threading.Timer(self._kept_s, self.stop)
            self._end.daemon = True
            self._end.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the process that waits, if there is one."""
        child = self._taken()
        if child is not None:
            child.stop()

    def _taken(self) -> Child | None:
        with self._lock:
            child, self._child = self._child, None
            if self._end is not None:
                self._end.cancel()
                self._end = None
        if child is not None:
            atexit.unregister(self.stop)
        return child


def _started(theirs: socket.socket) -> subprocess.Popen[bytes]:
    paths = [path or os.getcwd() for path in sys.path]
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _PROGRAM, *paths],
        stdin=theirs.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        close_fds=True,
        start_new_session=True,
    )
