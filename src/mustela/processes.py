"""What Linux says of the processes of this machine. An id alone names none: it is used again."""

from __future__ import annotations

import gc
import resource
import select
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "ProcessStat",
    "boot_id",
    "collection_paused",
    "is_ready",
    "listening_users",
    "peer_of",
    "queued_seconds",
    "read_process",
    "resident_bytes",
]

_PEER: Final = struct.Struct("=iii")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_SCHEDULED: Final = Path("/proc/thread-self/schedstat")
_NS_PER_S: Final = 1e9
_SOCKETS: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"


class ProcessStat(NamedTuple):
    """What ``/proc/PID/stat`` says of a process.

    Attributes:
        name: Its program's name, at most 15 characters.
        state: A letter: ``Z`` for one that has ended and that its parent has not yet reaped.
        parent: The id of its parent.
        started: When it started, in clock ticks since the machine did; with its id that names it
            for as long as the machine runs.
        cpu_ticks: Its processor time in clock ticks, in user mode and in the kernel.
        resident_pages: How many pages of memory it has.
    """

    name: str
    state: str
    parent: int
    started: int
    cpu_ticks: int
    resident_pages: int


def read_process(pid: int) -> ProcessStat | None:
    """Return what a process is and uses; None if there is none of this id.

    Example:
        >>> import os
        >>> here = read_process(os.getpid())
        >>> here is not None and here.parent == os.getppid()
        True
        >>> read_process(-1) is None
        True
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it may end at any moment
        return None
    # The name is in parentheses, and may contain spaces and parentheses itself.
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    return ProcessStat(
        name=head.partition("(")[2],
        state=fields[0],
        parent=int(fields[1]),
        started=int(fields[19]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        resident_pages=int(fields[21]),
    )


def queued_seconds(source: Path = _SCHEDULED) -> float:
    """Return how long this thread has waited for a core since it began; 0 if nobody knows.

    Work took so much longer than it does where nothing else runs.

    Example:
        >>> 0 <= queued_seconds()
        True
    """
    try:
        return int(source.read_bytes().split()[1]) / _NS_PER_S
    except (OSError, IndexError, ValueError):
        return 0.0


def boot_id(source: Path = _BOOT_ID) -> str:
    """Return the id of this machine's current boot; empty if the kernel provides none."""
    try:
        return source.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def resident_bytes(pid: int) -> int:
    """Return the memory of a process and of all that it has started, in bytes.

    Memory that they share is counted more than once.
    """
    found: dict[int, ProcessStat] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := read_process(int(entry.name))) is not None:
            found[int(entry.name)] = stat
    pages, left = 0, [pid]
    while left:
        one = left.pop()
        pages += found[one].resident_pages if one in found else 0
        left += [other for other, stat in found.items() if stat.parent == one]
    return pages * resource.getpagesize()


@contextmanager
def collection_paused() -> Generator[None]:
    """Keep the garbage collector from running during a batch, a restore or an import.

    A batch makes a list or tuple per record, and the collector would look at all of them again
    and again: it took 60 % of the time of a split, and a fifth of that of an import. The garbage is
    collected afterwards.
    """
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def is_ready(descriptor: int, wait_s: float) -> bool:
    """Wait until there is something to read, or an end to be seen; return whether it came.

    Args:
        descriptor: Of a pipe, a socket, or a process.
        wait_s: How long to wait, in seconds.

    Example:
        >>> import os
        >>> read, write = os.pipe()
        >>> before = is_ready(read, 0)
        >>> os.close(write)
        >>> before, is_ready(read, 0)
        (False, True)
        >>> os.close(read)
    """
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    return bool(ready.poll(wait_s * 1000))


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return process and user at the other end of a Unix socket, as the kernel knows them.

    Example:
        >>> import os, socket
        >>> one, other = socket.socketpair()
        >>> with one, other:
        ...     peer_of(one) == (os.getpid(), os.geteuid())
        True
    """
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, user, _ = _PEER.unpack(told)
    return pid, user


def listening_users(port: int) -> frozenset[int]:
    """Return the ids of the users whose processes listen at a TCP port of this machine.

    Example:
        >>> import os, socket
        >>> with socket.create_server(("127.0.0.1", 0)) as listening:
        ...     listening_users(listening.getsockname()[1]) == {os.geteuid()}
        True
    """
    found: set[int] = set()
    for path in _SOCKETS:
        try:
            lines = path.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, _, _, _, user, *_ = line.split()
            if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                found.add(int(user))
    return frozenset(found)
