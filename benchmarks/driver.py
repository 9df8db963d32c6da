"""What an epoch asks of the broker, and what it costs the driver: ``python -m benchmarks.driver``.

An application runs on a broker of its own, at ten epochs a second, over topics with more and more
partitions, of which fifty get records. Written down is what the driver asked of the broker, by kind
of question, for each epoch and for each second without input, and the processor time of the driver
process (its JVM and workers are others). The output is held against the input before a number
counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.epoch_records import until
from mustela import App, StreamsBuilder
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.ranges import RangeReader
from mustela.runtime.events import AppState, EpochDone
from mustela.runtime.life import life as life_module
from mustela_dev import DevelopmentBroker

_RESULTS = Path(__file__).parent / "results" / "driver.jsonl"
_LINES, _COUNTS, _NAMES = "lines", "counts", "names"
_SOME = 50
_SETTLE_S = 5.0


class _Counted:
    """Passes questions on, and counts them by kind."""

    def __init__(self, inner: Any, asked: Counter[str]) -> None:
        self._inner = inner
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def ask(*given: Any, **named: Any) -> Any:
            if not given or not _is_empty(given[0]):
                self._asked[name] += 1
            return found(*given, **named)

        return ask


def _is_empty(given: Any) -> bool:
    return hasattr(given, "__len__") and not len(given)


class _Heard:
    """Counts epochs and what they read."""

    def __init__(self) -> None:
        self.epochs = 0
        self.records = 0

    def on_event(self, event: Any) -> None:
        if isinstance(event, EpochDone):
            self.epochs += 1
            self.records += event.records

    def on_error(self, error: BaseException) -> None:
        print(f"bears {error}", file=sys.stderr)


def _word_count(builder: StreamsBuilder) -> None:
    lines = builder.stream(_LINES, key=str, value=str)
    words = lines.flat_map_values(str.split, name="words").group_by(lambda _key, word: word)
    words.count(store="counted").to_stream().to(_COUNTS, key=str, value=int)


def _with_global_table(builder: StreamsBuilder) -> None:
    names = builder.global_table(_NAMES, key=str, value=str, store="named")
    lines = builder.stream(_LINES, key=str, value=str)
    joined = lines.left_join(
        names, lambda line, _name: line, foreign_key_with_key=lambda _key, line: line, value=str
    )
    words = joined.flat_map_values(str.split, name="words").group_by(lambda _key, word: word)
    words.count(store="counted").to_stream().to(_COUNTS, key=str, value=int)


def _copies(builder: StreamsBuilder) -> None:
    builder.stream(_LINES, key=str, value=str).to(_COUNTS, key=str, value=str)


PROGRAMS: dict[str, Callable[[StreamsBuilder], None]] = {
    "word_count": _word_count,
    "global_table": _with_global_table,
    "copies": _copies,
}


class Feed:
    """Writes to some of the partitions, all the time."""

    def __init__(self, servers: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self._busy = random.Random(3).sample(range(partitions), min(_SOME, partitions))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> int:
        """End; return how many lines were sent."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "not all was sent"
        return self.sent

    def _run(self) -> None:
        busy = self._busy
        while not self._stop.wait(0.02):
            for partition in busy[:10]:
                self._producer.produce(_LINES, b"red green", b"k", partition=partition)
                self.sent += 1
            busy = busy[10:] + busy[:10]
            self._producer.poll(0)


def measure(program: str, partitions: int, seconds: float, heap_mb: int) -> dict[str, Any]:
    """Run a program; return what its driver asked and took, busy and at rest."""
    asked: Counter[str] = Counter()
    real = life_module.kafka_world

    def counted(*given: Any) -> Any:
        world = real(*given)
        return replace(world, cluster=_Counted(world.cluster, asked))

    life_module.kafka_world = counted
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            DevelopmentBroker(Path(folder) / "broker", heap_mb=heap_mb) as broker,
        ):
            return _on(broker.bootstrap_servers, Path(folder), program, partitions, seconds, asked)
    finally:
        life_module.kafka_world = real


def _on(
    servers: str,
    folder: Path,
    program: str,
    partitions: int,
    seconds: float,
    asked: Counter[str],
) -> dict[str, Any]:
    admin = KafkaAdmin({"bootstrap.servers": servers}, timeout=600.0)
    for name, count in ((_LINES, partitions), (_COUNTS, 1), (_NAMES, 1)):
        spec = TopicSpec(name=name, partitions=count, replication_factor=1, config={})
        admin.create([spec])
    heard = _Heard()
    app = App(
        "driver",
        bootstrap_servers=servers,
        state_dir=str(folder / "state"),
        commit_interval="100 ms",
        log={"level": "warning"},
    )
    app.topology(PROGRAMS[program])
    app.add_listener(heard)
    feed = Feed(servers, partitions)
    app.start()
    try:
        assert app.wait_until(AppState.RUNNING, timedelta(minutes=10)), app.error
        feed.start()
        until(lambda: heard.epochs > 20)
        busy = _watched(asked, heard, seconds)
        sent = feed.stop()
        until(lambda: heard.records >= sent)
        time.sleep(_SETTLE_S)
        idle = _watched(asked, heard, seconds)
    finally:
        with suppress(RuntimeError):
            feed.stop()
        app.close()
    _check(servers, admin, program, sent)
    admin.close()
    count = max(1, busy["epochs"])
    return {
        "program": program,
        "partitions": partitions,
        "epochs_per_second": round(busy["epochs"] / busy["wall"], 2),
        "driver_cpu_ms_per_epoch": round(1000 * busy["cpu"] / count, 1),
        "asked_per_epoch": {what: round(n / count, 2) for what, n in busy["asked"].items()},
        "idle_driver_cpu_ms_per_second": round(1000 * idle["cpu"] / idle["wall"], 1),
        "idle_epochs": idle["epochs"],
        "asked_per_idle_second": {
            what: round(n / idle["wall"], 2) for what, n in idle["asked"].items()
        },
    }


def _watched(asked: Counter[str], heard: _Heard, seconds: float) -> dict[str, Any]:
    before, first = Counter(asked), heard.epochs
    cpu, wall = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "asked": dict(sorted((asked - before).items())),
        "epochs": heard.epochs - first,
        "cpu": cpu,
        "wall": wall,
    }


def _check(servers: str, admin: KafkaAdmin, program: str, sent: int) -> None:
    """See that what came out is what went in."""
    (end,) = admin.end_offsets([(_COUNTS, 0)]).values()
    reader = RangeReader({"bootstrap.servers": servers})
    chunks = list(reader.read(_COUNTS, 0, 0, end))
    reader.close()
    if program == "copies":
        rows = sum(len(chunk.keys) for chunk in chunks)
        assert rows == sent, f"{sent} lines went in, {rows} came out"
        return
    last: dict[Any, Any] = {}
    for chunk in chunks:
        last.update(zip(chunk.keys, chunk.values, strict=True))
    found = {key: int.from_bytes(value) for key, value in last.items()}
    assert found == {b"red": sent, b"green": sent}, f"{sent} lines went in, counted are {found}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=list(PROGRAMS), default="word_count")
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 100, 2_000])
    parser.add_argument("--seconds", type=float, default=30.0, help="busy, and again at rest")
    parser.add_argument("--heap-mb", type=int, default=512, help="of the broker")
    parser.add_argument("--label", default="", help="what is measured")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    for partitions in given.partitions:
        found = measure(given.program, partitions, given.seconds, given.heap_mb)
        line = json.dumps({"processors": os.cpu_count(), "label": given.label, **found})
        print(line, flush=True)
        with given.out.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
