"""What a low load costs, and how late its results are: ``python -m benchmarks.low_load …``.

Mustela and Kafka Streams, in turns on one broker, each with the same commit interval, keep up with
a fixed load. The processor time of the application's processes and of the broker, and the time from
when a record was meant to be sent until a reader sees its result; where windows end, from when they
are over. All stamped records must arrive exactly once, or there is no number. ``--against TREE``
puts Mustela's sources of another tree (a git worktree) beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka import BrokerSilenceError
from benchmarks.measure import Sampler, percentiles
from benchmarks.paired import ROOT, Side
from benchmarks.peers.base import PeerFailedError
from benchmarks.peers.registry import Contestant
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

_RESULTS = Path(__file__).parent / "results" / "low_load.jsonl"
_TIMEOUT_S = 180.0
_SETTLE_S = 2.0
_VISIBLE_S = 60.0
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


def measure(
    bench: Bench, contestant: Contestant, task: Task, given: argparse.Namespace
) -> Measured:
    """Let a contestant keep up with the load.

    Raises:
        WrongOutputError: If a stamped record did not arrive exactly as often as it must.
        PeerFailedError: If it ended or did not start, or the load did not.
    """
    workload, name = WORKLOADS[task.workload], task.name
    todo = assignment(bench, workload, contestant, name, f"{name}.in", 0)
    outputs = workload.output_topics(todo.output)
    sides = [f"{todo.input_topic}-{side.ending}" for side in workload.sides]
    bench.topics.create([todo.input_topic, *sides, *outputs], workload.partitions)
    peer = contestant.build(todo)
    receiver = Receiver(topics=bench.topics, names=outputs)
    receiver.start()
    peer.start()
    sampler = Sampler(program_pid=peer.pid, broker_pid=bench.broker_pid)
    sampler.start()
    try:
        peer.wait_for("running", _TIMEOUT_S)
        time.sleep(_SETTLE_S)
        begin = time.time() + 0.5
        load = Load(
            program=workload.program,
            rate=given.rate,
            begin_us=int(begin * 1e6),
            count=given.rate * (given.warm_up + given.seconds),
        )
        if code := start_load(bench, todo.input_topic, load).wait():
            raise PeerFailedError(f"the load generator ended with {code}")
        receiver.wait_for_count(sum(load.expected().values()), _VISIBLE_S)
        if faults := load.faults(receiver.arrivals):
            raise WrongOutputError("; ".join(faults))
    finally:
        sampler.stop()
        receiver.stop()
        peer.stop()
    clean_up(bench, todo)
    first = begin + given.warm_up
    program, broker = sampler.cpu_between(first, first + given.seconds)
    tail = percentiles(load.latencies_ms(receiver.arrivals, given.warm_up), _WANTED)
    shares = 100 * program / given.seconds, 100 * broker / given.seconds
    return Measured(*(round(number, 1) for number in (*shares, *tail)))


def contestants(against: Path | None) -> list[Contestant]:
    """Those who take turns."""
    sides: list[Contestant] = [Side(peer="mustela", guarantee="eos", sources=ROOT)]
    if against is not None:
        sides.append(Side(peer="other", guarantee="eos", sources=against.resolve()))
    return [*sides, Contestant(peer="kafka_streams", guarantee="eos")]


def compare(name: str, given: argparse.Namespace) -> dict[str, object]:
    """Let all take their turns; return each turn's numbers, and medians of Mustela's shares."""
    turns: dict[str, list[Measured]] = {}
    able = contestants(given.against)
    with bench_of_its_own("low-load", LoadPlan()) as bench:
        bench.commit_ms = given.commit_ms
        for turn in range(given.turns):
            for one in able if turn % 2 == 0 else reversed(able):
                try:
                    found = measure(bench, one, Task(name, f"{one.peer}{turn}"), given)
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
        "times_kafka_streams": _ratios(turns),
        "turns": {name: [found._asdict() for found in rows] for name, rows in turns.items()},
    }


def _ratios(turns: dict[str, list[Measured]]) -> dict[str, float]:
    """Mustela's medians, in times of Kafka Streams'."""
    mine, its = turns.get("mustela"), turns.get("kafka_streams")
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
        print(name, json.dumps(found["times_kafka_streams"]))


if __name__ == "__main__":
    main()
