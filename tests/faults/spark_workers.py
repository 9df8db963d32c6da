"""The Python workers of the Spark that this process has."""

from __future__ import annotations

from contextlib import suppress

import psutil

from tests.patience import PATIENCE_S

_DAEMON = "mustela.spark.daemon"


def python_workers() -> list[psutil.Process]:
    """Return those that live: the children of the daemon that forks them."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            parent = process.parent()
            if parent is not None and _DAEMON in " ".join(parent.cmdline()):
                found.append(process)
    return found


def kill_workers() -> int:
    """Kill all of them with SIGKILL, see that they are gone, and return how many there were."""
    found = python_workers()
    for worker in found:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    _, left = psutil.wait_procs(found, timeout=PATIENCE_S)
    alive = [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert not alive, f"{alive} live on"
    return len(found)
