"""The command line: `python -m benchmarks list | run … | report | keep | …`; ``--help`` has all."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import against, kernel, memory
from benchmarks.peers.registry import CONTESTANTS, Contestant, contestants
from benchmarks.report import write_report
from benchmarks.results import RESULTS, OtherRunsError
from benchmarks.runner import Order, run
from benchmarks.trial import LoadPlan
from benchmarks.workloads import WORKLOADS, Workload

_RUNS = 5
_COMMIT_MS = 100
_RATE = 1_000
_SWEEP = {"commit_ms": [100, 1_000], "rates": [1_000, 10_000, 50_000], "partitions": [6, 1, 2, 24]}
_WARM_UP = 100_000
_QUICK_LOAD = LoadPlan(warm_up_s=3, measure_s=5, idle_s=3)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when a run had no number, 2 when it was not understood."""
    given = _parser().parse_args(_spelled(sys.argv[1:] if words is None else words))
    # A plain end would leave the processes that the runs started; an exception ends them in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.command == "list":
        return _list()
    if given.command == "report":
        print(write_report(given.results))
        return 0
    if given.command == "against":
        return against.run(given)
    if given.command == "keep":
        print(against.keep(given.results))
        return 0
    if given.command == "memory":
        return memory.run_all(given)
    if given.command == "kernel":
        return kernel.run_all(given)
    return _run(given)


def _spelled(words: Sequence[str]) -> list[str]:
    """`--against RELEASE` is another spelling of `against RELEASE`."""
    return ["against", *words[1:]] if words and words[0] == "--against" else list(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what can be run")
    report = commands.add_parser("report", help="draw docs/benchmarks.md from the results")
    report.add_argument("--results", type=Path, default=RESULTS)
    against.add_arguments(commands.add_parser("against", help="is anything worse than it was?"))
    keeping = commands.add_parser("keep", help="keep today's figures as this version's")
    keeping.add_argument("--results", type=Path, default=RESULTS)
    memory.add_arguments(commands.add_parser("memory", help="where each megabyte is"))
    kernel.add_arguments(commands.add_parser("kernel", help="records per second without a broker"))
    running = commands.add_parser("run", help="run workloads side by side")
    running.add_argument("workload", nargs="+", choices=[*WORKLOADS, "all"])
    running.add_argument("--peers", help="comma separated; all by default")
    running.add_argument("--guarantees", help="eos, alo or both; both by default")
    running.add_argument("--runs", type=int, help=f"of each peer; {_RUNS} by default")
    running.add_argument("--records", type=int, help="in the input topic")
    running.add_argument("--partitions", type=_wholes, help="of all topics; comma separated")
    running.add_argument(
        "--commit-ms", type=_wholes, help=f"between commits; comma separated; {_COMMIT_MS}"
    )
    running.add_argument(
        "--rates", type=_wholes, help=f"of the fixed load, a second; comma separated; {_RATE}"
    )
    running.add_argument(
        "--sweep",
        action="store_true",
        help="every commit interval, rate and number of partitions of the published tables",
    )
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
    for order in (order for name in names for order in _orders(given, name, chosen)):
        try:
            results = run(order)
        except OtherRunsError as error:
            print(error, file=sys.stderr)
            return 2
        failed |= any(row.faults for row in results.rows.values())
        print(json.dumps(results.document(), indent=2))
    return 1 if failed else 0


def _orders(given: argparse.Namespace, name: str, chosen: list[Contestant]) -> Iterator[Order]:
    """One order for each combination of partitions and interval, one more for each further rate.

    Further rates are for the workload's own number of partitions: latency is a matter of the load.
    """
    whole = _order(given, WORKLOADS[name], chosen)
    usual = whole.workload.partitions
    plan = {
        word: getattr(given, word) or (kept if given.sweep else None)
        for word, kept in _SWEEP.items()
    }
    for partitions in plan["partitions"] or [usual]:
        for commit_ms in plan["commit_ms"] or [_COMMIT_MS]:
            order = replace(whole, workload=whole.workload.on(partitions), commit_ms=commit_ms)
            first, *further = plan["rates"] or [whole.load.rate]
            if given.sweep and partitions != usual:
                order, further = replace(order, latency_runs=0), []
            yield replace(order, load=replace(order.load, rate=first))
            if order.workload.latency and order.latency_runs:
                for rate in further:
                    yield replace(order, runs=0, load=replace(order.load, rate=rate))


def _order(given: argparse.Namespace, workload: Workload, chosen: list[Contestant]) -> Order:
    """What is the same in all of a workload's orders."""
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
        commit_ms=_COMMIT_MS,
        load=_QUICK_LOAD if given.quick else LoadPlan(),
        latency_runs=latency_runs,
        warm_up=warm_up,
        keep=given.keep,
        folder=given.out or (None if given.quick else RESULTS),
        add=given.add,
    )


def _wholes(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _words(text: str | None) -> list[str] | None:
    return text.split(",") if text else None


if __name__ == "__main__":
    sys.exit(main())
