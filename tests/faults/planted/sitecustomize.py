"""Plants a bug, or a sleep that bears a false clock, into each Python process."""

from __future__ import annotations

import os
import sys

if os.environ.get("FAULTS_BUG"):
    from tests.faults.bugs import plant

    plant(os.environ["FAULTS_BUG"])

LIBRARY = os.environ.get("FAULTS_CLOCK_LIBRARY")
if LIBRARY and os.environ.get("LD_PRELOAD") != LIBRARY:
    # Every Python process loads it by itself, because a JVM that has it hardly gets on.
    os.execve(sys.executable, sys.orig_argv, {**os.environ, "LD_PRELOAD": LIBRARY})
elif LIBRARY:
    import select
    import time

    del os.environ["LD_PRELOAD"]

    def sleep(seconds: float) -> None:
        """Sleep by select: libfaketime refuses clock_nanosleep with an absolute time (EINVAL)."""
        select.select([], [], [], seconds)

    time.sleep = sleep
