"""Where each megabyte is, at a fixed load, side by side: ``./dev bench memory [WORKLOAD …]``.

All sides read the same topic of one broker at the same time, which is filled at a fixed rate. So
what else the machine does meets all of them alike; memory suffers from it less than time does.
Megabytes are taken after ``--after``, because a heap that may grow takes its time to do so; up to
then, PSS, threads, descriptors, disk and latency are noted every ``--every``. Each stamped record
must have arrived exactly once, on every side, before a number counts.

``--other TREE`` has Mustela run from the sources of another tree as well, as before and after.
``--soak`` is for long runs: it ends with 1 unless the lines of Mustela are flat.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import disk_bytes, machine, percentiles
from benchmarks.memory_parts import Lines, Parts, look, take_apart
from benchmarks.paired import ROOT, Side
from benchmarks.peers.base import Assignment, Peer
from benchmarks.peers.registry import Contestant
from benchmarks.process_tree import ProcessTree
from benchmarks.receiver import Load, Receiver
from benchmarks.runner import prepare
from benchmarks.trial import (
    Bench,
    LoadPlan,
    WrongOutputError,
    assignment,
    bench_of_its_own,
    start_load,
)
from benchmarks.workloads import SEED, WORKLOADS, Workload

RESULTS = Path(__file__).parent / "results" / "memory.jsonl"
_START_TIMEOUT_S = 180.0
_VISIBLE_TIMEOUT_S = 120.0
_SETTLE_S = 3.0
_WORKLOADS = ("word_count", "rekeyed")
_STEADY_SHARE = 0.5
_FLAT = 1.1
_TIMES = {"s": 1, "m": 60, "h": 3_600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """How a side was at one moment.

    Attributes:
        after_s: Since the load began.
        disk: Bytes of local state.
        latency_ms: Median and 95th percentile since the moment before.
    """

    after_s: float
    lines: Lines
    disk: int
    latency_ms: tuple[float, ...]

    def numbers(self) -> dict[str, float]:
        """Return what is noted, in megabytes and milliseconds."""
        numbers = {
            "after_s": round(self.after_s, 1),
            "pss_mb": round(sum(self.lines.pss.values()) / 1e6, 1),
            **{f"{role}_mb": round(size / 1e6, 1) for role, size in self.lines.pss.items()},
            "threads": self.lines.threads,
            "descriptors": self.lines.descriptors,
            "processes": self.lines.processes,
            "disk_mb": round(self.disk / 1e6, 2),
        }
        names = ("p50_ms", "p95_ms")
        numbers |= {
            name: round(value, 1) for name, value in zip(names, self.latency_ms, strict=False)
        }
        return numbers


@dataclass(slots=True, kw_only=True)
class Runner:
    """One side while it runs."""

    name: str
    todo: Assignment
    peer: Peer
    receiver: Receiver
    moments: list[Moment] = field(default_factory=list)
    parts: Parts | None = None
    faults: list[str] = field(default_factory=list)
    _seen: int = 0

    def note(self, after_s: float) -> None:
        """Take down how it is now."""
        arrivals = self.receiver.arrivals
        new, self._seen = arrivals[self._seen :], len(arrivals)
        late = [seen * 1000 - stamp / 1000 for stamp, seen in new]
        self.moments.append(
            Moment(
                after_s=after_s,
                lines=look(self.pids(), self.peer.pid),
                disk=disk_bytes(self.todo.state_dir),
                latency_ms=tuple(percentiles(late, (0.5, 0.95))) if late else (),
            )
        )

    def pids(self) -> list[int]:
        """Return its processes."""
        tree = ProcessTree(self.peer.pid)
        tree.update()
        return tree.pids()

    def document(self) -> dict[str, object]:
        """As the results hold it."""
        numbers = [moment.numbers() for moment in self.moments]
        return {
            "peak_pss_mb": max(now["pss_mb"] for now in numbers),
            "last_pss_mb": numbers[-1]["pss_mb"],
            "growth": growth(numbers),
            **(self.parts.document() if self.parts is not None else {}),
            "faults": self.faults,
            "moments": numbers,
        }

    def verdict(self) -> list[str]:
        """Say what of a soak is not flat, or not right.

        The disk may grow: each stamp is a key of its own in workloads that count.
        """
        lines = growth([moment.numbers() for moment in self.moments])
        return self.faults + [
            f"{name} became {times} times what it was"
            for name, times in lines.items()
            if name != "disk_mb" and times > _FLAT
        ]


def growth(numbers: Sequence[dict[str, float]]) -> dict[str, float]:
    """How each line went on in the second half of a run: its last quarter over the one before."""
    steady = numbers[int(len(numbers) * _STEADY_SHARE) :]
    middle = len(steady) // 2
    found: dict[str, float] = {}
    for name in ("pss_mb", "threads", "descriptors", "processes", "disk_mb", "p95_ms"):
        before, after = (
            [moment[name] for moment in part if name in moment]
            for part in (steady[:middle], steady[middle:])
        )
        if before and after:
            low = max(statistics.median(before), 1e-9)
            found[name] = round(statistics.median(after) / low, 3)
    return found


def run(
    workload: Workload, sides: Sequence[Contestant], rate: int, given: argparse.Namespace
) -> Found:
    """Let all sides keep up with one load; return what each of them took."""
    plan = LoadPlan(rate=rate)
    with bench_of_its_own("memory", plan) as bench, ExitStack() as stack:
        topic = f"memory-{workload.name}"
        bench.topics.create([topic], workload.partitions)
        _make_sides(bench, workload, topic, given.rows)
        runners = [_start(stack, bench, workload, side, topic) for side in sides]
        begin = time.time() + _SETTLE_S
        load = Load(
            program=workload.program,
            rate=rate,
            begin_us=int(begin * 1e6),
            count=rate * given.after,
        )
        process = start_load(bench, topic, load)
        stack.callback(process.wait)
        stack.callback(process.kill)
        number = 1
        while (after := number * given.every) < given.after:
            time.sleep(max(0.0, begin + after - time.time()))
            for runner in runners:
                runner.note(after)
            _say(workload, rate, runners)
            number += 1
        for runner in runners:
            runner.parts = take_apart(runner.pids(), runner.peer.pid)
        if process.wait() != 0:
            raise WrongOutputError("the load generator failed")
        expected = sum(load.expected().values())
        for runner in runners:
            runner.receiver.wait_for_count(expected, _VISIBLE_TIMEOUT_S)
            runner.faults = load.faults(runner.receiver.arrivals)
    return Found(workload=workload.name, rate=rate, after_s=given.after, runners=runners)


def _start(
    stack: ExitStack, bench: Bench, workload: Workload, side: Contestant, topic: str
) -> Runner:
    todo = assignment(bench, workload, side, "0", topic, 0)
    outputs = workload.output_topics(todo.output)
    bench.topics.create(outputs, workload.partitions)
    receiver = Receiver(topics=bench.topics, names=outputs)
    receiver.start()
    stack.callback(receiver.stop)
    peer = side.build(todo)
    stack.callback(peer.stop)
    peer.start()
    peer.wait_for("running", _START_TIMEOUT_S)
    return Runner(name=side.peer, todo=todo, peer=peer, receiver=receiver)


def _make_sides(bench: Bench, workload: Workload, topic: str, rows: int) -> None:
    """Make the other topics; that of a joined table has rows, that of a joined stream none."""
    for side in workload.sides:
        name, count = f"{topic}-{side.ending}", rows if side.ending == "table" else 0
        bench.topics.fill(name, workload.partitions, side.make(count, SEED), lambda _record: None)


def _say(workload: Workload, rate: int, runners: Sequence[Runner]) -> None:
    for runner in runners:
        now = json.dumps(runner.moments[-1].numbers())
        print(f"{workload.name} {rate}/s {runner.name}: {now}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one run showed."""

    workload: str
    rate: int
    after_s: int
    runners: list[Runner]

    def document(self) -> dict[str, object]:
        """As the results hold it."""
        return {
            "workload": self.workload,
            "rate": self.rate,
            "after_s": self.after_s,
            "sides": {runner.name: runner.document() for runner in self.runners},
        }

    def table(self) -> str:
        """Draw where the memory of each side was."""
        rows: dict[str, dict[str, float]] = {}
        for runner in self.runners:
            numbers = [moment.numbers() for moment in runner.moments]
            own = {"all, peak": max(now["pss_mb"] for now in numbers)}
            if runner.parts is not None:
                own |= runner.parts.rows()
            own["threads"] = numbers[-1]["threads"]
            for what, size in own.items():
                rows.setdefault(what, {})[runner.name] = size
        columns = [runner.name for runner in self.runners]
        lines = [
            f"{self.workload}, {self.rate:,} records/s, after {self.after_s} s, in MB",
            "",
            f"| | {' | '.join(columns)} |",
            f"|---|{'---:|' * len(columns)}",
        ]
        for what, cells in rows.items():
            values = " | ".join(f"{cells[name]:.0f}" if name in cells else "" for name in columns)
            lines.append(f"| {what} | {values} |")
        return "\n".join(lines)


