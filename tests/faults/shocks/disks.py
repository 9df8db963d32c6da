"""A disk runs full: the one of local state, of the spool, of Spark's own directory."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
import time
from functools import cache, partial
from pathlib import Path

from tests.faults.kinds.kind import Kind
from tests.faults.life import Life, require
from tests.faults.shocks.shock import Profile, Shock

__all__ = ["SHOCKS"]

SIZE = "96m"
FULL_S = 5.0
SPOOL = "~spool"


def _places(life: Life) -> dict[str, Path]:
    campaign = life.campaign
    return {
        "state": campaign.state_dir,
        "spool": campaign.state_dir / SPOOL,
        "spark": campaign.directory / "spark",
    }


def fill(life: Life, what: str) -> str:
    """Put a directory on a small disk and fill that, under a running application or a new start.

    It goes on, or ends with a named error and can be started when there is room again.
    """
    life.child()
    life.kill_app()
    campaign = life.campaign
    place = _places(life)[what]
    if place not in campaign.mounts:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        options = f"size={SIZE},mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True)
        campaign.mounts.append(place)
        campaign.is_damaged = True
    ballast = place / "ballast"
    runs_first = life.random.random() < 0.6
    if runs_first:
        life.child()
    try:
        size = _fill(ballast)
        if not runs_first:
            life.start()
        ended = _ends_or_bears(life)
        left = os.statvfs(place)
    finally:
        ballast.unlink(missing_ok=True)
    when = "while it ran" if runs_first else "before its start"
    return f"{size >> 20} MB filled {what} {when}, {left.f_bavail} blocks left: {ended}"


def _fill(ballast: Path) -> int:
    """Write until there is no room; return how much that was."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                require(error.errno == errno.ENOSPC, f"{error}")
        return file.tell()


def _ends_or_bears(life: Life) -> str:
    """Give it time to notice; return how it took it."""
    child = life.campaign.child
    assert child is not None
    deadline = time.monotonic() + FULL_S
    while child.returncode is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return "bears it" if child.returncode is None else f"ends with {life.check_end(child)}"


@cache
def missing() -> str:
    """Say why there can be no small disk here."""
    if os.geteuid() != 0:
        return "a small disk needs root"
    with tempfile.TemporaryDirectory() as place:
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", place]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return "nothing can be mounted here"
        subprocess.run(["umount", place], check=True)
    return ""


def _on_disk(kind: Kind, profile: Profile) -> bool:
    return kind.has_state and profile.get("MUSTELA__STATE__BACKEND") != "memory"


SHOCKS = [
    Shock(name="fill-state", strike=partial(fill, what="state"), fits=_on_disk, missing=missing),
    Shock(name="fill-spool", strike=partial(fill, what="spool"), fits=_on_disk, missing=missing),
    Shock(name="fill-spark", strike=partial(fill, what="spark"), missing=missing),
]
