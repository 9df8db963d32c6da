"""One run of one peer: catching up with a full topic, or keeping up with a fixed load."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.kafka import Topics
from benchmarks.measure import Progress, Sampler, Window, disk_bytes, steady_window
from benchmarks.oracles import Oracle
from benchmarks.peers.base import Assignment, Peer, PeerFailedError
from benchmarks.peers.registry import Contestant
from benchmarks.receiver import Load, Receiver
from benchmarks.records import closing
from benchmarks.workloads import SEED, Workload
from mustela_dev import DevelopmentBroker

_START_TIMEOUT_S = 180.0
_STALL_TIMEOUT_S = 120.0
_VISIBLE_TIMEOUT_S = 60.0
_SETTLE_S = 3.0
_CHECKS = 2
_PAUSE_S = 1.5
_RESTART_RATE = 50
_RESTART_S = 15
_IN_FLIGHT_S = 0.1
"""What the closed instance committed last may reach the receiver a little after it closed."""
_MEGA = 1_000_000


class WrongOutputError(Exception):
    """The output differs from the oracle's: the run has no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """How the fixed-load run goes, in seconds and records a second."""

    rate: int = 1_000
    warm_up_s: int = 15
    measure_s: int = 40
    idle_s: int = 15


@dataclass(slots=True, kw_only=True)
class Bench:
    """Where the runs take place.

    Attributes:
        bootstrap: The broker that all peers use.
        broker_pid: Its process, for its CPU time.
        folder: For state, checkpoints and logs; each run has its own below.
        commit_ms: The interval between commits.
        closings: Numbers the runs whose windows are closed: each at a later time than the one
            before, as they share the input.
    """

    bootstrap: str
    broker_pid: int
    folder: Path
    commit_ms: int
    load: LoadPlan
    topics: Topics = field(init=False)
    closings: Iterator[int] = field(default_factory=itertools.count, init=False)

    def __post_init__(self) -> None:
        self.topics = Topics(self.bootstrap)


