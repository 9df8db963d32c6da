"""What a low load costs, and how late its results are: ``python -m benchmarks.low_load …``.

Mustela and Kafka Streams, in turns on one broker, each with the same commit interval, keep up with
a fixed load. The processor time of the application's processes and of the broker, and the time from
when a record was meant to be sent until a reader sees its result; where windows end, from when they
are over. All stamped records must arrive exactly once, or there is no number. ``--against TREE``
puts Mustela's sources of another tree (a git worktree) beside them, ``--set commit.writers=lanes``
this tree's with a setting.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka import BrokerSilenceError
from benchmarks.measure import percentiles
from benchmarks.paired import ROOT, Side, variable
from benchmarks.peers.base import PeerFailedError
from benchmarks.peers.registry import Contestant
from benchmarks.trial import (
    Bench,
    LoadPlan,
    WrongOutputError,
    assignment,
    bench_of_its_own,
    clean_up,
    keep_up,
    running,
)
from benchmarks.workloads import WORKLOADS

_RESULTS = Path(__file__).parent / "results" / "low_load.jsonl"
_WANTED = (0.5, 0.95, 0.99)


class Task(NamedTuple):
    """What is run, and how this turn is called."""

    workload: str
    name: str


class Measured(NamedTuple):
    """What one turn gave: percent of a core, and milliseconds."""

    cpu: float
    broker_cpu: float
    p50: float
    p95: float
    p99: float


def measure(bench: Bench, contestant: Contestant, task: Task) -> Measured:
    """Let a contestant keep up with the load.

    Raises:
        WrongOutputError: If a stamped record did not arrive exactly as often as it must.
        PeerFailedError: If it ended or did not start, or the load did not.
    """
    workload, name, seconds = WORKLOADS[task.workload], task.name, bench.load.measure_s
    todo = assignment(bench, workload, contestant, name, f"{name}.in", 0)
    with running(bench, workload, contestant, todo) as now:
        first, latencies = keep_up(bench, now, todo)
    clean_up(bench, todo)
    program, broker = now.sampler.cpu_between(first, first + seconds)
    tail = percentiles(latencies, _WANTED)
    shares = 100 * program / seconds, 100 * broker / seconds
    return Measured(*(round(number, 1) for number in (*shares, *tail)))


def contestants(given: argparse.Namespace) -> list[Contestant]:
    """Those who take turns."""
    sides: list[Contestant] = [Side(peer="mustela", guarantee="eos", sources=ROOT)]
    if given.set:
        settings = tuple(map(variable, given.set))
        sides.append(Side(peer="set", guarantee="eos", sources=ROOT, settings=settings))
    if given.against is not None:
        sides.append(Side(peer="other", guarantee="eos", sources=given.against.resolve()))
    if not given.alone:
        sides.append(Contestant(peer="kafka_streams", guarantee="eos"))
    return sides


def compare(name: str, given: argparse.Namespace) -> dict[str, object]:
    """Let all take their turns; return each turn's numbers, and medians of Mustela's shares."""
    turns: dict[str, list[Measured]] = {}
    able = contestants(given)
    plan = LoadPlan(rate=given.rate, warm_up_s=given.warm_up, measure_s=given.seconds)
    with bench_of_its_own("low-load", plan) as bench:
        bench.commit_ms = given.commit_ms
        for turn in range(given.turns):
            for one in able if turn % 2 == 0 else reversed(able):
                try:
                    found = measure(bench, one, Task(name, f"{one.peer}{turn}"))
                except (PeerFailedError, WrongOutputError, BrokerSilenceError) as error:
                    print(f"{name} {one}: NO NUMBER: {error}", file=sys.stderr)
                    continue
                print(f"{name} {given.commit_ms} ms {one}: {found}", file=sys.stderr)
                turns.setdefault(one.peer, []).append(found)
    return {
        "processors": os.cpu_count(),
        "workload": name,
        "rate": given.rate,
        "commit_ms": given.commit_ms,
        "seconds": given.seconds,
        "against": given.label,
        "settings": given.set,
        "times_kafka_streams": _ratios(turns, "mustela", "kafka_streams"),
        "set_times_kafka_streams": _ratios(turns, "set", "kafka_streams"),
        "set_times_mustela": _ratios(turns, "set", "mustela"),
        "turns": {name: [found._asdict() for found in rows] for name, rows in turns.items()},
    }


def _ratios(turns: dict[str, list[Measured]], one: str, other: str) -> dict[str, float]:
    """One's medians, in times of the other's."""
    mine, its = turns.get(one), turns.get(other)
    if not mine or not its:
        return {}
    return {
        what: round(
            statistics.median(getattr(row, what) for row in mine)
            / max(0.1, statistics.median(getattr(row, what) for row in its)),
            2,
        )
        for what in Measured._fields
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="+", choices=list(WORKLOADS))
    parser.add_argument("--against", type=Path, help="a tree of the repository at another commit")
    parser.add_argument("--set", action="append", default=[], help="beside it: NAME=VALUE")
    parser.add_argument("--alone", action="store_true", help="without Kafka Streams")
    parser.add_argument("--label", default="", help="what the results call the other tree")
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    parser.add_argument("--commit-ms", type=int, default=100)
    parser.add_argument("--turns", type=int, default=1, help="of each")
    parser.add_argument("--warm-up", type=int, default=10, help="seconds")
    parser.add_argument("--seconds", type=int, default=20, help="of the load that count")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    for name in given.workloads:
        found = compare(name, given)
        with given.out.open("a") as file:
            file.write(json.dumps(found) + "\n")
        for what in ("times_kafka_streams", "set_times_kafka_streams", "set_times_mustela"):
            if found[what]:
                print(name, what, json.dumps(found[what]))


if __name__ == "__main__":
    main()
