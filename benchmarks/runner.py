"""Runs one workload: fills the topic once, then lets the contestants take turns."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kafka import BrokerSilenceError
from benchmarks.measure import machine
from benchmarks.oracles import Oracle
from benchmarks.peers.base import Assignment, PeerFailedError
from benchmarks.peers.registry import Contestant
from benchmarks.restore import restore
from benchmarks.results import Results
from benchmarks.trial import (
    Bench,
    LoadPlan,
    WrongOutputError,
    assignment,
    catch_up,
    clean_up,
    fixed_load,
)
from benchmarks.workloads import SEED, Workload
from mustela.broker.process import DevelopmentBroker

_BROKER_HEAP_MB = 1_024
_WITHOUT_RESTORE = ("pyspark",)
_KEPT_LOG_LINES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run.

    Attributes:
        runs: How often each contestant takes its turn.
        records: In the input topic.
        latency: Whether fixed-load runs follow the catch-up runs.
        keep: Whether logs and state stay for a look afterwards.
    """

    workload: Workload
    contestants: Sequence[Contestant]
    runs: int
    records: int
    commit_ms: int
    load: LoadPlan
    latency: bool = True
    keep: bool = False
    say: Callable[[str], None] = field(default=lambda line: print(line, file=sys.stderr))


def turns(contestants: Sequence[Contestant], runs: int) -> Iterator[tuple[int, Contestant]]:
    """The order of the runs: forwards, then backwards, and so on, so that drift hits all alike."""
    for run in range(runs):
        order = contestants if run % 2 == 0 else list(reversed(contestants))
        for contestant in order:
            yield run, contestant


def run(order: Order) -> Results:
    """Run a workload on a broker of its own; nothing of it is left behind."""
    found = machine()
    folder = Path(tempfile.mkdtemp(prefix="mustela-bench-"))
    try:
        with DevelopmentBroker(folder / "broker", heap_mb=_BROKER_HEAP_MB) as broker:
            bench = Bench(
                bootstrap=broker.bootstrap_servers,
                broker_pid=broker.pid,
                folder=folder,
                commit_ms=order.commit_ms,
                load=order.load,
            )
            return _run_on(bench, order, found)
    finally:
        if order.keep:
            order.say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _run_on(bench: Bench, order: Order, found: dict[str, object]) -> Results:
    workload = order.workload
    topic = workload.input_topic(order.records)
    oracle = workload.oracle()
    before = time.monotonic()
    source = workload.make(order.records, SEED)
    bench.topics.fill(topic, workload.partitions, source, oracle)
    order.say(
        f"{workload.name}: {order.records} records on {workload.partitions} partitions "
        f"in {time.monotonic() - before:.0f} s"
    )
    results = Results(
        machine=found,
        workload={
            "name": workload.name,
            "title": workload.title,
            "records": order.records,
            "partitions": workload.partitions,
            "seed": SEED,
            "commit_ms": order.commit_ms,
            "runs": order.runs,
            "load_per_s": order.load.rate,
        },
    )
    turn = itertools.count()
    for number, contestant in turns(order.contestants, order.runs):
        if workload.program == "latest":
            # Each start adds a record, so each run has an input of its own.
            _restore_turn(bench, order, contestant, f"{number}-{next(turn)}", results)
        else:
            _catch_up_turn(bench, order, contestant, f"{number}", topic, oracle, results)
    if order.latency and workload.latency:
        for number, contestant in turns(order.contestants, order.runs):
            _fixed_load_turn(bench, order, contestant, f"load{number}", results)
    return results


def _catch_up_turn(
    bench: Bench,
    order: Order,
    contestant: Contestant,
    name: str,
    topic: str,
    oracle: Oracle,
    results: Results,
) -> None:
    todo = assignment(bench, order.workload, contestant, name, topic, order.records)

    def measure() -> str:
        measured = catch_up(bench, order.workload, contestant, todo, oracle)
        results.row(contestant).add_catch_up(measured)
        numbers = measured.numbers()
        return (
            f"{numbers['records_per_s']:,.0f} records/s, "
            f"{numbers['cpu_s_per_million']:.2f} CPU-s/M, "
            f"broker {numbers['broker_cpu_s_per_million']:.2f}, "
            f"{numbers['peak_pss_mb']:.0f} MB ({measured.window.method}), output verified"
        )

    _turn(bench, order, contestant, todo, measure, results)


def _fixed_load_turn(
    bench: Bench, order: Order, contestant: Contestant, name: str, results: Results
) -> None:
    draft = assignment(bench, order.workload, contestant, name, "", 0)
    todo = _with_own_input(draft)

    def measure() -> str:
        measured = fixed_load(bench, order.workload, contestant, todo)
        results.row(contestant).add_fixed_load(measured)
        latency = results.row(contestant).runs[-1]["latency_ms"]
        numbers = measured.numbers
        return (
            f"latency {latency} ms, {numbers['fixed_load.cpu_percent']:.0f} % CPU, "
            f"idle {numbers['idle_cpu_percent']:.1f} %, "
            f"restart {numbers['restart.first_output_s']:.2f} s"
        )

    _turn(bench, order, contestant, todo, measure, results)


def _restore_turn(
    bench: Bench, order: Order, contestant: Contestant, name: str, results: Results
) -> None:
    if contestant.peer in _WITHOUT_RESTORE:
        return
    draft = assignment(bench, order.workload, contestant, name, "", order.records)
    todo = _with_own_input(draft)
    oracle = order.workload.oracle()
    source = order.workload.make(order.records, SEED)
    bench.topics.fill(todo.input_topic, order.workload.partitions, source, oracle)

    def measure() -> str:
        filled, numbers = restore(bench, order.workload, contestant, todo, oracle)
        results.row(contestant).add_catch_up(filled)
        results.row(contestant).add_numbers("restore", numbers)
        return (
            f"restore {numbers.get('restore.mb_per_s', 0):.1f} MB/s, start with state "
            f"{numbers['restore.start_with_state_s']:.1f} s, without "
            f"{numbers['restore.start_without_state_s']:.1f} s"
        )

    _turn(bench, order, contestant, todo, measure, results)


def _with_own_input(todo: Assignment) -> Assignment:
    return Assignment(
        program=todo.program,
        bootstrap=todo.bootstrap,
        input_topic=f"{todo.application_id}.in",
        output=todo.output,
        application_id=todo.application_id,
        guarantee=todo.guarantee,
        partitions=todo.partitions,
        records=todo.records,
        commit_ms=todo.commit_ms,
        state_dir=todo.state_dir,
        log=todo.log,
    )


def _turn(
    bench: Bench,
    order: Order,
    contestant: Contestant,
    todo: Assignment,
    measure: Callable[[], str],
    results: Results,
) -> None:
    """One run with everything around it; what goes wrong costs it its number, not the others."""
    try:
        line = measure()
    except (PeerFailedError, WrongOutputError, BrokerSilenceError) as error:
        results.row(contestant).add_fault(str(error).splitlines()[0])
        line = f"NO NUMBER: {error}"
    order.say(f"  {contestant} {todo.application_id.rpartition('-')[2]}: {line}")
    if not order.keep:
        clean_up(bench, todo)
