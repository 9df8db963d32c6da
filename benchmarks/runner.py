"""Runs one workload: fills the topic once, then lets the contestants take turns."""

from __future__ import annotations

import compileall
import py_compile
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import mustela
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
    fill,
    fixed_load,
)
from benchmarks.workloads import SEED, Workload
from mustela.compiled import form
from mustela.java import find_java
from mustela.spark.archive import make_archive
from mustela.spark.jvm import find_archive
from mustela_dev import DevelopmentBroker

USUAL_COMMIT_MS = 100
_BROKER_HEAP_MB = 1_024
_KEPT_LOG_LINES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run.

    Attributes:
        runs: How often each contestant takes its turn.
        records: In the input topic.
        latency_runs: How often each takes its turn under the fixed load, afterwards.
        warm_up: Records that each works off before the first turn, which is not counted: a broker
            that has just started spends several times the CPU seconds on the first run.
        keep: Whether logs and state stay for a look afterwards.
        folder: Where the results are written, behind each run, so that none is lost.
        add: Whether the runs that the folder holds already count too.
    """

    workload: Workload
    contestants: Sequence[Contestant]
    runs: int
    records: int
    commit_ms: int
    load: LoadPlan
    latency_runs: int
    warm_up: int = 0
    keep: bool = False
    folder: Path | None = None
    add: bool = False
    say: Callable[[str], None] = field(default=lambda line: print(line, file=sys.stderr))

    @property
    def name(self) -> str:
        """Names the results: the workload, and what is not as usual."""
        interval = "" if self.commit_ms == USUAL_COMMIT_MS else f"_c{self.commit_ms}"
        only_load = not self.runs and self.load.rate != LoadPlan.rate
        rate = f"_r{self.load.rate}" if only_load else ""
        compiled = "_compiled" if form().compiled else ""
        return f"{self.workload.name}{interval}{rate}{compiled}"


def turns(contestants: Sequence[Contestant], runs: int) -> Iterator[tuple[int, Contestant]]:
    """The order of the runs: forwards, then backwards, and so on, so that drift hits all alike."""
    for run in range(runs):
        order = contestants if run % 2 == 0 else list(reversed(contestants))
        for contestant in order:
            yield run, contestant


def run(order: Order) -> Results:
    """Run a workload on a broker of its own; nothing of it is left behind."""
    prepare()
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


def prepare() -> None:
    """Let Mustela start as an installed package does, behind the first stop of an application.

    An installed package is compiled; a tree of sources is not where Python is told to write no
    compiled code. The first stop would make the archive while others are measured.
    """
    compileall.compile_dir(
        Path(mustela.__file__).parent,
        quiet=2,
        invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
    )
    if find_archive(find_java()) is None:
        make_archive()


@dataclass(slots=True)
class _Inputs:
    """The filled topics: one for each number of records, with its oracle."""

    bench: Bench
    order: Order
    _filled: dict[int, tuple[str, Oracle]] = field(default_factory=dict)

    def of(self, count: int) -> tuple[str, Oracle]:
        """A topic with the first `count` records, filled when first asked for."""
        if count not in self._filled:
            topic = self.order.workload.input_topic(count)
            self._filled[count] = (topic, self.fill(topic, count))
        return self._filled[count]

    def fill(self, topic: str, count: int) -> Oracle:
        """Fill one topic; returns the oracle that saw it."""
        workload, before = self.order.workload, time.monotonic()
        oracle = fill(self.bench, workload, topic, count)
        self.order.say(
            f"{workload.name}: {count} records on {workload.partitions} partitions "
            f"in {time.monotonic() - before:.0f} s"
        )
        return oracle


def _run_on(bench: Bench, order: Order, found: dict[str, object]) -> Results:
    workload = order.workload
    inputs = _Inputs(bench, order)
    results = Results(
        machine=found,
        workload={
            "name": order.name,
            "title": workload.title,
            "records": order.records,
            "partitions": workload.partitions,
            "seed": SEED,
            "commit_ms": order.commit_ms,
            "load_per_s": order.load.rate,
            "warm_up": order.warm_up,
        },
    )
    if order.folder is not None and order.add:
        results.add_runs_of(order.folder)
    able = _able(order)
    if workload.program != "latest" and order.runs:
        # All topics are filled before the first run: filling would disturb it.
        for contestant in able:
            inputs.of(contestant.records(order.records))
        _warm_up(inputs, able)
    for number, contestant in turns(able, order.runs):
        if workload.program == "latest":
            _restore_turn(inputs, contestant, f"{number}", results)
        else:
            _catch_up_turn(inputs, contestant, f"{number}", results)
        _save(order, results)
    if workload.latency:
        for number, contestant in turns(able, order.latency_runs):
            _fixed_load_turn(bench, order, contestant, f"load{number}", results)
            _save(order, results)
    return results


def _able(order: Order) -> list[Contestant]:
    """Those that can do the job; it is said why the others cannot."""
    program = order.workload.program
    able: list[Contestant] = []
    for contestant in order.contestants:
        reason = contestant.cannot(program)
        if reason is None:
            able.append(contestant)
        else:
            order.say(f"  {contestant}: not run, {reason}")
    return able


def _save(order: Order, results: Results) -> None:
    if order.folder is not None:
        results.write(order.folder)


def _warm_up(inputs: _Inputs, able: Sequence[Contestant]) -> None:
    """Let each contestant run once without a number, so that the broker is warm for all alike."""
    order = inputs.order
    if not order.warm_up:
        return
    brief = replace(inputs, order=replace(order, records=order.warm_up))
    for contestant in able:
        _catch_up_turn(brief, contestant, "warm", Results(machine={}, workload={}))


def _catch_up_turn(inputs: _Inputs, contestant: Contestant, name: str, results: Results) -> None:
    bench, order = inputs.bench, inputs.order
    count = contestant.records(order.records)
    topic, oracle = inputs.of(count)
    todo = assignment(bench, order.workload, contestant, name, topic, count)

    def measure() -> str:
        measured = catch_up(bench, order.workload, contestant, todo, oracle)
        results.row(contestant).add_catch_up(measured, count)
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


def _restore_turn(inputs: _Inputs, contestant: Contestant, name: str, results: Results) -> None:
    bench, order = inputs.bench, inputs.order
    count = contestant.records(order.records)
    todo = _with_own_input(assignment(bench, order.workload, contestant, name, "", count))
    # Each start adds a record, so each run has an input of its own.
    oracle = inputs.fill(todo.input_topic, count)

    def measure() -> str:
        filled, numbers = restore(bench, order.workload, contestant, todo, oracle)
        results.row(contestant).add_catch_up(filled, count)
        results.row(contestant).add_numbers("restore", numbers)
        return (
            f"restore {numbers.get('restore.mb_per_s', 0):.1f} MB/s, start with state "
            f"{numbers['restore.start_with_state_s']:.1f} s, without "
            f"{numbers['restore.start_without_state_s']:.1f} s"
        )

    _turn(bench, order, contestant, todo, measure, results)


def _with_own_input(todo: Assignment) -> Assignment:
    return replace(todo, input_topic=f"{todo.application_id}.in")


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
