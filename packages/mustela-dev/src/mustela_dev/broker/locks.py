"""A lock between processes, which the system releases when its holder dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO

from mustela.errors import EnvironmentFault

__all__ = ["LOCK_WAIT_S", "LockTimeoutError", "locked"]

LOCK_WAIT_S = 900.0
POLL_S = 0.1


class LockTimeoutError(EnvironmentFault):
    """Another process held a lock for too long."""

    code = "LOCK_TIMEOUT"
    retryable = True


@contextlib.contextmanager
def locked(
    path: Path, on_wait: Callable[[], None], *, wait_s: float = LOCK_WAIT_S
) -> Generator[None]:
    """Hold the lock of the file ``path`` while the body runs.

    Args:
        path: The file; it is created if needed, and stays.
        on_wait: Called once when another process holds the lock.
        wait_s: Seconds to wait for it.

    Raises:
        LockTimeoutError: If another process held it during all that time.
    """
    with path.open("ab") as stream:
        for attempt in range(max(1, int(wait_s / POLL_S))):
            if _taken(stream):
                break
            if attempt == 0:
                on_wait()
            time.sleep(POLL_S)
        else:
            what = f"another process has held {path} for {wait_s:g} s"
            raise LockTimeoutError(what, fix=f"find out which: fuser '{path}'")
        yield


def _taken(stream: IO[bytes]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True
