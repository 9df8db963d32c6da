"""What ``history.epochs`` costs: ``python -m benchmarks.history [--part rows|turns]``.

``rows``: the processor time of the row that an epoch adds to the history topic, and its bytes, for
applications with more and more key groups, stores and partitions, all of which take part in each
epoch. What is read back is compared with what was written.

``turns``: the same program on the same broker, with history and without, in turns: forwards,
backwards, and so on. Its output is held against the oracle before a run has a number: processor
time of a million records at saturation; at a fixed rate, processor time and the latency from a
record to its result. And the bytes of an epoch in the history topic, and of changelogs: all of
them, which history keeps for ``history.age``, beside those of the newest row of each key, which
compaction would leave.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.in_turns import Numbers, Turns, in_turns, latencies, medians, ratios_of
from benchmarks.peers.base import Assignment, Peer
from benchmarks.peers.mustela_peer import MustelaPeer
from benchmarks.peers.registry import Contestant
from benchmarks.trial import Bench, FixedLoad, LoadPlan, bench_of_its_own
from benchmarks.workloads import SEED, WORKLOADS
from mustela import StreamsBuilder
from mustela.plan.epoch import EpochOrder, TaskReport, changelog_topic, history_topic
from mustela.plan.ranges import RangeReport, SourceRange
from mustela.plan.time import Due
from mustela.plan.watermark import PartitionMark, WatermarkOrder
from mustela.planner.planner import plan
from mustela.runtime.record.history_row import (
    HistoryRows,
    Kept,
    history_parts,
    history_row,
)
from mustela.state.interfaces import Token

_RESULTS = Path(__file__).parent / "results" / "history.jsonl"
_KEPT = 1_000
_AT_SATURATION = ("records_per_s", "cpu_s_per_million", "broker_cpu_s_per_million")
_EPOCHS = 200
_NOW_MS = 1_700_000_000_000
_SIZES = (
    {"key_groups": 4, "stores": 1, "partitions": 2},
    {"key_groups": 32, "stores": 1, "partitions": 6},
    {"key_groups": 32, "stores": 10, "partitions": 12},
    {"key_groups": 256, "stores": 10, "partitions": 100},
    {"key_groups": 1_024, "stores": 10, "partitions": 1_000},
)


# -- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    key_groups: int
    stores: int
    partitions: int


def _turns_of(size: _Size, epochs: int) -> Iterator[tuple[EpochOrder, Kept, list[TaskReport]]]:
    """Yield what the rows of epochs are made of: all partitions are read, most groups write."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    for number in range(size.stores):
        lines.group_by_key().count(store=f"counts-{number}", name=f"counts-{number}")
    planned = plan(builder.build())
    rng = random.Random(SEED)
    names = [f"counts-{number}" for number in range(size.stores)]
    ends = {name: [rng.randrange(10**7) for _ in range(size.key_groups)] for name in names}
    offsets = [rng.randrange(10**9) for _ in range(size.partitions)]
    stages = [stage.index for stage in planned.stages if stage.acts_on_time]
    for epoch in range(1, epochs + 1):
        now_ms = _NOW_MS + 100 * epoch + rng.randrange(20)
        steps = [rng.randrange(1, 40) for _ in offsets]
        floors = [now_ms - rng.randrange(100, 250) for _ in offsets]
        ranges = [
            SourceRange(0, place, start, start + step, floor, latest=now_ms + 3_600_000)
            for place, (start, step, floor) in enumerate(zip(offsets, steps, floors, strict=True))
        ]
        half = len(ranges) // 2
        order = EpochOrder(
            token=Token(1, epoch, 0),
            ranges=(tuple(ranges[:half]), tuple(ranges[half:])),
            marks={},
            now_ms=now_ms,
            event_time=WatermarkOrder(
                before=min(floors),
                partitions=tuple(
                    PartitionMark(0, place, floor) for place, floor in enumerate(floors)
                ),
                late_ms={0: 0},
            ),
            due=dict.fromkeys(stages, (Due(),) * size.key_groups),
        )
        reads = [
            RangeReport(
                *(0, each.partition, each.start, each.end),
                records=each.end - each.start,
                max_timestamp=now_ms - rng.randrange(100),
                size=rng.randrange(40, 60) * (each.end - each.start),
            )
            for each in ranges
        ]
        report = TaskReport(stage=0, task=0, ranges=reads)
        yield order, Kept(planned, ends, 2, size.key_groups), [report]
        offsets = [offset + step for offset, step in zip(offsets, steps, strict=True)]
        ends = {
            store: [end + rng.choice((0, 1, 2, 3, 5)) for end in known]
            for store, known in ends.items()
        }


def rows(epochs: int) -> list[dict[str, Any]]:
    """Measure what rows cost, for all sizes."""
    found: list[dict[str, Any]] = []
    for given in _SIZES:
        spent: list[float] = []
        sizes: list[int] = []
        for order, state, reports in _turns_of(_Size(**given), epochs):
            began = time.process_time()
            parts = history_parts(history_row(order, state, reports), _KEPT)
            spent.append(1000 * (time.process_time() - began))
            sizes.append(sum(len(key) + len(value) for key, value in parts))
            [again] = HistoryRows().take(parts)
            assert again == history_row(order, state, reports), "what is read back is another row"
        numbers = {
            "cpu_ms": round(statistics.median(spent), 3),
            "bytes": round(sum(sizes) / epochs),
        }
        found.append({**given, **numbers})
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


