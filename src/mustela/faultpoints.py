"""Named places in the commit protocol where a test can stop a process to kill it there.

In production a point costs one test of a variable. With ``MUSTELA_FAULT_POINT=name`` or
``name:n`` and ``MUSTELA_FAULT_DIR`` set, the process that reaches the point for the n-th time
writes a file ``name`` into that directory and sleeps until it is killed or the file is deleted.
With ``MUSTELA_FAULT_POINT=*`` a test chooses while the process runs: the first process to reach a
point named by a file ``want-<name>`` takes that file.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["FAULT_POINTS", "armed", "reach"]

FAULT_POINTS = (
    "before-job",
    "in-source",
    "in-lane-before-pending",
    "in-lane-after-pending",
    "in-lane-writing",
    "in-lane-written",
    "in-owner-writing",
    "in-owner-written",
    "transaction-begun",
    "half-produced",
    "flushed",
    "offsets-added",
    "commit-sent",
    "committed",
    "in-recovery",
    "replica-before-pending",
    "replica-after-pending",
    "standby-begins",
    "standby-claimed",
    "standby-caught-up",
    "handing-over",
)
"""Every point, in the order of the protocol."""

ANY = "*"
POLL_S = 0.02
_WANTED, _, _COUNT = os.environ.get("MUSTELA_FAULT_POINT", "").partition(":")
_LEFT = [int(_COUNT or 1)]


def armed() -> bool:
    """Return whether a test wants this process to stop somewhere."""
    return bool(_WANTED)


def reach(name: str) -> None:
    """Say that the process has reached the point ``name``.

    Example:
        >>> reach("flushed")
    """
    assert name in FAULT_POINTS, name
    if name != _WANTED and _WANTED != ANY:
        return
    marker = Path(os.environ["MUSTELA_FAULT_DIR"]) / name
    if _WANTED == ANY:
        try:
            marker.with_name(f"want-{name}").rename(marker)
        except FileNotFoundError:
            return
        marker.write_text(str(os.getpid()))
    else:
        _LEFT[0] -= 1
        if _LEFT[0] > 0:
            return
        try:
            with marker.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return
    while marker.exists():
        time.sleep(POLL_S)
