"""One writer at a time, with a deadline.

LMDB's own write lock has no deadline: a writer that is stopped (not killed) while it holds the
lock would block every other process forever. This lock is taken first, and times out.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from mustela.state.faults import StateLockedError, gone

__all__ = ["WriteLock", "hold", "is_held", "try_hold"]

_STEP_MS = 5


def hold(path: Path) -> int:
    """Take the lock of a new file for as long as this process lives.

    Returns:
        The descriptor that holds it; closing it releases the lock.
    """
    descriptor = _opened(path, os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def try_hold(path: Path) -> int | None:
    """Take the lock of a file, if no live process holds it.

    Returns:
        The descriptor that holds it, until it is closed; None if somebody else does.
    """
    descriptor = _opened(path, os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether a live process holds the lock of a file.

    Raises:
        OSError: If the file does not exist, or cannot be opened.
    """
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)


def _released(descriptor: int) -> None:
    # A child forked meanwhile shares the lock: closing is not enough to release it.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


class WriteLock:
    """A lock file; the kernel frees it when its holder dies.

    A thread that holds it may take it again.

    Args:
        path: The file; it stays when the environment is destroyed.
        timeout_ms: How long to try.
        pause: Waits for some seconds; tests pass their own.
    """

    def __init__(
        self, path: Path, timeout_ms: int, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._path = path
        self._tries = max(1, timeout_ms // _STEP_MS)
        self._timeout_ms = timeout_ms
        self._pause = pause
        self._thread = threading.RLock()
        self._depth = 0
        self._descriptor = -1

    def held(self) -> Self:
        """Hold the lock for a ``with`` block.

        Raises:
            StateLockedError: If another process did not release it in time.
        """
        return self

    def __enter__(self) -> None:
        if not self._thread.acquire(timeout=self._timeout_ms / 1000):
            raise self._locked()
        try:
            if not self._depth:
                self._descriptor = self._file_taken()
        except BaseException:
            self._thread.release()
            raise
        self._depth += 1

    def __exit__(self, *_raised: object) -> None:
        self._depth -= 1
        try:
            if not self._depth:
                _released(self._descriptor)
        finally:
            self._thread.release()

    def _file_taken(self) -> int:
        try:
            descriptor = _opened(self._path, os.O_CREAT)
        except FileNotFoundError as error:
            raise gone(self._path.parent) from error
        try:
            self._take(descriptor)
        except BaseException:
            _released(descriptor)
            raise
        return descriptor

    def _take(self, descriptor: int) -> None:
        for _ in range(self._tries):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._pause(_STEP_MS / 1000)
            else:
                return
        raise self._locked()

    def _locked(self) -> StateLockedError:
        msg = f"another process has been writing this state for {self._timeout_ms} ms"
        return StateLockedError(
            msg,
            evidence={"lock": self._path},
            why="one process at a time writes to a key group's state",
            fix="look for a stopped process of this application, and end it",
            fields={"path": str(self._path)},
        )
