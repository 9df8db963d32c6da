"""The command line: `python -m benchmarks list | run WORKLOAD … | report | memory …`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import memory
from benchmarks.peers.registry import CONTESTANTS, Contestant, contestants
from benchmarks.report import write_report
from benchmarks.results import RESULTS, OtherRunsError
from benchmarks.runner import Order, run
from benchmarks.trial import LoadPlan
from benchmarks.workloads import WORKLOADS

_RUNS = 5
_COMMIT_MS = 100
_WARM_UP = 100_000
_QUICK_LOAD = LoadPlan(warm_up_s=3, measure_s=5, idle_s=3)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when a run had no number, 2 when it was not understood."""
    given = _parser().parse_args(words)
    # A plain end would leave the processes that the runs started; an exception ends them in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.command == "list":
        return _list()
    if given.command == "report":
        print(write_report(given.results))
        return 0
    if given.command == "memory":
        return memory.run_all(given)
    return _run(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what can be run")
    report = commands.add_parser("report", help="draw docs/benchmarks.md from the results")
    report.add_argument("--results", type=Path, default=RESULTS)
    memory.add_arguments(commands.add_parser("memory", help="where each megabyte is"))
    running = commands.add_parser("run", help="run workloads side by side")
    running.add_argument("workload", nargs="+", choices=[*WORKLOADS, "all"])
    running.add_argument("--peers", help="comma separated; all by default")
    running.add_argument("--guarantees", help="eos, alo or both; both by default")
    running.add_argument("--runs", type=int, help=f"of each peer; {_RUNS} by default")
    running.add_argument("--records", type=int, help="in the input topic")
    running.add_argument("--partitions", type=int, help="of all topics")
    running.add_argument("--commit-ms", type=int, default=_COMMIT_MS)
    running.add_argument("--quick", action="store_true", help="one small run, no result file")
    running.add_argument(
        "--latency-runs",
        type=int,
        help="fixed-load runs of each peer; as many as --runs by default, none in quick runs",
    )
    running.add_argument(
        "--warm-up",
        type=int,
        help=f"records of a run of each peer that does not count; {_WARM_UP:,} by default, none "
        "in quick runs",
    )
    running.add_argument("--out", type=Path, help="folder of the result files")
    running.add_argument(
        "--add", action="store_true", help="to the runs that --out holds of the same workload"
    )
    running.add_argument("--keep", action="store_true", help="keep logs and state")
    return parser


def _list() -> int:
    for workload in WORKLOADS.values():
        print(f"{workload.name:12} {workload.records:>9,} records  {workload.title}")
    print("peers:", ", ".join(str(contestant) for contestant in CONTESTANTS))
    return 0


def _run(given: argparse.Namespace) -> int:
    try:
        chosen = contestants(_words(given.peers), _words(given.guarantees))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    names = list(WORKLOADS) if "all" in given.workload else given.workload
    failed = False
    for name in names:
        try:
            results = run(_order(given, name, chosen))
        except OtherRunsError as error:
            print(error, file=sys.stderr)
            return 2
        failed |= any(row.faults for row in results.rows.values())
        print(json.dumps(results.document(), indent=2))
    return 1 if failed else 0


def _order(given: argparse.Namespace, name: str, chosen: list[Contestant]) -> Order:
    workload = WORKLOADS[name]
    if given.partitions:
        workload = workload.on(given.partitions)
    runs = given.runs if given.runs is not None else (1 if given.quick else _RUNS)
    latency_runs = given.latency_runs
    if latency_runs is None:
        latency_runs = 0 if given.quick else runs
    warm_up = given.warm_up
    if warm_up is None:
        warm_up = 0 if given.quick else _WARM_UP
    return Order(
        workload=workload,
        contestants=chosen,
        runs=runs,
        records=given.records or (workload.quick_records if given.quick else workload.records),
        commit_ms=given.commit_ms,
        load=_QUICK_LOAD if given.quick else LoadPlan(),
        latency_runs=latency_runs,
        warm_up=warm_up,
        keep=given.keep,
        folder=given.out or (None if given.quick else RESULTS),
        add=given.add,
    )


def _words(text: str | None) -> list[str] | None:
    return text.split(",") if text else None


if __name__ == "__main__":
    sys.exit(main())
