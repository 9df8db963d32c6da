"""The driver's own work for an epoch: ``python -m benchmarks.driver_loop``.

The loop of the driver runs against a broker and an engine that answer at once, with 1 to 10,000
source partitions, of which fifty or all get records. Written down is its processor time for each
epoch, and for each look that finds nothing; what the two stand-ins took is not in it. How far the
loop came is held against what it was given, and the last record against the loop, before a number
counts. ``--against TREE`` runs the sources of another tree in turns with these, and gives ratios.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from mustela import StreamsBuilder
from mustela.clock import ManualClock
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import TopicDescription
from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder, TaskReport
from mustela.plan.ranges import RangeReport
from mustela.planner.planner import plan
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.engine import EpochOutput
from mustela.runtime.ports import LocalState, World
from mustela.runtime.record.record_rows import RecordFold

_RESULTS = Path(__file__).parent / "results" / "driver_loop.jsonl"
_TOPIC = "lines"
_SOME = 50
_START_MS = 1_700_000_000_000


class _StandIn:
    """Broker, engine and disk in one: what is asked is answered at once.

    Attributes:
        logs: Where partitions end.
        took: Seconds of processor time that answers took.
        values: The rows of the epochs topic.
    """

    def __init__(self, partitions: int, clock: ManualClock) -> None:
        self._places = [TopicPartition(_TOPIC, n) for n in range(partitions)]
        self._clock = clock
        self.logs = dict.fromkeys(self._places, LogPosition(0, 0))
        self.took = 0.0
        self.values: list[bytes] = []
        self.cores = 2

    def grow(self, places: Iterable[TopicPartition], records: int) -> None:
        """Add records."""
        for place in places:
            self.logs[place] = LogPosition(self.logs[place].offset + records, 0)

    # --- the cluster

    def log_ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, LogPosition]:
        began = time.process_time()
        answer = {
            TopicPartition(*place): LogPosition(self.logs[TopicPartition(*place)].offset, 0)
            for place in places
        }
        self.took += time.process_time() - began
        return answer

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        began = time.process_time()
        answer = {place: self.logs[place].offset for place in places}
        self.took += time.process_time() - began
        return answer

    def earliest_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.logs[place].offset for place in places}

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        counts = {_TOPIC: len(self._places)}
        return {
            topic: TopicDescription(
                name=topic,
                topic_id=topic,
                partitions=counts.get(topic, 1),
                replication_factor=1,
            )
            for topic in topics
        }

    def cluster_id(self) -> str:
        return "cluster"

    def topics(self) -> list[str]:
        return [_TOPIC]

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        return {topic: {} for topic in topics}

    def weak_topics(self, _topics: Iterable[str]) -> list[str]:
        return []

    def choose(self, state: LocalState, _say: object) -> Path:
        return state.root

    def group_offsets(self, _group: str) -> dict[TopicPartition, int]:
        return {}

    def kept_ends(self, _read: Mapping[Any, LogPosition]) -> dict[TopicPartition, int]:
        return {}

    # --- the producer

    def produce_tracked(self, _topic: str, _partition: int, _keys: Any, values: Any) -> None:
        self.values += values

    def flush(self) -> dict[tuple[str, int], int]:
        return {("loop-epochs", 0): len(self.values)}

    def ends(self) -> dict[tuple[str, int], int]:
        return self.flush()

    # --- the engine

    def run(self, order: EpochOrder, _reading: Any = None) -> EpochOutput:
        began = time.process_time()
        stamp = self._clock.now_ms()
        reports = [
            RangeReport(r.topic_index, r.partition, r.start, r.end, r.end - r.start, stamp, 100)
            for part in order.ranges
            for r in part
        ]
        output = EpochOutput(
            reports=[TaskReport(stage=0, task=0, ranges=reports)],
            rows=(),
            changelogs=(),
            dead_letters=(),
            size=0,
        )
        self.took += time.process_time() - began
        return output

    def arrivals(self) -> Iterable[tuple[int, int]]:
        return ()

    def newest_first(self) -> Iterator[bytes]:
        return iter(reversed(self.values))

    def __getattr__(self, _name: str) -> Any:
        return lambda *_given, **_named: None


def _world(stand_in: Any, clock: ManualClock) -> World:
    return World(
        cluster=stand_in,
        transactions=stand_in,
        epochs=stand_in,
        epochs_of=lambda _application_id: stand_in,
        disk=stand_in,
        clock=clock,
        new_id=iter(f"id-{number}" for number in range(10_000)).__next__,
        crash_point=lambda _name: None,
    )


def loop_over(stand_in: _StandIn, clock: ManualClock, folder: Path) -> Coordinator:
    """Return the driver's loop of an application that copies a topic."""
    builder = StreamsBuilder()
    builder.stream(_TOPIC, key=str, value=str).to("out", key=str, value=str)
    settings = Settings.load(
        {"application_id": "loop", "state_dir": str(folder)},
        environ={"HOME": str(folder)},
        directory=folder,
    )
    engine: Any = stand_in
    listener: Any = stand_in
    loop = Coordinator(
        settings,
        plan(builder.build()),
        engine,
        clock=clock,
        listener=listener,
        world=_world(stand_in, clock),
    )
    loop.prepare()
    return loop


