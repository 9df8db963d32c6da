"""What each thread costs at a fixed load, and at rest: ``python -m benchmarks.threads WORKLOAD``.

Mustela keeps up with a fixed load and then rests; for each thread of driver, JVM and workers this
gives its share of a core, and how often it woke up. The output is held against what was sent before
a number counts. ``--against TREE`` does the same with the sources of another tree (a git worktree
of an older commit), on the same broker, before and after, and gives ratios of the sums.

The rest has two parts: right after the load a task may still stay, and files are given back after
ten seconds; from then on there is nothing left to do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.paired import ROOT, Side
from benchmarks.peers.base import PeerFailedError
from benchmarks.process_tree import ProcessTree
from benchmarks.receiver import Load, Receiver
from benchmarks.trial import (
    Bench,
    LoadPlan,
    WrongOutputError,
    assignment,
    bench_of_its_own,
    clean_up,
    start_load,
)
from benchmarks.workloads import WORKLOADS

_RESULTS = Path(__file__).parent / "results" / "threads.jsonl"
_SHOWN = 8
_TIMEOUT_S = 180.0
_NS_PER_S = 1e9


class Thread(NamedTuple):
    """A thread: the role of its process, its process, its number, its name."""

    role: str
    pid: int
    number: int
    name: str


class Spent(NamedTuple):
    """What a thread has used since it began: nanoseconds of processor time, and wake-ups."""

    ns: int
    wakes: int


def role_of(command: str, *, is_root: bool) -> str:
    """Name what a process is for.

    Example:
        >>> role_of("/usr/lib/jvm/bin/java -cp jars", is_root=False)
        'jvm'
    """
    if is_root:
        return "driver"
    return "jvm" if command.split(" ", 1)[0].endswith("java") else "worker"


def look(root: int) -> dict[Thread, Spent]:
    """Return what each thread of a tree of processes has used."""
    tree = ProcessTree(root)
    tree.update()
    found: dict[Thread, Spent] = {}
    for pid in tree.pids():
        process = Path("/proc") / str(pid)
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            tasks = list((process / "task").iterdir())
        except OSError:
            continue
        role = role_of(command, is_root=pid == root)
        for task in tasks:
            try:
                ns = int((task / "schedstat").read_text().split()[0])
                status = (task / "status").read_text()
                name = (task / "comm").read_text().strip()
            except (OSError, IndexError):
                continue
            number = int(task.name)
            name = f"{name} (main)" if number == pid else name
            wakes = int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
            found[Thread(role, pid, number, name)] = Spent(ns, wakes)
    return found


@dataclass(slots=True)
class Part:
    """What was used in a span of time.

    Attributes:
        percent: Of a core, by role.
        threads: Role, name, percent of a core and wake-ups a second, the dearest first; those of
            one role and name are one.
    """

    percent: dict[str, float] = field(default_factory=dict)
    threads: list[tuple[str, str, float, float]] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Percent of a core, of all processes."""
        return sum(self.percent.values())


def part_of(before: dict[Thread, Spent], after: dict[Thread, Spent], seconds: float) -> Part:
    """Return what was used between two looks; what ended between them is not in it.

    Example:
        >>> loop = Thread("driver", 1, 1, "python (main)")
        >>> part_of({loop: Spent(0, 5)}, {loop: Spent(20_000_000, 25)}, 2.0)
        Part(percent={'driver': 1.0}, threads=[('driver', 'python (main)', 1.0, 10.0)])
    """
    ns: Counter[tuple[str, str]] = Counter()
    wakes: Counter[tuple[str, str]] = Counter()
    percent: Counter[str] = Counter()
    for thread, spent in after.items():
        known = before.get(thread, Spent(0, 0))
        ns[thread.role, thread.name] += spent.ns - known.ns
        wakes[thread.role, thread.name] += spent.wakes - known.wakes
    rows = [
        (
            role,
            name,
            round(used / _NS_PER_S / seconds * 100, 3),
            round(wakes[role, name] / seconds, 1),
        )
        for (role, name), used in ns.most_common()
    ]
    for (role, _), used in ns.items():
        percent[role] += used
    shares = {role: round(used / _NS_PER_S / seconds * 100, 2) for role, used in percent.items()}
    return Part(shares, rows)