@contextmanager
def bench_of_its_own(name: str, load: LoadPlan) -> Iterator[Bench]:
    """Give a bench with a broker and a folder that are gone after it.

    Args:
        name: Names the folder.
        load: The fixed load.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"mustela-{name}-"))
    try:
        with DevelopmentBroker(folder / "broker", heap_mb=512) as broker:
            yield Bench(
                bootstrap=broker.bootstrap_servers,
                broker_pid=broker.pid,
                folder=folder,
                commit_ms=100,
                load=load,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """What a catch-up run measured."""

    window: Window
    program_cpu_s: float
    broker_cpu_s: float
    driver_cpu_s: float
    whole_cpu_s: float
    peak_pss_bytes: int
    state_bytes: int
    running_state_bytes: int
    output_records: int
    start_s: dict[str, float]

    def numbers(self) -> dict[str, float]:
        """As the results name them."""
        millions = self.window.records / _MEGA
        return {
            "records_per_s": self.window.records_per_s,
            "cpu_s_per_million": self.program_cpu_s / millions,
            "broker_cpu_s_per_million": self.broker_cpu_s / millions,
            "driver_cpu_s_per_million": self.driver_cpu_s / millions,
            "total_cpu_s_per_million": (self.program_cpu_s + self.broker_cpu_s) / millions,
            "run_cpu_s": self.whole_cpu_s,
            "peak_pss_mb": self.peak_pss_bytes / _MEGA,
            "state_mb": self.state_bytes / _MEGA,
            "running_state_mb": self.running_state_bytes / _MEGA,
            "output_records": float(self.output_records),
            **{f"start_s.{part}": seconds for part, seconds in self.start_s.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLoad:
    """What a fixed-load run measured."""

    latencies_ms: list[float]
    numbers: dict[str, float]


def fill(bench: Bench, workload: Workload, topic: str, count: int) -> Oracle:
    """Fill an input topic and its sides; return the oracle that saw the records."""
    oracle = workload.oracle()
    for side in workload.sides:
        see = partial(oracle.see_side, side.ending)  # pyright: ignore[reportAttributeAccessIssue]
        rows = side.make(side.count(count), SEED)
        bench.topics.fill(f"{topic}-{side.ending}", workload.partitions, rows, see)
    bench.topics.fill(topic, workload.partitions, workload.make(count, SEED), oracle.see)
    return oracle


def assignment(
    bench: Bench, workload: Workload, contestant: Contestant, run: str, topic: str, count: int
) -> Assignment:
    """What one run is to do, with names of its own for everything it makes."""
    application_id = f"bench-{workload.name}-{contestant.peer}-{contestant.guarantee}-{run}"
    folder = bench.folder / application_id
    folder.mkdir(parents=True)
    return Assignment(
        program=workload.program,
        bootstrap=bench.bootstrap,
        input_topic=topic,
        output=f"{application_id}.out",
        application_id=application_id,
        guarantee=contestant.guarantee,
        partitions=workload.partitions,
        records=workload.followed(count),
        sides=tuple(f"{topic}-{side.ending}" for side in workload.sides if side.followed),
        commit_ms=bench.commit_ms,
        state_dir=folder / "state",
        log=folder / "log",
    )


def clean_up(bench: Bench, todo: Assignment) -> None:
    """Remove what a run left on the broker and on disk."""
    bench.topics.forget(todo.application_id)
    bench.topics.delete_of(todo.application_id)
    shutil.rmtree(todo.state_dir.parent, ignore_errors=True)


class _FirstOutput:
    """Keeps every look at the progress, and when the output first held something visible."""

    def __init__(self, topics: Topics, names: list[str]) -> None:
        self._topics = topics
        self._names = names
        self.looks: list[Progress] = []
        self.time: float | None = None

    def __call__(self, look: Progress) -> None:
        self.looks.append(look)
        if self.time is None:
            ends = (sum(self._topics.end_offsets(name).values()) for name in self._names)
            if any(ends):
                self.time = time.time()


def catch_up(
    bench: Bench, workload: Workload, contestant: Contestant, todo: Assignment, oracle: Oracle
) -> CatchUp:
    """Let a peer work off a full topic, check its output, then work out its numbers.

    Raises:
        WrongOutputError: If the output is not the oracle's.
        PeerFailedError: If the peer ended or stalled.
    """
    outputs = workload.output_topics(todo.output)
    bench.topics.create(outputs, workload.partitions)
    peer = contestant.build(todo)
    watch = _FirstOutput(bench.topics, outputs)
    peer.start()
    sampler = Sampler(program_pid=peer.pid, broker_pid=bench.broker_pid)
    sampler.start()
    try:
        peer.wait_until(bench.topics, todo.records, _START_TIMEOUT_S, watch)
        sampler.stop()
        if workload.closed:
            close_windows(bench, peer, todo)
        count = verify(bench, outputs, todo.output, oracle)
        running = peer.event("running")
        running_state_bytes = disk_bytes(todo.state_dir)  # right after its last record
    finally:
        sampler.stop()
        peer.stop()
    state_bytes = disk_bytes(todo.state_dir)  # as it lies there for the next start
    window = steady_window(watch.looks, todo.records, running.time if running else peer.started_at)
    program, broker = sampler.cpu_between(window.begin, window.end)
    return CatchUp(
        window=window,
        program_cpu_s=program,
        broker_cpu_s=broker,
        driver_cpu_s=sampler.root_cpu_between(window.begin, window.end),
        whole_cpu_s=sampler.samples[-1].program_cpu_s,
        peak_pss_bytes=sampler.peak_pss_bytes,
        state_bytes=state_bytes,
        running_state_bytes=running_state_bytes,
        output_records=count,
        start_s=start_parts(peer, watch.time),
    )


def close_windows(bench: Bench, peer: Peer, todo: Assignment) -> None:
    """Send what closes the last windows, and wait until the peer has worked it off.

    It comes behind a pause: Kafka Streams looks for results without a partner once a second, when
    a record arrives.
    """
    time.sleep(_PAUSE_S)
    names = (todo.input_topic, *todo.sides)
    number = next(bench.closings)
    for name in names:
        bench.topics.append(name, closing(number))
    ends = sum(sum(bench.topics.end_offsets(name).values()) for name in names)
    peer.wait_until(bench.topics, ends, _STALL_TIMEOUT_S, lambda _look: None)


def verify(bench: Bench, outputs: list[str], stem: str, oracle: Oracle) -> int:
    """Read the whole output and hold it against the oracle.

    Returns:
        How many records it has.

    Raises:
        WrongOutputError: If it is not what it must be, with what is wrong.
    """
    for attempt in range(_CHECKS):
        seen = itertools.count()
        faults = oracle.check(
            record for record in bench.topics.read(outputs, stem) if next(seen) >= 0
        )
        if not faults:
            return next(seen)
        if attempt < _CHECKS - 1:
            # Progress is known to a transaction's mark or two; a last record may be on its way.
            time.sleep(_SETTLE_S)
    raise WrongOutputError("; ".join(faults))


def start_parts(peer: Peer, first_output: float | None) -> dict[str, float]:
    """From the start of the process to each thing it said, and to its first visible output."""
    parts: dict[str, float] = {}
    for name in ("main", "session", "running"):
        event = peer.event(name)
        if event is not None:
            parts[name] = event.time - peer.started_at
    if first_output is not None:
        parts["first_output"] = first_output - peer.started_at
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A peer that is ready for a load, what reads its results, and what watches both."""

    peer: Peer
    receiver: Receiver
    sampler: Sampler


