"""What the kernel alone does per second and core: ``./dev bench kernel [--keep]``.

Where the hot modules are compiled, both forms are measured, by turns in processes of their own.
Beside each rate stands that of the last run that was kept in `results/kernel.jsonl`, as this
machine would have had it: both runs also took the time of a loop of plain Python.

No broker, no Spark, no shuffle: batches go into a stage and its output is dropped. The best of
several runs counts, because on a shared machine everything else is somebody else's time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from mustela import JoinWindows, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from mustela.compiled import SWITCH, form
from mustela.kernel.core.lane_state import LaneState
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.stage import StageRunner, collection_paused
from mustela.plan.batch import Batch, Origins, SourceChunk
from mustela.plan.plan import Plan, Stage
from mustela.plan.time import EpochTime
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.state.interfaces import Committed, EnvironmentSpec
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay

PYTHON, COMPILED = "python", "compiled"
CHUNK = 10_000
GROUPS = 32
KEPT = Path(__file__).parent / "results" / "kernel.jsonl"
"""One line for each run that was kept, the last one last."""


class Records:
    """Raw records of one partition, in chunks."""

    def __init__(self, keys: list[bytes], values: list[bytes]) -> None:
        self.keys = keys
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def chunks(
        self, topics: tuple[str, ...], index: int = 0
    ) -> Iterator[tuple[SourceChunk, list[Any], list[Any]]]:
        for start in range(0, len(self.values), CHUNK):
            keys = self.keys[start : start + CHUNK]
            offsets = list(range(start, start + len(keys)))
            chunk = SourceChunk(
                topics=topics, topic_index=index, partition=0, offsets=offsets, timestamps=offsets
            )
            yield chunk, keys, self.values[start : start + CHUNK]


def text(lines: int, words: int) -> Records:
    """Lines of words as frequent as in natural language."""
    rng = random.Random(1)
    vocabulary = [f"word{n}" for n in range(20_000)]
    weights = [1 / (n + 1) for n in range(20_000)]
    drawn = rng.choices(vocabulary, weights, k=lines * words)
    rows = [" ".join(drawn[n * words : (n + 1) * words]).encode() for n in range(lines)]
    return Records([b"page"] * lines, rows)


def numbers(count: int, keys: int) -> Records:
    """Longs under evenly drawn keys."""
    rng = random.Random(2)
    names = [f"key-{n}".encode() for n in range(keys)]
    drawn = rng.choices(names, k=count)
    return Records(drawn, [n.to_bytes(8, "big") for n in range(count)])


def texts(count: int, keys: int) -> Records:
    """Values of 100 bytes under evenly drawn keys."""
    longs = numbers(count, keys)
    return Records(longs.keys, [f"{number:0100}".encode() for number in range(count)])


def rows(count: int, keys: int, references: int) -> Records:
    """Values of 100 bytes under evenly drawn keys; each begins with the key of another row."""
    rng = random.Random(3)
    drawn = [f"key-{rng.randrange(keys)}".encode() for _ in range(count)]
    texts = [f"key-{rng.randrange(references)}".ljust(100, ".").encode() for _ in range(count)]
    return Records(drawn, texts)


def run_sources(physical: Plan, records: Records | dict[str, Records]) -> dict[str, list[Batch]]:
    """Run the source stage and return what it sends on; records are those of the one topic."""
    stage = physical.stages[0]
    runner = StageRunner(stage, topics=physical.topics, options=KernelOptions(key_groups=GROUPS))
    sent: dict[str, list[Batch]] = {}

    def drain() -> None:
        for name, batches in runner.take_output().exchanges.items():
            sent.setdefault(name, []).extend(batches)

    by_topic = records if isinstance(records, dict) else {physical.topics[0]: records}
    for index, topic in enumerate(physical.topics):
        for chunk, keys, values in by_topic[topic].chunks(physical.topics, index):
            for source in stage.sources:
                if topic in source.topics:
                    runner.run({source.name: runner.decode(source.name, chunk, keys, values)})
            drain()
    runner.finish()
    drain()
    return sent


def travelled(batches: list[Batch]) -> Batch:
    """Return what a lane gets of the batches."""
    joined = Batch.merge(batches)
    origins = Origins(joined.timestamps, joined.headers, joined.order, joined.origins.topics)
    return Batch(joined.keys, joined.values, origins, olds=joined.olds, key_bytes=joined.key_bytes)


def run_lane(
    stage: Stage, topics: tuple[str, ...], inputs: dict[str, Batch]
) -> dict[str, list[Batch]]:
    """Run a lane with empty stores up to the rows it would store; return what it sends on."""
    spec = [
        EnvironmentSpec(
            application_id="bench", stage="s", group=group, groups=GROUPS, stores=stage.stores
        )
        for group in range(GROUPS)
    ]
    overlays = {s.group: Overlay(MemoryEnvironment(s).snapshot(Committed())) for s in spec}
    state = LaneState(overlays, key_groups=GROUPS)
    options = KernelOptions(key_groups=GROUPS)
    newest = max(max(batch.timestamps) for batch in inputs.values())
    time_now = EpochTime(watermark=newest)
    runner = StageRunner(stage, topics=topics, options=options, state=state, time=time_now)
    runner.run(inputs)
    runner.finish()
    with collection_paused():
        state.changes()
    return runner.take_output().exchanges


def best(run: Callable[[], object], times: int) -> float:
    """Return the least CPU time of several runs, in seconds."""
    taken: list[float] = []
    for _ in range(times):
        started = time.process_time()
        run()
        taken.append(time.process_time() - started)
    return min(taken)


_BYTES = "of 100 bytes"
"""In the names of those that have such values."""


def plans() -> dict[str, Plan]:
    """The topologies that are measured."""

    def built(write: Callable[[Any], None], value: Any = int) -> Plan:
        builder = StreamsBuilder()
        write(builder.stream("in", key=str, value=value))
        options = PlanOptions(event_time="watermark")
        return plan(builder.build(), options=options)

    def words(lines: Any) -> None:
        each = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
        each.count(store="t").to_stream().to("out")

    def windowed(windows: Any, fold: Callable[[Any], Any], value: Any = int) -> Plan:
        def write(numbers: Any) -> None:
            fold(numbers.group_by_key().windowed_by(windows)).to_stream().to("out")

        return built(write, value)

    # A record each millisecond and 10,000 keys: a key has one every ten seconds.
    none, second = timedelta(0), timedelta(seconds=1)
    minutes = TimeWindows(size=60 * second, grace=none)
    hopping = TimeWindows(size=60 * second, advance=20 * second, grace=none)
    sliding = SlidingWindows(time_difference=10 * second, grace=none)
    sessions = SessionWindows(inactivity_gap=10 * second, grace=none)

    of_each_kind = {"window": minutes, "hopping": hopping, "sliding": sliding, "session": sessions}
    largest = {
        f"{kind}_reduce {_BYTES}": windowed(windows, lambda w: w.reduce(max, store="t"), str)
        for kind, windows in of_each_kind.items()
    }
    return {
        **largest,
        "window_count": windowed(minutes, lambda w: w.count(store="t")),
        "window_reduce": windowed(minutes, lambda w: w.reduce(lambda x, y: x + y, store="t")),
        "hopping_count": windowed(hopping, lambda w: w.count(store="t")),
        "sliding_count": windowed(sliding, lambda w: w.count(store="t")),
        "session_count": windowed(sessions, lambda w: w.count(store="t")),
        "map_values": built(lambda s: s.map_values(lambda v: v + 1).to("out", value=int)),
        "filter": built(lambda s: s.filter(lambda _k, v: v % 2 == 0).to("out")),
        "word_count": built(words, str),
        "count": built(lambda s: s.group_by_key().count(store="t").to_stream().to("out")),
        "reduce": built(
            lambda s: s.group_by_key().reduce(lambda x, y: x + y, store="t").to_stream().to("out")
        ),
        "aggregate": built(
            lambda s: (
                s.group_by_key()
                .aggregate(lambda: 0, lambda _k, v, t: t + v, value=int, store="t")
                .to_stream()
                .to("out", key=str, value=int)
            )
        ),
    }


def table_plans(count: int) -> dict[str, tuple[Plan, dict[str, Records]]]:
    """Topologies of several stages, with what goes into each: half of the rows are updates."""
    regrouped = StreamsBuilder()
    table = regrouped.table("in", key=str, value=str)
    by_reference = table.group_by(lambda key, text: (text.partition(".")[0], key), key=str)
    by_reference.count(store="t").to_stream().to("out")
    joined = StreamsBuilder()
    left = joined.table("left", key=str, value=str)
    right = joined.table("right", key=str, value=str)
    pairs = left.join(
        right, lambda one, other: one + other, foreign_key=lambda text: text.partition(".")[0]
    )
    pairs.to_stream().to("out", value=str)
    few = count // 10
    return {
        "table_regroup_count": (plan(regrouped.build()), {"in": rows(count, count // 2, few)}),
        "foreign_key_join": (
            plan(joined.build()),
            {"left": rows(count - few, count // 2, few), "right": rows(few, few, 1)},
        ),
    }


def join_plans(count: int) -> dict[str, tuple[Plan, dict[str, Records]]]:
    """Joins of two streams of 100-byte values: each record has one partner, seconds away."""

    def built(kind: str) -> Plan:
        builder = StreamsBuilder()
        left = builder.stream("left", key=str, value=str)
        right = builder.stream("right", key=str, value=str)
        near = JoinWindows.of_time_difference(timedelta(seconds=10), grace=timedelta(0))
        join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
        join(right, lambda one, _other: one, windows=near, store="j", value=str).to("out")
        return plan(builder.build())

    rng = random.Random(4)
    half = count // 2
    names = [f"key-{number}".encode() for number in range(half)]
    # Timestamps are milliseconds, one record after the other on each side.
    places = sorted(range(half), key=lambda place: place + rng.randrange(5_000))
    value = b"v" * 100
    records = {
        "left": Records(names, [value] * half),
        "right": Records([names[place] for place in places], [value] * half),
    }
    return {
        f"stream_stream_join {kind}": (built(kind), records) for kind in ("inner", "left", "outer")
    }


def lookup_plans(count: int) -> dict[str, tuple[Plan, dict[str, Records]]]:
    """Joins with a table of 100-byte values that changes between the records: one row in ten."""
    few = count // 10

    def built(write: Callable[[Any, Any], None], stream: bool) -> Plan:
        builder = StreamsBuilder()
        read = builder.stream if stream else builder.table
        write(read("left", key=str, value=str), builder.table("right", key=str, value=str))
        return plan(builder.build())

    def inner(left: Any, right: Any) -> None:
        left.join(right, lambda one, _other: one, value=str).to("out")

    def outer(left: Any, right: Any) -> None:
        left.left_join(right, lambda one, _other: one, value=str).to("out")

    def tables(left: Any, right: Any) -> None:
        left.join(right, lambda one, _other: one, value=str).to_stream().to("out")

    records = {"left": rows(count - few, few, few), "right": rows(few, few, 1)}
    halves = {"left": rows(count // 2, few, 1), "right": rows(count // 2, few, 1)}
    return {
        "stream_table_join inner": (built(inner, stream=True), records),
        "stream_table_join left": (built(outer, stream=True), records),
        "table_table_join": (built(tables, stream=False), halves),
    }


def measure_tables(count: int, times: int, only: str = "") -> dict[str, float]:
    """Return records per second and core of each lane stage, and of all together."""
    found: dict[str, float] = {}
    measured = {**table_plans(count), **join_plans(count), **lookup_plans(count)}
    for name, (physical, records) in measured.items():
        if only not in name:
            continue
        sent, whole = run_sources(physical, records), 0.0
        for stage in physical.stages[1:]:
            inputs = {exchange: travelled(sent[exchange]) for exchange in stage.inputs}
            size = sum(map(len, inputs.values()))
            seconds = best(lambda s=stage, p=physical, i=inputs: run_lane(s, p.topics, i), times)
            for exchange, batches in run_lane(stage, physical.topics, inputs).items():
                sent.setdefault(exchange, []).extend(batches)
            found[f"{name}: stage {stage.index}, {size} rows"] = size / seconds
            whole += seconds
        found[f"{name}: all lane stages"] = count / whole
    return found


def measure(count: int, times: int, only: str = "") -> dict[str, float]:
    """Return records per second and core of each part, by its name."""
    found = measure_tables(count, times, only)
    lines, longs, long_texts = text(count // 10, 10), numbers(count, 10_000), texts(count, 10_000)
    for name, physical in plans().items():
        if only not in name:
            continue
        records = lines if name == "word_count" else long_texts if _BYTES in name else longs
        part = "split, group, combine" if name == "word_count" else "source stage"
        seconds = best(lambda p=physical, r=records: run_sources(p, r), times)
        found[f"{name}: {part}"] = count / seconds
        for stage in physical.stages[1:]:
            sent = run_sources(physical, records)
            inputs = {exchange: travelled(batches) for exchange, batches in sent.items()}
            rows = sum(len(batch) for batch in inputs.values())
            seconds = best(lambda s=stage, p=physical, i=inputs: run_lane(s, p.topics, i), times)
            label = "merge of partials" if rows < count else "lane stage"
            found[f"{name}: {label}, {rows} rows"] = rows / seconds
    return found


def loop_s() -> float:
    """Return how long a loop of plain Python takes here: the measure of the machine."""
    return best(lambda: sum(number % 7 for number in range(1_000_000)), 5)


def last_kept(wanted: str, file: Path = KEPT) -> dict[str, float]:
    """Return, for each part, the records of the last kept run in the time of a loop."""
    found: dict[str, float] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        run = json.loads(line)
        if run.get("form", PYTHON) == wanted:
            found |= {name: rate * run["loop_s"] for name, rate in run["rates"].items()}
    return found


def keep(found: dict[str, float], which: str, records: int, loop: float, file: Path = KEPT) -> None:
    """Add a run behind those that were kept."""
    run = {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "form": which,
        "records": records,
        "loop_s": round(loop, 4),
        "rates": {name: round(rate) for name, rate in found.items()},
    }
    with file.open("a") as lines:
        lines.write(json.dumps(run) + "\n")


def in_turn(options: argparse.Namespace, forms: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return the rates of each form, measured by turns in processes of their own."""
    told = ["--records", str(options.records), "--times", str(options.times)]
    command = [sys.executable, "-m", "benchmarks.kernel", "--json", *told, "--only", options.only]
    found: dict[str, dict[str, float]] = {each: {} for each in forms}
    for _ in range(options.turns):
        for each in forms:
            environment = {**os.environ, SWITCH: "0" if each == PYTHON else ""}
            run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
            for name, rate in json.loads(run.stdout).items():
                found[each][name] = max(rate, found[each].get(name, 0))
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command line understands."""
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--turns", type=int, default=1, help="of each form, one after the other")
    parser.add_argument("--only", default="", help="parts whose name has this in it")
    parser.add_argument("--json", action="store_true", help="only the form that runs here")
    parser.add_argument("--keep", action="store_true", help="add the rates to the kept results")


def run_all(options: argparse.Namespace) -> int:
    """Print one line per part: in plain Python, and compiled if that runs here."""
    if options.json:
        found = measure(options.records, options.times, options.only)
        print(json.dumps({name: round(rate) for name, rate in found.items()}))
        return 0
    loop = loop_s()
    forms = (PYTHON, COMPILED) if form().compiled else (PYTHON,)
    measured = in_turn(options, forms)
    if not form().compiled:
        print(f"plain Python alone: {form().why}")
    for name, rate in measured[PYTHON].items():
        told = f"{name:58} {rate:12,.0f} /s {1e9 / rate:8.0f} ns"
        if COMPILED in measured:
            other = measured[COMPILED][name]
            told += f"; compiled {other:12,.0f} /s, {other / rate:5.2f} times"
        before = last_kept(PYTHON)
        told += f"; {rate * loop / before[name]:5.2f} of the last kept" if name in before else ""
        print(told)
    if options.keep:
        for each, rates in measured.items():
            keep(rates, each, options.records, loop)
    return 0


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    return run_all(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
