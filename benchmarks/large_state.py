"""What a large state takes on disk: ``python -m benchmarks.large_state``.

A topic of orders is worked off by Kafka Streams with RocksDB as it comes, by Mustela, and by
Mustela with compressed values, one after the other on one broker. The output is held against the
oracle. The state directory is measured right after the last record, some seconds later, after an
idle while, and after a clean stop, as is what the idle while takes of the processor. Bar: five
seconds after the last record at most 1.3 times Kafka Streams' at the same moment.

What compression costs a core is measured without Spark and Kafka: the same rows are folded and
read in one environment with it, and in one without.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kernel import best
from benchmarks.measure import Progress, Sampler, disk_bytes, steady_window
from benchmarks.peers.base import Assignment, Peer
from benchmarks.peers.mustela_peer import MustelaPeer
from benchmarks.peers.registry import Contestant, contestants
from benchmarks.trial import Bench, LoadPlan, assignment, bench_of_its_own, clean_up, verify
from benchmarks.workloads import SEED, WORKLOADS, Workload
from mustela.state.engine import Compression, Engine
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment

BAR = 1.3
AFTER_S = (0, 2, 5, 10)
"""The seconds after the last record at which directories are measured."""
JUDGED_S = 5
_TIMEOUT_S = 400.0
_MEGA = 1_000_000
_RESULTS = Path(__file__).parent / "results" / "large_state.jsonl"


class _Compressed(MustelaPeer):
    """Mustela, with compressed values."""

    def environment(self) -> Mapping[str, str]:
        return {**MustelaPeer.environment(self), "BENCH_COMPRESSION": "zstd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side(Contestant):
    """Mustela, with compressed values."""

    def build(self, assignment: Assignment) -> Peer:
        return _Compressed(assignment)


def state_of(
    bench: Bench, workload: Workload, side: Contestant, given: argparse.Namespace
) -> dict[str, float]:
    """Work off the topic, check the output, and return what it took."""
    topic = workload.input_topic(given.records)
    todo = assignment(bench, workload, side, "large", topic, given.records)
    outputs = workload.output_topics(todo.output)
    bench.topics.create(outputs, workload.partitions)
    oracle = workload.oracle()
    for record in workload.make(given.records, SEED):
        oracle.see(record)
    peer, looks = side.build(todo), list[Progress]()
    peer.start()
    sampler = Sampler(program_pid=peer.pid, broker_pid=bench.broker_pid)
    sampler.start()
    try:
        peer.wait_until(bench.topics, todo.records, _TIMEOUT_S, looks.append)
        done = time.time()
        sizes = dict(_sizes(todo.state_dir, done, (*AFTER_S, given.idle)))
        sampler.stop()
        verify(bench, outputs, todo.output, oracle)
        begun = peer.event("running")
    finally:
        sampler.stop()
        peer.stop()
    stopped = disk_bytes(todo.state_dir)
    window = steady_window(looks, todo.records, begun.time if begun else peer.started_at)
    cpu, _ = sampler.cpu_between(window.begin, window.end)
    idle_cpu, _ = sampler.cpu_between(done, done + given.idle)
    clean_up(bench, todo)
    return {
        "records_per_s": round(window.records_per_s),
        "cpu_s_per_million": round(cpu / window.records * _MEGA, 2),
        "idle_cpu_s": round(idle_cpu, 2),
        **{f"after_{seconds:g}_s_mb": round(size / _MEGA, 1) for seconds, size in sizes.items()},
        "stopped_mb": round(stopped / _MEGA, 1),
    }


def _sizes(folder: Path, since: float, moments: Iterable[float]) -> Iterator[tuple[float, int]]:
    """Yield the size of a directory so many seconds after a moment."""
    for seconds in moments:
        time.sleep(max(0.0, since + seconds - time.time()))
        yield seconds, disk_bytes(folder)


def beside_peers(given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return what each peer's state takes."""
    workload = WORKLOADS["large"]
    sides = [
        *contestants(["kafka_streams", "mustela"], ["eos"]),
        _Side(peer="mustela_zstd", guarantee="eos"),
    ]
    found: dict[str, dict[str, float]] = {}
    with bench_of_its_own("large", LoadPlan()) as bench:
        topic, records = workload.input_topic(given.records), workload.make(given.records, SEED)
        bench.topics.fill(topic, workload.partitions, records, lambda _record: None)
        for side in sides:
            found[side.peer] = state_of(bench, workload, side, given)
            print(side.peer, json.dumps(found[side.peer]), file=sys.stderr, flush=True)
    return found


