"""Measuring a run: a sampler beside it, and numbers over the steady part of it.

The sampler writes down, ten times a second, the CPU time of the program and of the broker; the
memory is read as often as costs at most a twentieth of the time, because reading the maps of a
large process holds it up. Throughput and CPU per record are taken over the same window of a
catch-up run: from the first sight of 20 % of the input committed to the first sight of 95 %, so
that neither start-up nor the last half-empty step counts. A run that commits in too few steps for
such a window is taken as a whole, from the moment the program said it was running.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process_tree import ProcessTree, read_all

_INTERVAL_S = 0.1
_MEMORY_DUTY = 0.05
_FIRST_SHARE = 0.20
_LAST_SHARE = 0.95
_FEWEST_STEPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """CPU seconds since the processes began, as seen at one moment of the wall clock."""

    time: float
    program_cpu_s: float
    broker_cpu_s: float
    root_cpu_s: float = 0.0


@dataclass(slots=True)
class Sampler:
    """Follows a program and the broker from a thread of its own until `stop`."""

    program_pid: int
    broker_pid: int
    samples: list[Sample] = field(default_factory=list)
    peak_pss_bytes: int = 0
    _program: ProcessTree = field(init=False)
    _broker: ProcessTree = field(init=False)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _next_memory: float = 0.0

    def __post_init__(self) -> None:
        self._program = ProcessTree(self.program_pid)
        self._broker = ProcessTree(self.broker_pid)

    def start(self) -> None:
        """Take the first sample now and go on in the background."""
        self._take()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample; no more follow."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._take()

    def program_pids(self) -> list[int]:
        """The members of the program's tree at the last look."""
        return self._program.pids()

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_S):
            self._take()

    def _take(self) -> None:
        processes = read_all()
        self._program.update(processes)
        self._broker.update(processes)
        now = time.time()
        self.samples.append(
            Sample(
                time=now,
                program_cpu_s=self._program.cpu_seconds(),
                broker_cpu_s=self._broker.cpu_seconds(),
                root_cpu_s=self._program.root_seconds(),
            )
        )
        if now >= self._next_memory:
            before = time.monotonic()
            self.peak_pss_bytes = max(self.peak_pss_bytes, self._program.pss_bytes())
            cost = time.monotonic() - before
            self._next_memory = now + max(_INTERVAL_S * 0.9, cost / _MEMORY_DUTY)

    def cpu_between(self, begin: float, end: float) -> tuple[float, float]:
        """CPU seconds of program and broker between two moments, between samples by proportion."""
        first, last = self._at(begin), self._at(end)
        return (last[0] - first[0], last[1] - first[1])

    def root_cpu_between(self, begin: float, end: float) -> float:
        """CPU seconds of the program's first process alone, between the samples that fit best."""
        times = [sample.time for sample in self.samples]
        last = len(times) - 1
        first, then = (min(bisect_left(times, moment), last) for moment in (begin, end))
        return self.samples[then].root_cpu_s - self.samples[first].root_cpu_s

    def _at(self, moment: float) -> tuple[float, float]:
        times = [sample.time for sample in self.samples]
        index = bisect_left(times, moment)
        if index == 0:
            return (self.samples[0].program_cpu_s, self.samples[0].broker_cpu_s)
        if index == len(times):
            return (self.samples[-1].program_cpu_s, self.samples[-1].broker_cpu_s)
        before, after = self.samples[index - 1], self.samples[index]
        share = (moment - before.time) / (after.time - before.time)
        return (
            before.program_cpu_s + share * (after.program_cpu_s - before.program_cpu_s),
            before.broker_cpu_s + share * (after.broker_cpu_s - before.broker_cpu_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many input records were committed when the harness looked."""

    time: float
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The part of a run that counts."""

    begin: float
    end: float
    records: int
    method: str

    @property
    def records_per_s(self) -> float:
        return self.records / max(self.end - self.begin, 1e-9)


def steady_window(progress: Sequence[Progress], total: int, running: float) -> Window:
    """The window of a catch-up run over which rate and CPU are taken.

    Args:
        progress: What was committed when, oldest first; the last one must have reached `total`.
        total: The records of the input.
        running: When the program began to process.

    Returns:
        The steady window (`method` "window"); or everything since `running` (`method` "whole"),
        when the run committed in fewer than five steps between.
    """
    begin = next(look for look in progress if look.committed >= _FIRST_SHARE * total)
    end = next(look for look in progress if look.committed >= _LAST_SHARE * total)
    steps = {
        look.committed for look in progress if begin.committed <= look.committed <= end.committed
    }
    if len(steps) >= _FEWEST_STEPS:
        return Window(
            begin=begin.time,
            end=end.time,
            records=end.committed - begin.committed,
            method="window",
        )
    finish = next(look for look in progress if look.committed >= total)
    return Window(begin=running, end=finish.time, records=total, method="whole")


def percentiles(values: Sequence[float], wanted: Sequence[float]) -> list[float]:
    """Percentiles by the nearest rank: each is a value that was measured."""
    ordered = sorted(values)
    ranks = [max(0, min(len(ordered) - 1, round(share * len(ordered)) - 1)) for share in wanted]
    return [ordered[rank] for rank in ranks]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum, as the result files hold them."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def disk_bytes(folder: Path) -> int:
    """Blocks that files below a folder occupy: a sparse file counts what it holds."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(parent) / name).st_blocks * 512
            except OSError:
                continue
    return total


def machine() -> dict[str, object]:
    """What the numbers were measured on, without names that identify it."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    uname = os.uname()
    return {
        "cpus": os.cpu_count(),
        "cpu_model": model,
        "architecture": uname.machine,
        "memory_gb": round(memory_kb / 1024 / 1024, 1),
        "kernel": uname.release.split("-")[0],
        "load_before": round(os.getloadavg()[0], 2),
    }