def seconds(text: str) -> int:
    """Read a span of time.

    Example:
        >>> seconds("20m"), seconds("90s"), seconds("2h")
        (1200, 90, 7200)
    """
    found = re.fullmatch(r"(\d+)([smh])", text)
    if found is None:
        msg = f"{text!r} is not a time such as 20m, 90s or 2h"
        raise argparse.ArgumentTypeError(msg)
    return int(found[1]) * _TIMES[found[2]]


def _sides(given: argparse.Namespace) -> list[Contestant]:
    sides: list[Contestant] = [Side(peer="mustela", guarantee="eos", sources=ROOT)]
    if given.other is not None:
        sides.append(Side(peer="other", guarantee="eos", sources=given.other.resolve()))
    if not given.soak:
        sides.append(Contestant(peer="kafka_streams", guarantee="eos"))
    return sides


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what can be asked for."""
    parser.description = __doc__
    parser.add_argument("workload", nargs="*", help=f"{' and '.join(_WORKLOADS)} by default")
    parser.add_argument("--rate", type=int, action="append", help="1000 and 5000 by default")
    parser.add_argument("--after", type=seconds, default=seconds("20m"))
    parser.add_argument("--every", type=seconds, default=seconds("30s"))
    parser.add_argument("--other", type=Path, help="a tree of the repository at another commit")
    parser.add_argument("--rows", type=int, default=100_000, help="of a table that is joined")
    parser.add_argument("--label", default="", help="what the results call this run")
    parser.add_argument("--soak", action="store_true", help="Mustela alone, and flat lines")
    parser.add_argument("--out", type=Path, default=RESULTS)


def run_all(given: argparse.Namespace) -> int:
    """Run what was asked for; 1 when a number is missing, or a line of a soak is not flat."""
    prepare()
    bad = False
    for name in given.workload or _WORKLOADS:
        for rate in given.rate or ((1_000,) if given.soak else (1_000, 5_000)):
            before = machine()
            found = run(WORKLOADS[name], _sides(given), rate, given)
            with given.out.open("a") as file:
                said = {"label": given.label, "machine": before, **found.document()}
                file.write(json.dumps(said) + "\n")
            print(found.table())
            bad |= any(runner.faults for runner in found.runners)
            if given.soak:
                wrong = [fault for runner in found.runners for fault in runner.verdict()]
                print("flat" if not wrong else "NOT FLAT: " + "; ".join(wrong))
                bad |= bool(wrong)
    return 1 if bad else 0
