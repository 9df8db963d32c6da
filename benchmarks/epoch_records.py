"""What an epoch record costs, whole and as a delta: ``python -m benchmarks.epoch_records``.

For an application with 100, 1,000 and 10,000 source partitions, of which some or all are read in
each epoch, it makes and encodes the record of each of many epochs that follow each other, once
always whole and once as the library does it. What is read back is compared with what was written.

``--broker`` runs an application for a minute on a broker, at ten epochs a second, and says how much
processor time its driver took for it, and how many bytes its epochs topic holds.
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
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from mustela import App, StreamsBuilder
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.ranges import RangeReader
from mustela.model import TopicPartition
from mustela.planner.planner import plan
from mustela.runtime import coordinator
from mustela.runtime.commit.committed import CommittedState, EpochChange
from mustela.runtime.events import AppState, EpochDone
from mustela.runtime.record.record_rows import RecordFold, RecordPolicy, RecordRows
from mustela.runtime.record.source_offsets import Cut, SourceOffsets
from mustela.runtime.time.watermark import PartitionTime, WatermarkState
from mustela.state.interfaces import Token
from mustela_dev import DevelopmentBroker

_RESULTS = Path(__file__).parent / "results" / "epoch_records.jsonl"
_PARTITIONS = (100, 1_000, 10_000)
_SOME = 50
_EPOCHS = 300
_NEVER = RecordPolicy(whole_bytes_max=sys.maxsize)
_NOW_MS = 1_700_000_000_000
_TOPIC = "lines"


def states(partitions: int, active: int, epochs: int) -> Iterator[CommittedState]:
    """Yield the state of an application after each of many epochs, a tenth of a second apart."""
    builder = StreamsBuilder()
    builder.stream(_TOPIC, key=str, value=str).to("out", key=str, value=str)
    source = random.Random(7)
    places = [TopicPartition(_TOPIC, n) for n in range(partitions)]
    times = {place: PartitionTime(_NOW_MS, 0) for place in places}
    state = CommittedState(
        plan=plan(builder.build()),
        key_groups=256,
        lanes=2,
        incarnation=1,
        sources=SourceOffsets({place: source.randrange(10**9) for place in places}),
        watermark=WatermarkState(partitions=times),
        topic_ids={_TOPIC: "id"},
    )
    yield state
    busy = source.sample(places, active)
    for epoch in range(1, epochs + 1):
        now_ms = _NOW_MS + epoch * 100
        watermark = state.watermark.copy()
        cuts: dict[TopicPartition, Cut] = {}
        for place in busy:
            start = state.sources.next_offsets[place]
            end = start + source.randrange(1, 20)
            cuts[place] = Cut(start, end, end)
            watermark.observe(place, now_ms - source.randrange(200), now_ms)
        watermark.value = now_ms - 200
        state = state.after(
            EpochChange(
                token=Token(1, epoch, 0),
                time_ms=now_ms,
                cuts=cuts,
                wrote={},
                changelog_ends={},
                watermark=watermark,
            )
        )
        yield state


def measure(partitions: int, active: int, policy: RecordPolicy, epochs: int) -> dict[str, Any]:
    """Write the records of many epochs; return milliseconds of processor time and bytes of each."""
    rows, fold = RecordRows(policy), RecordFold()
    spent: list[float] = []
    sizes: list[int] = []
    for state in states(partitions, active, epochs):
        began = time.process_time()
        record = state.to_record(_NOW_MS)
        row = rows.row(record)
        spent.append((time.process_time() - began) * 1000)
        rows.committed()
        sizes.append(len(row.value))
        assert fold.take(row.value) == record
    return {
        "cpu_ms": round(sum(spent[1:]) / epochs, 3),
        "bytes": round(sum(sizes[1:]) / epochs),
    }


def in_memory(epochs: int) -> list[dict[str, Any]]:
    """Measure all sizes."""
    found: list[dict[str, Any]] = []
    for partitions in _PARTITIONS:
        for active in (_SOME, partitions):
            whole = measure(partitions, active, _NEVER, epochs)
            delta = measure(partitions, active, RecordPolicy(), epochs)
            cpu, size = (round(delta[what] / whole[what], 3) for what in ("cpu_ms", "bytes"))
            found.append(
                {
                    "partitions": partitions,
                    "read": active,
                    "whole": whole,
                    "deltas": delta,
                    "ratio": {"cpu": cpu, "bytes": size},
                }
            )
            print(json.dumps(found[-1]), flush=True)
    return found


class _Heard:
    """Counts epochs."""

    def __init__(self) -> None:
        self.epochs = 0

    def on_event(self, event: Any) -> None:
        self.epochs += isinstance(event, EpochDone)

    def on_error(self, error: BaseException) -> None:
        print(f"bears {error}", file=sys.stderr)


def on_broker(partitions: int, seconds: float, *, deltas: bool) -> dict[str, Any]:
    """Run an application over a topic with many partitions, ten epochs a second."""
    if not deltas:
        made = coordinator.kafka_world
        coordinator.kafka_world = lambda *given: replace(made(*given), records=_NEVER)
    with (
        tempfile.TemporaryDirectory() as folder,
        DevelopmentBroker(Path(folder) / "broker") as broker,
    ):
        servers = broker.bootstrap_servers
        admin = KafkaAdmin({"bootstrap.servers": servers}, timeout=300.0)
        for name, count in ((_TOPIC, partitions), ("out", 1)):
            spec = TopicSpec(name=name, partitions=count, replication_factor=1, config={})
            admin.create([spec])
        app, heard = (
            App(
                "records",
                bootstrap_servers=servers,
                state_dir=str(Path(folder) / "state"),
                commit_interval="100 ms",
            ),
            _Heard(),
        )
        app.topology(_copies)
        app.add_listener(heard)
        found = _watched(app, heard, seconds, lambda stop: _feed(servers, partitions, stop))
        (end,) = admin.end_offsets([TopicPartition("records-epochs", 0)]).values()
        admin.close()
        reader = RangeReader({"bootstrap.servers": servers})
        chunks = list(reader.read("records-epochs", 0, 0, end))
        reader.close()
    sizes = [len(value) for chunk in chunks for value in chunk.values if value is not None]
    return {
        "on_broker": "deltas" if deltas else "whole",
        "partitions": partitions,
        **found,
        "largest_row": max(sizes),
        "bytes_per_epoch": round(sum(sizes) / len(sizes)),
    }


def _copies(builder: StreamsBuilder) -> None:
    builder.stream(_TOPIC, key=str, value=str).to("out", key=str, value=str)


def _watched(
    app: App, heard: _Heard, seconds: float, feed: Callable[[threading.Event], None]
) -> dict[str, Any]:
    """Run an application while something is fed to it; return what its driver took for it."""
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(stop,))
    app.start()
    try:
        assert app.wait_until(AppState.RUNNING, timedelta(minutes=5)), app.error
        feeder.start()
        until(lambda: heard.epochs > 20)
        first, cpu, wall = heard.epochs, time.process_time(), time.perf_counter()
        stop.wait(seconds)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        count = heard.epochs - first
    finally:
        stop.set()
        if feeder.is_alive():
            feeder.join()
        app.close()
    return {
        "epochs_per_second": round(count / wall, 2),
        "driver_cpu_ms_per_epoch": round(cpu * 1000 / max(1, count), 1),
        "driver_cpu_share": round(cpu / wall, 3),
    }


def _feed(servers: str, partitions: int, stop: threading.Event) -> None:
    """Write to some of the partitions, all the time."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    busy = random.Random(3).sample(range(partitions), min(_SOME, partitions))
    while not stop.wait(0.02):
        for partition in busy[:10]:
            producer.produce(_TOPIC, b"v", b"k", partition=partition)
        busy = busy[10:] + busy[:10]
        producer.poll(0)
    producer.flush(30)


def until(done: Any) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline, "the application does not get on"
        time.sleep(0.05)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=_EPOCHS)
    parser.add_argument("--broker", action="store_true", help="run an application on a broker")
    parser.add_argument("--partitions", type=int, default=2_000, help="of the topic on the broker")
    parser.add_argument("--seconds", type=float, default=60.0, help="on the broker")
    parser.add_argument("--whole", action="store_true", help="on the broker: without deltas")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    if given.broker:
        found = on_broker(given.partitions, given.seconds, deltas=not given.whole)
        print(json.dumps(found))
        lines = [found]
    else:
        lines = in_memory(given.epochs)
    with given.out.open("a") as file:
        file.writelines(json.dumps({"processors": os.cpu_count(), **line}) + "\n" for line in lines)


if __name__ == "__main__":
    main()
