"""Where the memory of a tree of processes is, from /proc and, for a JVM, from jcmd.

Every figure is proportional: a page that several processes have mapped counts once in their sum, so
the pages of the state, which driver and workers map, are not counted again for each of them.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mustela.java import find_java

_PROC = Path("/proc")
_JCMD_TIMEOUT_S = 30.0
_DELETED = " (deleted)"
_ARENA_BYTES = 64 << 20
"""Where the C library begins the memory of a thread of its own: at multiples of this."""
_HEADER = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s*(.*)$")
_SPACE = re.compile(r"total (\d+)K, used (\d+)K \[(0x\w+), (?:0x\w+, )?(0x\w+)\)")
_CODE = re.compile(r"bounds \[(0x\w+), 0x\w+, (0x\w+)\]")
_METASPACE = re.compile(r"Metaspace\s+used (\d+)K, committed (\d+)K")
_NATIVE = re.compile(r"^-\s+(.+?) \(reserved=\d+KB, committed=(\d+)KB", re.MULTILINE)


class Area(NamedTuple):
    """One line of smaps.

    Attributes:
        name: The file, or what the kernel calls it; empty for memory without a name.
        pss: Bytes.
    """

    begin: int
    end: int
    permissions: str
    name: str
    pss: int


def parse_smaps(lines: Iterable[str]) -> Iterator[Area]:
    """Yield the mappings of a process."""
    head: re.Match[str] | None = None
    for line in lines:
        if found := _HEADER.match(line):
            head = found
        elif head is not None and line.startswith("Pss:"):
            begin, end, permissions, name = head.groups()
            pss = int(line.split()[1]) * 1024
            yield Area(int(begin, 16), int(end, 16), permissions, name, pss)


class Span(NamedTuple):
    """Addresses that a JVM says are something of its own."""

    begin: int
    end: int
    part: str


@dataclass(slots=True)
class JvmMemory:
    """What a JVM says of itself, in bytes.

    Attributes:
        used: Of the heap, dead objects included.
        committed: Of the heap.
        metaspace: Committed.
        spans: Where heap and compiled code lie.
        native: What it tracks itself, by purpose; empty unless it was started to track it.
    """

    used: int = 0
    committed: int = 0
    metaspace: int = 0
    spans: list[Span] = field(default_factory=list)
    native: dict[str, int] = field(default_factory=dict)


def parse_jvm(heap: str, code: str, native: str = "") -> JvmMemory:
    """Read what jcmd prints for GC.heap_info, Compiler.codecache and VM.native_memory."""
    found = JvmMemory()
    for total, used, begin, end in _SPACE.findall(heap):
        found.committed += int(total) * 1024
        found.used += int(used) * 1024
        found.spans.append(Span(int(begin, 16), int(end, 16), "heap"))
    for begin, end in _CODE.findall(code):
        found.spans.append(Span(int(begin, 16), int(end, 16), "compiled code"))
    if metaspace := _METASPACE.search(heap):
        found.metaspace = int(metaspace[2]) * 1024
    found.native = {purpose: int(size) * 1024 for purpose, size in _NATIVE.findall(native)}
    return found


def ask_jvm(pid: int) -> JvmMemory | None:
    """Ask a JVM; None where there is no jcmd, or it gets no answer."""
    heap, code = _jcmd(pid, "GC.heap_info"), _jcmd(pid, "Compiler.codecache")
    if not heap:
        return None
    return parse_jvm(heap, code, _jcmd(pid, "VM.native_memory", "summary"))


def live_bytes(pid: int) -> int:
    """What is left of a JVM's heap when it has been collected; it is collected now."""
    _jcmd(pid, "GC.run")
    return parse_jvm(_jcmd(pid, "GC.heap_info"), "").used