# -- turns ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Kept(MustelaPeer):
    """Mustela that keeps history."""

    def environment(self) -> Mapping[str, str]:
        return {
            **MustelaPeer.environment(self),
            "MUSTELA__HISTORY__EPOCHS": str(_KEPT),
            "MUSTELA__HISTORY__AGE": "1d",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side(Contestant):
    """With history, or without."""

    kept: bool

    def build(self, assignment: Assignment) -> Peer:
        return _Kept(assignment) if self.kept else MustelaPeer(assignment)


def log_sizes(bench: Bench, name: str) -> dict[str, float]:
    """Return what the history topic and the changelogs of an application hold."""
    settings: dict[str, Any] = {"bootstrap.servers": bench.bootstrap}
    topics = AdminClient(settings).list_topics(timeout=30).topics
    history = _rows_of(settings, history_topic(name), topics)
    changes = [
        _rows_of(settings, topic, topics)
        for topic in topics
        if topic.startswith(f"{name}-") and topic == changelog_topic(name, _store(topic, name))
    ]
    epochs = {key.partition(b"/")[0] for key, _ in history}
    assert len(epochs) < _KEPT, "so many epochs that the oldest were replaced"
    newest = sum(sum(map(len, row)) for rows in changes for row in dict(rows).items())
    return {
        "epochs": len(epochs),
        "history_bytes_per_epoch": round(sum(sum(map(len, row)) for row in history) / len(epochs)),
        "changelog_mb": round(sum(sum(map(len, row)) for rows in changes for row in rows) / 1e6, 3),
        "changelog_newest_mb": round(newest / 1e6, 3),
    }


def _store(topic: str, name: str) -> str:
    return topic.removeprefix(f"{name}-").removesuffix("-changelog")


def _rows_of(
    settings: Mapping[str, str], topic: str, topics: Mapping[str, Any]
) -> list[tuple[bytes, bytes]]:
    """Return the committed rows of a topic."""
    consumer = Consumer(
        {
            **settings,
            "group.id": "sizes",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    places = [TopicPartition(topic, number, 0) for number in topics[topic].partitions]
    found: list[tuple[bytes, bytes]] = []
    try:
        consumer.assign(places)
        left = len(places)
        while left:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    found.append((message.key() or b"", message.value() or b""))
                else:
                    left -= 1
    finally:
        consumer.close()
    return found


def turns(given: argparse.Namespace) -> dict[str, object]:
    """Run both in turns; return the numbers of each turn, and the medians of their ratios."""
    workload = WORKLOADS[given.workload]
    sides = [
        _Side(peer=name, guarantee="eos", kept=kept)
        for name, kept in (("without", False), ("with", True))
    ]
    load = LoadPlan(rate=given.rate, warm_up_s=given.warm_up, measure_s=given.seconds, idle_s=1)
    sizes: dict[str, float] = {}
    with bench_of_its_own("history", load) as bench:

        def loaded(side: Contestant, todo: Assignment, held: FixedLoad) -> Numbers:
            if side.peer == "with":
                sizes.update(log_sizes(bench, todo.application_id))
            wanted = ("cpu_percent", "broker_cpu_percent")
            numbers = {what: round(held.numbers[f"fixed_load.{what}"], 2) for what in wanted}
            return {**latencies(held), **numbers}

        what = Turns(
            turns=given.turns,
            records=given.records,
            caught_up=lambda seen: {name: round(seen[name], 3) for name in _AT_SATURATION},
            loaded=loaded,
        )
        found = in_turns(bench, workload, sides, what)
    ratios = ratios_of(found["with"], found["without"])
    return {
        "workload": workload.name,
        "records": given.records,
        "rate": given.rate,
        "seconds": given.warm_up + given.seconds,
        "median_ratio": medians(ratios),
        "at_the_rate": sizes,
        "ratios": ratios,
        **found,
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("rows", "turns"), default="rows")
    parser.add_argument("--epochs", type=int, default=_EPOCHS, help="rows of each size")
    parser.add_argument("--workload", choices=list(WORKLOADS), default="word_count")
    parser.add_argument("--turns", type=int, default=3, help="of each; one more does not count")
    parser.add_argument("--records", type=int, default=1_000_000, help="at saturation")
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    parser.add_argument("--seconds", type=int, default=20, help="measured at that rate")
    parser.add_argument("--warm-up", type=int, default=8, help="seconds before it counts")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    found = {"rows": rows(given.epochs)} if given.part == "rows" else turns(given)
    with given.out.open("a") as file:
        file.write(json.dumps({"processors": os.cpu_count(), **found}) + "\n")
    if given.part == "turns":
        print(json.dumps({key: found[key] for key in ("median_ratio", "at_the_rate")}))


if __name__ == "__main__":
    main()
