"""What the admin server costs: ``python -m benchmarks.admin``.

The same program on the same broker, with the admin server and without, in turns: forwards,
backwards, and so on. With it, somebody scrapes ``/metrics`` every five seconds and has the page of
the topology open: what the page asks for, as often as it asks. Two bars: at a fixed rate the p95 of
the time from a record to its result is at most 1.1 times as long; at saturation at least 0.97 times
as many records a second are done. And what a request of each endpoint costs the driver, in
processor time.

Needs a quiet machine: ratios of single turns are kept, so that it shows where it was not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.in_turns import Numbers, Turns, in_turns, latencies, medians, ratios_of
from benchmarks.peers.base import Assignment, Peer
from benchmarks.peers.mustela_peer import MustelaPeer
from benchmarks.peers.registry import Contestant
from benchmarks.process_tree import parse_stat
from benchmarks.trial import (
    Bench,
    FixedLoad,
    LoadPlan,
    assignment,
    bench_of_its_own,
    clean_up,
)
from benchmarks.workloads import WORKLOADS
from mustela.admin.access import Access, read_access
from mustela.admin.endpoints import endpoints, json_answer

P95_BAR = 1.1
THROUGHPUT_BAR = 0.97
SCRAPE_S = 5.0
PAGE_S = 2.0
_START_S = 120.0
_RESULTS = Path(__file__).parent / "results" / "admin.jsonl"
_REQUESTS = 100
_TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class _Shown(MustelaPeer):
    """Mustela with its admin server, which somebody asks all the time."""

    watcher: Watcher = field(init=False)

    def environment(self) -> Mapping[str, str]:
        return {**MustelaPeer.environment(self), "MUSTELA__ADMIN__ENABLED": "true"}

    def start(self) -> None:
        MustelaPeer.start(self)
        self.watcher = Watcher(self.assignment)
        self.watcher.start()

    def stop(self) -> None:
        self.watcher.stop()
        MustelaPeer.stop(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side(Contestant):
    """With the server, or without."""

    shown: bool

    def build(self, assignment: Assignment) -> Peer:
        return _Shown(assignment) if self.shown else MustelaPeer(assignment)


class Watcher:
    """Scrapes, and asks for what the page asks for.

    Args:
        todo: What the application does; names its state directory.
    """

    def __init__(self, todo: Assignment) -> None:
        self._file = todo.state_dir / "~admin" / f"{todo.application_id}.json"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answers = 0

    def start(self) -> None:
        """Begin; it waits for the server by itself."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due = {"/metrics": 0.0, "/topology/live": 0.0}
        while not self._stop.wait(0.1):
            access = read_access(self._file)
            if access is None:
                continue
            now = time.monotonic()
            for path, every_s in (("/metrics", SCRAPE_S), ("/topology/live", PAGE_S)):
                if now >= due[path]:
                    due[path] = now + every_s
                    try:
                        ask(access, path)
                    except OSError:
                        continue
                    self.answers += 1


def ask(access: Access, path: str) -> bytes:
    """Ask a server; return the body of its answer."""
    headers = {"authorization": f"Bearer {access.tokens.operate}"}
    request = urllib.request.Request(access.address + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def cpu_seconds(pid: int) -> float:
    """The processor time of one process, in seconds."""
    return parse_stat(Path(f"/proc/{pid}/stat").read_text()).own / _TICKS_S


def per_request(access: Access) -> dict[str, float]:
    """Return the driver's processor time for a request of each endpoint, in milliseconds.

    The application is idle; what it spends by itself is taken off.
    """
    paths = [
        endpoint.path
        for endpoint in endpoints(lambda _watched, _query: json_answer({}))
        if endpoint.method == "GET"
    ]
    found: dict[str, float] = {}
    for path in [*paths, "/topology?format=mermaid", "/topology?format=html"]:
        count = _REQUESTS // 5 if path == "/debug/threads" else _REQUESTS
        began, before = time.monotonic(), cpu_seconds(access.pid)
        for _ in range(count):
            ask(access, path)
        spent, lasted = cpu_seconds(access.pid) - before, time.monotonic() - began
        before = cpu_seconds(access.pid)
        time.sleep(max(1.0, lasted))
        idle = (cpu_seconds(access.pid) - before) * lasted / max(1.0, lasted)
        found[path] = round(1_000 * max(0.0, spent - idle) / count, 2)
    return found


def compare(given: argparse.Namespace) -> dict[str, object]:
    """Run both in turns; return the numbers of each turn, and the medians of their ratios."""
    workload = WORKLOADS[given.workload]
    sides = [
        _Side(peer=name, guarantee="eos", shown=shown)
        for name, shown in (("without", False), ("with", True))
    ]
    load = LoadPlan(rate=given.rate, warm_up_s=given.warm_up, measure_s=given.seconds, idle_s=1)
    what = Turns(
        turns=given.turns,
        records=given.records,
        caught_up=lambda seen: {"records_per_s": round(seen["records_per_s"], 0)},
        loaded=_loaded,
    )
    with bench_of_its_own("admin", load) as bench:
        turns = in_turns(bench, workload, sides, what)
        costs = _costs(bench, sides[1], given.workload)
    ratios = ratios_of(turns["with"], turns["without"])
    median = medians(ratios)
    return {
        "workload": workload.name,
        "records": given.records,
        "rate": given.rate,
        "median_ratio": median,
        "within_bars": median["p95_ms"] <= P95_BAR and median["records_per_s"] >= THROUGHPUT_BAR,
        "ratios": ratios,
        "cpu_ms_per_request": costs,
        **turns,
    }


def _costs(bench: Bench, side: _Side, workload: str) -> dict[str, float]:
    """Return what requests cost an idle application."""
    todo = assignment(bench, WORKLOADS[workload], side, "costs", "costs.in", 0)
    bench.topics.create(
        [todo.input_topic, *WORKLOADS[workload].output_topics(todo.output)],
        WORKLOADS[workload].partitions,
    )
    peer = _Shown(todo)
    MustelaPeer.start(peer)
    try:
        peer.wait_for("running", _START_S)
        time.sleep(3.0)
        access = read_access(todo.state_dir / "~admin" / f"{todo.application_id}.json")
        assert access is not None, "the admin server has not said where it is"
        return per_request(access)
    finally:
        MustelaPeer.stop(peer)
        clean_up(bench, todo)


def _loaded(_side: Contestant, _todo: Assignment, held: FixedLoad) -> Numbers:
    cpu = round(held.numbers["fixed_load.cpu_percent"], 1)
    return {"p95_ms": latencies(held)["p95_ms"], "cpu_percent": cpu}


def main() -> None:
    """Run the command line; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="word_count")
    parser.add_argument("--turns", type=int, default=5, help="of each; one more does not count")
    parser.add_argument("--records", type=int, default=5_000_000, help="at saturation")
    parser.add_argument("--rate", type=int, default=100_000, help="records a second")
    parser.add_argument("--seconds", type=int, default=40, help="measured at that rate")
    parser.add_argument("--warm-up", type=int, default=15, help="seconds before it counts")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    found = compare(given)
    with given.out.open("a") as file:
        file.write(json.dumps({"processors": os.cpu_count(), **found}) + "\n")
    print(json.dumps({key: found[key] for key in ("median_ratio", "cpu_ms_per_request")}))
    sys.exit(0 if found["within_bars"] else 1)


if __name__ == "__main__":
    main()