def _jcmd(pid: int, *words: str) -> str:
    command = [str(find_java().executable.with_name("jcmd")), str(pid), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_JCMD_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def part_of(mapping: Area, spans: Sequence[Span] = ()) -> str:
    """Name what a mapping is for.

    Args:
        mapping: Of any process.
        spans: What the process says of its addresses.
    """
    for span in spans:
        if span.begin <= mapping.begin < span.end:
            return span.part
    name = mapping.name.removesuffix(_DELETED)
    if name.endswith((".mdb", ".sst")):
        return "state"
    if name.endswith(".jsa"):
        return "class archive"
    if name.startswith(("/dev/shm/", "/memfd:")):
        return "shared memory"
    if name.startswith("/"):
        return "code and files"
    if name.startswith("[stack"):
        return "stacks"
    if not name and mapping.begin % _ARENA_BYTES == 0:
        return "arenas of threads"
    return "other memory"


class Lines(NamedTuple):
    """What must be flat while an application runs.

    Attributes:
        pss: Bytes of all processes, by role.
    """

    pss: dict[str, int]
    threads: int
    descriptors: int
    processes: int


def role_of(pid: int, root: int) -> str:
    """Name what a process of a peer is."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    if words and words[0].endswith(b"java"):
        return "jvm"
    if pid == root:
        return "driver"
    return "workers" if b"mustela.spark.daemon" in words else "others"


def look(pids: Sequence[int], root: int) -> Lines:
    """Look at the processes of a peer, at the cost of one short file each."""
    pss: Counter[str] = Counter()
    threads = descriptors = 0
    for pid in pids:
        home = _PROC / str(pid)
        with suppress(OSError):
            for line in (home / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    pss[role_of(pid, root)] += int(line.split()[1]) * 1024
            threads += sum(1 for _ in (home / "task").iterdir())
            descriptors += sum(1 for _ in (home / "fd").iterdir())
    return Lines(dict(pss), threads, descriptors, len(pids))


@dataclass(slots=True)
class Parts:
    """Where the memory of a peer is, in bytes.

    Attributes:
        pss: By role and part.
        jvm: What its JVM says.
        live: What is left of the JVM's heap when it has been collected.
    """

    pss: dict[str, dict[str, int]]
    jvm: JvmMemory | None = None
    live: int = 0

    def rows(self) -> dict[str, float]:
        """Return the rows of a table, in megabytes; the largest part first."""
        flat = [
            (f"{role}: {part}", size / 1e6)
            for role, of in self.pss.items()
            for part, size in of.items()
        ]
        rows = dict(sorted(flat, key=lambda row: -row[1]))
        for name, size in self.told().items():
            rows[f"the JVM says: {name}"] = size / 1e6
        return rows

    def told(self) -> dict[str, int]:
        """Return what the JVM says of itself."""
        if self.jvm is None:
            return {}
        return {
            "heap live": self.live,
            "heap used": self.jvm.used,
            "heap committed": self.jvm.committed,
            "metaspace committed": self.jvm.metaspace,
            **{f"native, {name}": size for name, size in self.jvm.native.items()},
        }

    def document(self) -> dict[str, object]:
        """As the results hold it, in megabytes."""
        return {
            "parts_mb": {role: _megabytes(of) for role, of in self.pss.items()},
            "jvm_mb": _megabytes(self.told()),
        }


def _megabytes(sizes: Mapping[str, int]) -> dict[str, float]:
    return {name: round(size / 1e6, 1) for name, size in sizes.items()}


def take_apart(pids: Sequence[int], root: int) -> Parts:
    """Find where the memory of a peer is; its JVM is asked afterwards what of it lives."""
    parts = Parts({})
    jvms: list[int] = []
    for pid in pids:
        role = role_of(pid, root)
        spans: Sequence[Span] = ()
        if role == "jvm":
            jvms.append(pid)
            parts.jvm = ask_jvm(pid)
            spans = parts.jvm.spans if parts.jvm is not None else ()
        found = Counter[str]()
        with suppress(OSError), (_PROC / str(pid) / "smaps").open() as lines:
            for mapping in parse_smaps(lines):
                found[part_of(mapping, spans)] += mapping.pss
        if role == "jvm" and parts.jvm is not None:
            # Metaspace lies in memory without a name, and all that is committed has been touched.
            known = min(parts.jvm.metaspace, found["other memory"])
            found["other memory"] -= known
            found["metaspace"] += known
        of = parts.pss.setdefault(role, {})
        for part, size in found.items():
            if size:
                of[part] = of.get(part, 0) + size
    for pid in jvms:
        parts.live += live_bytes(pid)
    return parts
