"""Memory and processor time of the driver and of the processes that it started, from ``/proc``."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mustela.processes import read_process

__all__ = ["Processes", "Usage"]

_PROC: Final = Path("/proc")
_TICKS_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """What the processes of one role use.

    Attributes:
        processes: How many there are.
        memory_bytes: Their resident memory in bytes.
        cpu_s: Their processor time in seconds, including processes that have ended.
    """

    processes: int
    memory_bytes: int
    cpu_s: float


class _Seen(NamedTuple):
    pid: int
    parent: int
    name: str
    started: int
    cpu_s: float
    memory_bytes: int


class Processes:
    """Reads this process and its descendants, and remembers the time of those that ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[int, int], tuple[str, float]] = {}
        self._ended: dict[str, float] = {}

    def look(self) -> dict[str, Usage]:
        """Return the current usage of each role.

        Example:
            >>> Processes().look()["driver"].processes
            1
        """
        with self._lock:
            return self._look()

    def _look(self) -> dict[str, Usage]:
        found: dict[tuple[int, int], tuple[str, float]] = {}
        counts: dict[str, int] = {}
        memory: dict[str, int] = {}
        for each in _ours():
            role = "driver" if each.pid == os.getpid() else _role(each.name)
            found[each.pid, each.started] = role, each.cpu_s
            counts[role] = counts.get(role, 0) + 1
            memory[role] = memory.get(role, 0) + each.memory_bytes
        for mark, (role, seconds) in self._seen.items():
            if mark not in found:
                self._ended[role] = self._ended.get(role, 0.0) + seconds
        self._seen = found
        spent = dict(self._ended)
        for role, seconds in found.values():
            spent[role] = spent.get(role, 0.0) + seconds
        return {
            role: Usage(counts.get(role, 0), memory.get(role, 0), seconds)
            for role, seconds in sorted(spent.items())
        }


def _ours() -> Iterator[_Seen]:
    """Yield this process and all its descendants."""
    children: dict[int, list[_Seen]] = {}
    wanted: list[_Seen] = []
    for each in _all():
        if each.pid == os.getpid():
            wanted.append(each)
        else:
            children.setdefault(each.parent, []).append(each)
    while wanted:
        one = wanted.pop()
        yield one
        wanted.extend(children.get(one.pid, ()))


def _all() -> Iterator[_Seen]:
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        stat = read_process(int(entry.name))
        if stat is None:  # it ended meanwhile
            continue
        yield _Seen(
            pid=int(entry.name),
            parent=stat.parent,
            name=stat.name,
            started=stat.started,
            cpu_s=stat.cpu_ticks / _TICKS_S,
            memory_bytes=stat.resident_pages * _PAGE_BYTES,
        )


def _role(name: str) -> str:
    if name.startswith("java"):
        return "jvm"
    return "worker" if name.startswith(("python", "pypy")) else "other"
