"""What a tree of processes costs: CPU time and proportional memory, read from /proc.

A tree is a root process, everything it starts, and everything in the root's session. Its CPU time
must not shrink when one of them ends. A process that was waited for by a parent inside the tree
lives on in that parent's children's time; one that was not (its parent ended first, or ignores its
children) is remembered here with the time it was last seen with.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
# Positions in /proc/<pid>/stat, counted after the command's closing bracket.
_STATE, _PARENT, _SESSION = 0, 1, 3
_USER, _SYSTEM, _CHILD_USER, _CHILD_SYSTEM = 11, 12, 13, 14
_START = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """One line of /proc/<pid>/stat, times in clock ticks."""

    pid: int
    parent: int
    session: int
    state: str
    start: int
    own: int
    children: int

    @property
    def identity(self) -> tuple[int, int]:
        """Process numbers come again; together with the start time they do not."""
        return (self.pid, self.start)


def parse_stat(text: str) -> ProcessStat:
    """Read one line of /proc/<pid>/stat; the command inside may hold spaces and brackets."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return ProcessStat(
        pid=int(head.split("(", 1)[0]),
        parent=int(fields[_PARENT]),
        session=int(fields[_SESSION]),
        state=fields[_STATE],
        start=int(fields[_START]),
        own=int(fields[_USER]) + int(fields[_SYSTEM]),
        children=int(fields[_CHILD_USER]) + int(fields[_CHILD_SYSTEM]),
    )


def read_all() -> dict[int, ProcessStat]:
    """Every process that can be read now, by process number."""
    found: dict[int, ProcessStat] = {}
    for entry in os.listdir(_PROC):
        if not entry.isdigit():
            continue
        try:
            stat = parse_stat((_PROC / entry / "stat").read_text(errors="replace"))
        except (OSError, ValueError, IndexError):
            continue
        found[stat.pid] = stat
    return found


def read_pss_bytes(pid: int) -> int:
    """The proportional set size of one process; 0 when it is gone or has none."""
    try:
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


@dataclass(slots=True)
class ProcessTree:
    """The processes that descend from one root, followed over time."""

    root: int
    _members: dict[tuple[int, int], ProcessStat] = field(default_factory=dict)
    _lost_ticks: int = 0

    def update(self, processes: dict[int, ProcessStat] | None = None) -> None:
        """Look again: take in new processes, account for those that ended."""
        now = read_all() if processes is None else processes
        inside = self._inside(now)
        self._account_for_ended(now, inside)
        self._members = {stat.identity: stat for stat in inside.values()}

    def cpu_seconds(self) -> float:
        """CPU time of the whole tree since it began, ended processes included."""
        ticks = sum(stat.own + stat.children for stat in self._members.values())
        return (ticks + self._lost_ticks) / _TICKS_PER_SECOND

    def root_seconds(self) -> float:
        """CPU time of the root process alone, 0 when it is gone."""
        own = (stat.own for stat in self._members.values() if stat.pid == self.root)
        return next(own, 0) / _TICKS_PER_SECOND

    def pss_bytes(self) -> int:
        """Proportional memory of all members that are alive."""
        return sum(read_pss_bytes(stat.pid) for stat in self._members.values() if stat.state != "Z")

    def pids(self) -> list[int]:
        """Members that were alive at the last look, children after their parents."""
        return [stat.pid for stat in sorted(self._members.values(), key=lambda stat: stat.start)]

    def _inside(self, now: dict[int, ProcessStat]) -> dict[int, ProcessStat]:
        root = now.get(self.root)
        inside: dict[int, ProcessStat] = {} if root is None else {root.pid: root}
        for stat in now.values():
            known = stat.identity in self._members
            if known or stat.session == self.root:
                inside[stat.pid] = stat
        grew = True
        while grew:
            more = {
                stat.pid: stat
                for stat in now.values()
                if stat.pid not in inside and stat.parent in inside
            }
            inside.update(more)
            grew = bool(more)
        return inside

    def _account_for_ended(
        self, now: dict[int, ProcessStat], inside: dict[int, ProcessStat]
    ) -> None:
        gone = [
            stat
            for identity, stat in self._members.items()
            if stat.pid not in now or now[stat.pid].identity != identity
        ]
        credited: dict[int, int] = {}
        for stat in gone:
            before = self._members_by_pid().get(stat.parent)
            parent = inside.get(stat.parent)
            ticks = stat.own + stat.children
            if before is None or parent is None or parent.identity != before.identity:
                self._lost_ticks += ticks
                continue
            free = parent.children - before.children - credited.get(parent.pid, 0)
            if free >= ticks:
                credited[parent.pid] = credited.get(parent.pid, 0) + ticks
            else:
                self._lost_ticks += ticks

    def _members_by_pid(self) -> dict[int, ProcessStat]:
        return {stat.pid: stat for stat in self._members.values()}
