"""The first process of a host: makes the host what it is, then waits for the end of its input.

When it ends, however it does, the kernel kills every process of its host and takes the network
away.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _furnish(host: dict[str, object]) -> None:
    """Give the host memory of its own for /tmp and /dev/shm, a disk, a name and a boot."""
    kept = [(os.open(str(path), os.O_PATH), str(path)) for path in host["keep"]]  # type: ignore[attr-defined]
    disk = os.open(str(host["disk"]), os.O_PATH)
    for place in ("/tmp", "/dev/shm"):
        _mount("-t", "tmpfs", "tmpfs", place)
    for descriptor, path in kept:
        Path(path).mkdir(parents=True, exist_ok=True)
        _mount("--no-canonicalize", "--bind", f"/proc/{os.getpid()}/fd/{descriptor}", path)
    at = Path(str(host["disk_at"]))
    at.mkdir(parents=True, exist_ok=True)
    _mount("--no-canonicalize", "--bind", f"/proc/{os.getpid()}/fd/{disk}", str(at))
    for descriptor in (disk, *(descriptor for descriptor, _ in kept)):
        os.close(descriptor)
    boot = Path("/tmp/.boot_id")
    boot.write_text(f"{host['boot']}\n", encoding="ascii")
    _mount("--bind", str(boot), _BOOT_ID)
    _mount("--bind", str(host["names"]), "/etc/hosts")
    subprocess.run(["hostname", str(host["name"])], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _reap(*_: object) -> None:
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def main() -> None:
    """Furnish the host as standard input's first line says, and wait for the end of the rest."""
    host = json.loads(sys.stdin.buffer.raw.readline())  # type: ignore[attr-defined]
    _furnish(host)
    signal.signal(signal.SIGCHLD, _reap)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while os.read(0, 1):
        pass


if __name__ == "__main__":
    main()