@contextmanager
def running(
    bench: Bench, workload: Workload, contestant: Contestant, todo: Assignment
) -> Iterator[Running]:
    """Start a peer on topics of its own; at the end it is stopped.

    Raises:
        PeerFailedError: If it ended or did not start.
    """
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
        peer.wait_for("running", _START_TIMEOUT_S)
        time.sleep(_SETTLE_S)
        yield Running(peer=peer, receiver=receiver, sampler=sampler)
    finally:
        sampler.stop()
        receiver.stop()
        peer.stop()


def keep_up(bench: Bench, now: Running, todo: Assignment) -> tuple[float, list[float]]:
    """Send the bench's load; return when what counts of it began, and its latencies in ms.

    Raises:
        WrongOutputError: If a stamped record did not arrive exactly as often as it must.
        PeerFailedError: If the load did not start.
    """
    plan = bench.load
    begin = time.time() + 0.5
    load = Load(
        program=todo.program,
        rate=plan.rate,
        begin_us=int(begin * 1e6),
        count=plan.rate * (plan.warm_up_s + plan.measure_s),
    )
    if code := start_load(bench, todo.input_topic, load).wait():
        raise PeerFailedError(f"the load generator ended with {code}")
    now.receiver.wait_for_count(sum(load.expected().values()), _VISIBLE_TIMEOUT_S)
    if faults := load.faults(now.receiver.arrivals):
        raise WrongOutputError("; ".join(faults))
    return begin + plan.warm_up_s, load.latencies_ms(now.receiver.arrivals, plan.warm_up_s)


def fixed_load(
    bench: Bench, workload: Workload, contestant: Contestant, todo: Assignment
) -> FixedLoad:
    """Send a peer a fixed load, leave it idle, restart it inside its process.

    Raises:
        WrongOutputError: If a stamped record did not arrive exactly as often as it must.
        PeerFailedError: If the peer ended or did not start.
    """
    plan = bench.load
    with running(bench, workload, contestant, todo) as now:
        sampler = now.sampler
        first, latencies = keep_up(bench, now, todo)
        pss = sampler.peak_pss_bytes
        time.sleep(_SETTLE_S)
        idle = (time.time(), time.time() + plan.idle_s)
        time.sleep(plan.idle_s)
        sampler.stop()
        restart = _restart(bench, now.peer, now.receiver, todo)
    program, broker = sampler.cpu_between(first, first + plan.measure_s)
    numbers = {
        "fixed_load.cpu_percent": 100 * program / plan.measure_s,
        "fixed_load.broker_cpu_percent": 100 * broker / plan.measure_s,
        "fixed_load.peak_pss_mb": pss / _MEGA,
        "idle_cpu_percent": 100 * sampler.cpu_between(*idle)[0] / plan.idle_s,
        **restart,
    }
    return FixedLoad(latencies_ms=latencies, numbers=numbers)


def start_load(bench: Bench, topic: str, load: Load) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.load"),
            *("--bootstrap", bench.bootstrap),
            *("--topic", topic),
            *("--program", load.program),
            *("--rate", str(load.rate)),
            *("--begin-us", str(load.begin_us)),
            *("--count", str(load.count)),
        ],
        cwd=Path(__file__).parent.parent,
    )


def _restart(bench: Bench, peer: Peer, receiver: Receiver, todo: Assignment) -> dict[str, float]:
    """Seconds to close, and from closed to the first output, of a restart inside the process."""
    load = Load(
        program=todo.program,
        rate=_RESTART_RATE,
        begin_us=int((time.time() + 0.5) * 1e6),
        count=_RESTART_RATE * _RESTART_S,
    )
    process = start_load(bench, todo.input_topic, load)
    try:
        time.sleep(2.0)
        asked = time.time()
        peer.tell("restart")
        closed = peer.wait_for("closed", _STALL_TIMEOUT_S, after=asked)
        deadline = time.monotonic() + _STALL_TIMEOUT_S
        first = receiver.first_after(closed.time + _IN_FLIGHT_S)
        while first is None:
            if time.monotonic() > deadline:
                raise PeerFailedError(f"{peer.name}: no output after its restart")
            time.sleep(0.02)
            first = receiver.first_after(closed.time + _IN_FLIGHT_S)
    finally:
        process.wait()
    return {
        "restart.close_s": closed.time - asked,
        "restart.first_output_s": first - closed.time,
    }