def measure(bench: Bench, side: Side, name: str, given: argparse.Namespace) -> dict[str, Part]:
    """Let a tree keep up with the load, and rest; return what its threads used.

    Raises:
        WrongOutputError: If a stamped record did not arrive exactly as often as it must.
        PeerFailedError: If it ended or did not start, or the load did not.
    """
    workload = WORKLOADS[given.workload]
    todo = assignment(bench, workload, side, name, f"{name}.in", 0)
    outputs = workload.output_topics(todo.output)
    bench.topics.create([todo.input_topic, *outputs], workload.partitions)
    peer = side.build(todo)
    receiver = Receiver(topics=bench.topics, names=outputs)
    receiver.start()
    peer.start()
    parts: dict[str, Part] = {}

    def over(part: str, seconds: float) -> None:
        before, begun = look(peer.pid), time.monotonic()
        time.sleep(max(0.0, seconds))
        parts[part] = part_of(before, look(peer.pid), time.monotonic() - begun)

    try:
        peer.wait_for("running", _TIMEOUT_S)
        time.sleep(2)
        begin = time.time() + 0.5
        load = Load(
            program=workload.program,
            rate=given.rate,
            begin_us=int(begin * 1e6),
            count=given.rate * (given.warm_up + given.seconds),
        )
        sender = start_load(bench, todo.input_topic, load)
        time.sleep(max(0.0, begin + given.warm_up - time.time()))
        over("load", begin + given.warm_up + given.seconds - time.time())
        if code := sender.wait():
            raise PeerFailedError(f"the load generator ended with {code}")
        receiver.wait_for_count(sum(load.expected().values()), _TIMEOUT_S)
        if faults := load.faults(receiver.arrivals):
            raise WrongOutputError("; ".join(faults))
        time.sleep(3)
        over("rest_begins", 12)
        over("rest", given.rest)
    finally:
        receiver.stop()
        peer.stop()
    clean_up(bench, todo)
    return parts


def _show(name: str, parts: dict[str, Part]) -> None:
    for what, part in parts.items():
        print(f"{name}, {what}: {part.total:.2f} % of a core {part.percent}", file=sys.stderr)
        for role, thread, percent, wakes in part.threads[:_SHOWN]:
            print(f"    {percent:7.2f} % {wakes:8.1f}/s  {role} {thread}", file=sys.stderr)
    sys.stderr.flush()


def compare(given: argparse.Namespace) -> dict[str, object]:
    """Measure this tree, and the other one before and after it."""
    trees = [("this", ROOT)]
    if given.against is not None:
        other = ("other", given.against.resolve())
        trees = [other, *trees, other]
    found: dict[str, list[dict[str, Part]]] = {}
    with bench_of_its_own("threads", LoadPlan()) as bench:
        bench.commit_ms = given.commit_ms
        for number, (name, tree) in enumerate(trees):
            side = Side(peer=name, guarantee="eos", sources=tree)
            parts = measure(bench, side, f"{name}{number}", given)
            _show(name, parts)
            found.setdefault(name, []).append(parts)
    totals = {
        name: {what: round(statistics.mean(run[what].total for run in runs), 2) for what in runs[0]}
        for name, runs in found.items()
    }
    ratios = {
        what: round(total / max(totals["other"][what], 1e-9), 3)
        for what, total in totals["this"].items()
        if "other" in totals
    }
    return {
        "processors": os.cpu_count(),
        "workload": given.workload,
        "rate": given.rate,
        "commit_ms": given.commit_ms,
        "against": given.label,
        "percent_of_a_core": totals,
        "ratio": ratios,
        "threads": {what: part.threads[:_SHOWN] for what, part in found["this"][0].items()},
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--against", type=Path, help="a tree of the repository at another commit")
    parser.add_argument("--label", default="", help="what the results call the other tree")
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    parser.add_argument("--commit-ms", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=8, help="seconds")
    parser.add_argument("--seconds", type=int, default=20, help="of the load that count")
    parser.add_argument("--rest", type=int, default=20, help="seconds of rest that count")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    found = compare(given)
    with given.out.open("a") as file:
        file.write(json.dumps(found) + "\n")
    print(json.dumps({what: found[what] for what in ("percent_of_a_core", "ratio")}))


if __name__ == "__main__":
    main()
