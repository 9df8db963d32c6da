"""What reading stores costs: ``python -m benchmarks.queries``.

The program counts records by key. *Gets*: the application is idle, its store has 10,000 keys, and
it reads `--gets` of them at random, one after the other, from inside of its process; Kafka Streams
does the same by `store.get` in Java. Bar: the p99 of a get is below one millisecond. *Load*: at a
fixed rate of records a thread of the application reads a thousand keys a second, or none, or
another process takes as much processor time as those reads do, in turns: forwards, backwards, and
so on. Bar: with reads, the p95 of the time from a record to its result is at most 1.1 times as
long; on a machine that is full, it tells more how long it is beside that other process. The
processor time of a get is that of the thread that reads. *Rows*: a
table of ``--rows`` orders is asked for single keys, ranges of a thousand, sums by city and all of
its rows, through everything that Mustela has; of Kafka Streams' interactive queries in Java over
HTTP, of two instances; and of DuckDB with the same rows in a table of its own. Each answer is
checked before its time counts, and all are asked in turns.

Needs a quiet machine: ratios of single turns are kept, so that it shows where it was not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks.in_turns import latencies
from benchmarks.peers.base import Assignment, Peer
from benchmarks.peers.mustela_peer import MustelaPeer
from benchmarks.peers.registry import Contestant, contestants
from benchmarks.questions import ask_all, shown
from benchmarks.trial import Bench, LoadPlan, assignment, bench_of_its_own, clean_up, fixed_load
from benchmarks.workloads import SEED, WORKLOADS, Workload

P95_BAR = 1.1
P99_BAR_US = 1_000.0
GETS_PER_S = 1_000
_SIDES = ("with", "without", "beside")
_GET_US = 100.0
"""What a get takes until one has been measured."""
_TIMEOUT_S = 600.0
_RESULTS = Path(__file__).parent / "results" / "queries.jsonl"


@dataclass(slots=True)
class _Read(MustelaPeer):
    """Mustela, with a thread that reads while it runs."""

    spent: dict[str, object] = field(default_factory=dict[str, object])

    def environment(self) -> Mapping[str, str]:
        return {**MustelaPeer.environment(self), "BENCH_GETS_PER_S": str(GETS_PER_S)}

    def stop(self) -> None:
        MustelaPeer.stop(self)
        found = self.event("reading")
        self.spent.update({} if found is None else found.fields)


@dataclass(slots=True)
class _Beside(MustelaPeer):
    """Mustela, beside a process that takes as much processor time as reads do."""

    micros: float = 0.0
    _burner: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        MustelaPeer.start(self)
        rate = ("--rate", str(GETS_PER_S), "--micros", str(self.micros))
        self._burner = subprocess.Popen([sys.executable, "-m", "benchmarks.burner", *rate])

    def stop(self) -> None:
        if self._burner is not None:
            self._burner.kill()
            self._burner.wait()
        MustelaPeer.stop(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side(Contestant):
    """With reads, without, or beside something that takes as much as they do."""

    spent: dict[str, object]

    def build(self, assignment: Assignment) -> Peer:
        if self.peer == "with":
            return _Read(assignment, spent=self.spent)
        if self.peer == "beside":
            return _Beside(assignment, micros=cast("float", self.spent.get("cpu_us", _GET_US)))
        return MustelaPeer(assignment)


def gets(
    bench: Bench, workload: Workload, given: argparse.Namespace
) -> dict[str, dict[str, object]]:
    """Return what a get of an idle application takes, by peer."""
    topic = workload.input_topic(given.records)
    records = workload.make(given.records, SEED)
    bench.topics.fill(topic, workload.partitions, records, lambda _record: None)
    found: dict[str, dict[str, object]] = {}
    for contestant in contestants(["mustela", "kafka_streams"], ["eos"]):
        todo = assignment(bench, workload, contestant, "gets", topic, given.records)
        bench.topics.create(workload.output_topics(todo.output), workload.partitions)
        peer = contestant.build(todo)
        peer.start()
        try:
            peer.wait_until(bench.topics, todo.records, _TIMEOUT_S, lambda _look: None)
            peer.tell(f"gets {given.gets}")
            found[contestant.peer] = peer.wait_for("gets", _TIMEOUT_S).fields
        finally:
            peer.stop()
            clean_up(bench, todo)
        print(contestant.peer, json.dumps(found[contestant.peer]), file=sys.stderr, flush=True)
    return found


def under_load(bench: Bench, workload: Workload, given: argparse.Namespace) -> dict[str, object]:
    """Return the latencies with reads, without, and beside another process, turn by turn."""
    spent: dict[str, object] = {}
    sides = [_Side(peer=name, guarantee="eos", spent=spent) for name in _SIDES]
    turns: dict[str, list[dict[str, object]]] = {name: [] for name in _SIDES}
    ratios: list[dict[str, float]] = []
    for turn in range(given.turns):
        p95: dict[str, float] = {}
        for side in reversed(sides) if turn % 2 else sides:
            draft = assignment(bench, workload, side, f"{side.peer}{turn}", f"{side.peer}{turn}", 0)
            seen = fixed_load(bench, workload, side, draft)
            clean_up(bench, draft)
            p95[side.peer] = latencies(seen)["p95_ms"]
            cpu = round(seen.numbers["fixed_load.cpu_percent"], 1)
            numbers: dict[str, object] = {"p95_ms": p95[side.peer], "cpu_percent": cpu}
            numbers |= spent if side.peer == "with" else {}
            turns[side.peer].append(numbers)
            print(side.peer, json.dumps(numbers), file=sys.stderr, flush=True)
        ratios.append({name: round(p95["with"] / p95[name], 3) for name in _SIDES[1:]})
    medians = {name: statistics.median(ratio[name] for ratio in ratios) for name in _SIDES[1:]}
    return {"p95_ratios": ratios, "p95_ratio": medians, **turns}


def main() -> None:
    """Run the command line; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=("gets", "load", "rows"))
    parser.add_argument("--turns", type=int, default=5, help="of the load, and of the rows")
    parser.add_argument("--records", type=int, default=1_000_000, help="in the store's topic")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table that is asked")
    parser.add_argument("--gets", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=50_000, help="records a second")
    parser.add_argument("--seconds", type=int, default=40, help="measured at that rate")
    parser.add_argument("--warm-up", type=int, default=15, help="seconds before it counts")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    workload = WORKLOADS["count"]
    load = LoadPlan(rate=given.rate, warm_up_s=given.warm_up, measure_s=given.seconds, idle_s=1)
    parts = given.part or ["gets", "load", "rows"]
    found: dict[str, Any] = {"processors": os.cpu_count(), "records": given.records}
    with bench_of_its_own("queries", load) as bench:
        if "gets" in parts:
            found["gets"] = gets(bench, workload, given)
        if "load" in parts:
            found |= {"rate": given.rate, "load": under_load(bench, workload, given)}
        if "rows" in parts:
            found |= {"rows": given.rows, "questions": ask_all(bench, given)}
            print(shown(found["questions"]), file=sys.stderr, flush=True)
    with given.out.open("a") as file:
        file.write(json.dumps(found) + "\n")
    print(json.dumps(found))
    sys.exit(0 if _within_bars(found) else 1)


def _within_bars(found: dict[str, Any]) -> bool:
    p99_us = found["gets"]["mustela"]["p99_us"] if "gets" in found else 0.0
    ratio = found["load"]["p95_ratio"]["without"] if "load" in found else 0.0
    return p99_us <= P99_BAR_US and ratio <= P95_BAR


if __name__ == "__main__":
    main()
