"""Processes for statements, forked from one that has loaded DuckDB and never sees a statement.

To begin a process and load the libraries takes half a second of a core, to fork one that has them
some milliseconds. Each statement has a process of its own all the same, and that process ends with
it: what one statement leaves behind no other one can find.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

__all__ = ["Child", "ForkServer"]

_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; from mustela.sql.child import main; main()"
)
_PID_SIZE: Final = 16
_TRIES: Final = 2


class Child:
    """A process that waits for its statement, or runs it.

    Attributes:
        end: The socket to it.
        pid: Its number.
    """

    def __init__(self, server: ForkServer, end: socket.socket, pid: int, handle: int) -> None:
        self._server = server
        self.end = end
        self.pid = pid
        self._handle = handle

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return not self._ends_within(0)

    def stop(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        self.end.close()
        self._ends_within(None)
        os.close(self._handle)
        self._server.given_back()

    def _ends_within(self, milliseconds: int | None) -> bool:
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(milliseconds))


class ForkServer:
    """Forks a process for each statement; it begins with the first one.

    Args:
        kept_s: For how many seconds it stays when no statement runs.
    """

    def __init__(self, *, kept_s: float) -> None:
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._door: socket.socket | None = None
        self._taken = 0
        self._end: threading.Timer | None = None

    @property
    def pid(self) -> int | None:
        """Number of the process that others are forked from, if there is one."""
        return None if self._process is None else self._process.pid

    def take(self) -> Child:
        """Return a process that nobody else has, to be stopped by its user.

        Raises:
            OSError: If none can be begun.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._lock:
                self._forget_end()
                pid, handle = self._forked(theirs)
                self._taken += 1
        except BaseException:
            ours.close()
            raise
        return Child(self, ours, pid, handle)

    def given_back(self) -> None:
        """Count a process that was taken, and has ended."""
        with self._lock:
            self._taken -= 1
            if self._taken == 0 and self._process is not None:
                self._forget_end()
                self._end = threading.Timer(self._kept_s, self._stop_unless_used)
                self._end.daemon = True
                self._end.start()

    def stop(self) -> None:
        """End it; processes that were taken go on."""
        with self._lock:
            self._forget_end()
            self._stop()

    def _forked(self, theirs: socket.socket) -> tuple[int, int]:
        for _ in range(_TRIES):
            with suppress(OSError):  # it has died: another one is begun
                door = self._door or self._begun()
                socket.send_fds(door, [b"+"], [theirs.fileno()])
                said, handles, _, _ = socket.recv_fds(door, _PID_SIZE, 1)
                if handles:
                    return int(said), handles[0]
            self._stop()
        msg = "the process that statements' processes are forked from has ended"
        raise ChildProcessError(msg)

    def _begun(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _started(theirs)
        self._door = ours
        atexit.register(self.stop)
        return ours

    def _forget_end(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _stop_unless_used(self) -> None:
        with self._lock:
            if self._taken == 0 and self._end is threading.current_thread():
                self._end = None
                self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
        door, self._door = self._door, None
        if door is not None:
            door.close()
        if process is not None:
            process.kill()
            process.wait()
            atexit.unregister(self.stop)


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
