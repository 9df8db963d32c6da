"""The clock of the application steps ahead or back, and is put right again (libfaketime).

`waits.c` stands before libfaketime: without it librdkafka's deadlines are of another clock than its
waits. It is compiled where the application runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

from tests.faults.bugs import planting
from tests.faults.life import Life, require
from tests.faults.shocks.shock import Shock
from tests.patience import PATIENCE_S

__all__ = ["SHOCKS", "library", "waits"]

LIBRARY = "libfaketimeMT.so.1"
SOURCE = Path(__file__).with_name("waits.c")
STEPS_S = (86_400, 3_000, -1_500)
SMALL_STEPS_S = (20, -20)
TIMED = {"timers", "ticks", "asking", "replies"}
"""Kinds that do more the more time passes: a day would be half a million ticks."""
WRONG_S = (1.5, 3.0)


def step_clock(life: Life) -> str:
    """Step the clock of all processes of the application, wait for an epoch, step back."""
    campaign = life.campaign
    file = campaign.directory / "clock"
    if not file.exists():
        life.child()
        life.kill_app()
        file.write_text("+0\n")
        life.environment |= {
            **planting(),
            "FAULTS_CLOCK_LIBRARY": f"{waits(campaign.directory)}:{library()}",
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # newer versions' name of the next one
            "DONT_FAKE_MONOTONIC": "1",
        }
    child = life.child()
    step = life.random.choice(SMALL_STEPS_S if campaign.kind in TIMED else STEPS_S)
    try:
        file.write_text(f"{step:+d}\n")
        deadline = time.monotonic() + PATIENCE_S
        while (off := child.clock_off()) is None or abs(off - step) > abs(step) / 2:
            if child.returncode is not None or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        time.sleep(life.random.uniform(*WRONG_S))
    finally:
        file.write_text("+0\n")
    require(off is not None and abs(off - step) <= abs(step) / 2, f"its clock is {off} s off")
    return f"its clock was {off:.0f} s off"


@cache
def library() -> Path | None:
    """Return where libfaketime is."""
    return next(Path("/usr/lib").glob(f"*/faketime/{LIBRARY}"), None)


def waits(directory: Path) -> Path:
    """Compile the waits that go with a false clock; return where they are."""
    found = directory / "libwaits.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(found), str(SOURCE), "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    return found


@cache
def missing() -> str:
    """Install the library if need be; say why it cannot be had."""
    if shutil.which("cc") is None:
        return "there is no C compiler, which libfaketime needs something from: see waits.c"
    if library() is not None:
        return ""
    library.cache_clear()
    if os.geteuid() != 0:
        return "libfaketime is not installed, and only root may install it"
    command = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", "libfaketime"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"libfaketime cannot be installed: {error}"
    return "" if library() is not None else "libfaketime cannot be installed"


SHOCKS = [Shock(name="step-clock", strike=step_clock, missing=missing)]