def on_a_core(rows: int, batch: int) -> dict[str, dict[str, float]]:
    """Return rows a second that are folded and read, and bytes a row, with and without."""
    table = {key: value for key, value, *_ in WORKLOADS["large"].make(rows, SEED)}
    everything = sorted((key, value) for key, value in table.items() if key is not None)
    some = random.Random(SEED).sample(everything, batch)
    found: dict[str, dict[str, float]] = {}
    kinds: tuple[Compression, ...] = ("none", "zstd")
    for compression in kinds:
        with tempfile.TemporaryDirectory() as directory:
            store = StoreSpec(name="s", kind="key_value", engine=Engine(compression=compression))
            place = EnvironmentSpec(
                application_id="b", stage="s", group=0, groups=1, stores=(store,)
            )
            environment = LmdbEnvironment(Path(directory), place, boot="b")
            state = Committed()
            for number, start in enumerate(range(0, len(everything), batch), 1):
                token = Token(1, number, 0)
                part = everything[start : start + batch]
                environment.write_pending(token, state, {"s": part})
                state = Committed(token=token)
            environment.fold(state)
            environment.compact()
            found[compression] = _rates(environment, state, some)
            found[compression]["bytes_a_row"] = round(
                environment.sizes()["s"].size / len(everything), 1
            )
    return found


def _rates(
    environment: LmdbEnvironment, state: Committed, some: list[tuple[bytes, bytes]]
) -> dict[str, float]:
    keys = [key for key, _ in some]
    view = environment.snapshot(state)
    assert view.getmulti("s", keys) == [value for _, value in some]
    read = best(lambda: view.getmulti("s", keys), 5)
    scan = best(lambda: sum(1 for _ in view.range("s", None, None)), 3)
    count = view.count("s")
    view.close()
    took: list[float] = []
    known = state
    for _ in range(5):
        assert known.token is not None
        token = Token(1, known.token.epoch + 1, 0)
        environment.write_pending(token, known, {"s": sorted(some)})
        known = Committed(token=token)
        begun = time.process_time()
        environment.fold(known)
        took.append(time.process_time() - begun)
    return {
        "read_per_s": round(len(keys) / read),
        "scan_per_s": round(count / scan),
        "fold_per_s": round(len(keys) / min(took)),
    }


def main() -> None:
    """Run the command line; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=WORKLOADS["large"].records)
    parser.add_argument("--idle", type=float, default=25.0, help="seconds")
    parser.add_argument("--core", action="store_true", help="only what compression costs a core")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    core = on_a_core(200_000, 20_000)
    if given.core:
        print(json.dumps(core, indent=2))
        return
    found = beside_peers(given)
    theirs = found["kafka_streams"]
    ratios = {
        name: {
            moment: round(size / theirs[moment], 2)
            for moment, size in one.items()
            if moment.endswith("_mb")
        }
        for name, one in found.items()
    }
    line = {"processors": os.cpu_count(), "records": given.records, "core": core}
    with given.out.open("a") as file:
        file.write(json.dumps({**line, "peers": found, "ratios": ratios}) + "\n")
    print(json.dumps({**line, "peers": found, "ratios": ratios}))
    sys.exit(0 if ratios["mustela"][f"after_{JUDGED_S}_s_mb"] <= BAR else 1)


if __name__ == "__main__":
    main()