def measure(partitions: int, active: int, epochs: int, folder: Path) -> dict[str, Any]:
    """Run epochs, then looks that find nothing; return milliseconds of processor time of each."""
    clock = ManualClock(_START_MS)
    stand_in = _StandIn(partitions, clock)
    loop = loop_over(stand_in, clock, folder)
    busy = random.Random(7).sample(list(stand_in.logs), active)
    stand_in.grow(stand_in.logs, 1)
    assert loop.run_once(), "there is something to read"

    def epoch() -> None:
        clock.advance(100)
        stand_in.grow(busy, 3)
        taken, began = stand_in.took, time.process_time()
        assert loop.run_once(), "there is something to read"
        spent.append(time.process_time() - began - (stand_in.took - taken))

    def look() -> None:
        clock.advance(50)
        taken, began = stand_in.took, time.process_time()
        assert not loop.run_once(), "there is nothing to read"
        spent.append(time.process_time() - began - (stand_in.took - taken))

    found: dict[str, Any] = {"partitions": partitions, "read": active}
    for name, act in (("epoch_ms", epoch), ("look_ms", look)):
        spent: list[float] = []
        for _ in range(epochs):
            act()
        found[name] = round(1000 * statistics.median(spent), 3)
    _check(stand_in, loop)
    return found


def _check(stand_in: _StandIn, loop: Coordinator) -> None:
    """See that all was read, and that the epochs topic says so."""
    ends = {place: end.offset for place, end in stand_in.logs.items()}
    assert loop.state.sources.next_offsets == ends, "not all was read"
    fold, last = RecordFold(), None
    for value in stand_in.values:
        last = fold.take(value) or last
    assert last is not None, "nothing was committed"
    told = {TopicPartition(part.topic, part.partition): part.end for part in last.partitions}
    assert told == ends, "the last record says something else"


def compare(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Run this tree's sources and another one's in turns; return medians, and their ratios."""
    here = Path(__file__).parent.parent
    found: dict[tuple[int, int], dict[str, list[dict[str, float]]]] = {}
    sizes = [*map(str, given.partitions)]
    for turn in range(given.turns):
        trees = [("this", here), ("other", given.against.resolve())]
        for name, tree in trees if turn % 2 else reversed(trees):
            out = subprocess.run(
                [
                    *(sys.executable, "-m", "benchmarks.driver_loop", "--out", os.devnull),
                    *("--epochs", str(given.epochs), "--partitions", *sizes),
                ],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(here)])},
                cwd=here,
                stdout=subprocess.PIPE,
                check=True,
            )
            for line in out.stdout.splitlines():
                said = json.loads(line)
                sides = found.setdefault((said["partitions"], said["read"]), {})
                sides.setdefault(name, []).append(said)
    return [
        {"partitions": partitions, "read": read, "turns": given.turns, **_ratios(sides)}
        for (partitions, read), sides in found.items()
    ]


def _ratios(sides: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    medians = {
        name: {
            what: round(statistics.median(run[what] for run in runs), 3)
            for what in ("epoch_ms", "look_ms")
        }
        for name, runs in sides.items()
    }
    return {
        **medians,
        "ratio": {
            what: round(mine / medians["other"][what], 3) for what, mine in medians["this"].items()
        },
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 100, 2_000, 10_000])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--label", default="", help="what is measured")
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    parser.add_argument("--against", type=Path, help="a tree of the repository at another commit")
    parser.add_argument("--turns", type=int, default=4, help="of each tree")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    if given.against is not None:
        with given.out.open("a") as file:
            for found in compare(given):
                line = {"processors": os.cpu_count(), "label": given.label, **found}
                print(json.dumps(line))
                file.write(json.dumps(line) + "\n")
        return
    profile = cProfile.Profile() if given.profile else None
    for partitions in given.partitions:
        for active in sorted({min(_SOME, partitions), partitions}):
            with tempfile.TemporaryDirectory() as folder, profile or nullcontext():
                found = measure(partitions, active, given.epochs, Path(folder))
            line = json.dumps({"processors": os.cpu_count(), "label": given.label, **found})
            print(line, flush=True)
            with given.out.open("a") as file:
                file.write(line + "\n")
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
