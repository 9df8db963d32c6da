"""Namespaces of the kernel: who may make them, and a way into a network for one thread."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

__all__ = ["NEW_HOST", "entered", "ip", "why_not"]

_CLONE_NEWNET = 0x40000000
NEW_HOST = ("unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--mount-proc")
"""What puts a program into a network, a view of the disks, and processes of its own."""
_TOOLS = ("unshare", "nsenter", "ip", "mount", "hostname")


@cache
def why_not() -> str | None:
    """Return why this machine lets nobody make a cluster, or None if it does."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"a cluster of hosts needs {', '.join(missing)}"
    tried = subprocess.run(
        [*NEW_HOST, "sh", "-c", "ip link add probe type bridge && mount -t tmpfs tmpfs /tmp"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"a cluster of hosts needs namespaces, as root or in `unshare --user -r`: {said}"
    return None


@contextmanager
def entered(pid: int) -> Generator[None]:
    """Put the calling thread, and those it starts, into the network of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    inside = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        _enter(libc, inside)
        try:
            yield
        finally:
            _enter(libc, before)
    finally:
        os.close(before)
        os.close(inside)


def _enter(libc: ctypes.CDLL, network: int) -> None:
    if libc.setns(network, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def ip(pid: int, *words: str) -> None:
    """Run ``ip`` in the network of a process.

    Raises:
        CalledProcessError: If it fails.
    """
    command = ["nsenter", "--target", str(pid), "--net", "ip", *words]
    subprocess.run(command, check=True, capture_output=True)
