"""The machine restarts: everything ends by SIGKILL, the broker too, and the boot has another id."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from functools import cache
from pathlib import Path

from tests.faults.life import Life, require
from tests.faults.shocks.shock import Shock

__all__ = ["SHOCKS"]

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def restart_machine(life: Life) -> str:
    """Kill application and broker; start both, the application under another boot id."""
    life.child()
    boot = life.directory / "boot_id"
    boot.write_text(f"{uuid.UUID(int=life.random.getrandbits(128))}\n")
    before = life.broker.mark
    count = life.kill_app()
    life.broker.kill()
    require(not before.alive, f"broker {before.pid} lives on")
    life.campaign.is_damaged = True
    life.campaign.wrapper = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    life.campaign.wrapper += [f'mount --bind {boot} {BOOT_ID} && exec "$@"', "sh"]
    life.broker.start()
    child = life.start()
    life.settle(life.epoch)
    seen = Path(f"/proc/{child.pid}/root{BOOT_ID}").read_text()
    require(seen == boot.read_text(), f"the application sees boot {seen}")
    restored = child.restored()
    return f"{count} processes and the broker killed, boot {seen[:8]}, {restored} rows restored"


@cache
def missing() -> str:
    """Say why there can be no other boot id here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "another boot id needs root and unshare"
    tried = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "true"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else "no mount namespace can be made here"


SHOCKS = [Shock(name="restart-machine", strike=restart_machine, missing=missing)]
