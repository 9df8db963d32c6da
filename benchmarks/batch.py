"""How fast an application runs over a Parquet file: ``python -m benchmarks.batch``.

The program sums orders by customer and counts them by customer and minute. In each round three run
one after the other, in a Spark session that is warm: `mustela.batch`, the same application catching
up with the same records in Kafka, and plain PySpark's ``groupBy`` for both results. Each result is
compared with what the records add up to. PySpark keeps no order, no changes and no state, so it is
the limit and not a peer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession, functions as f

import mustela
from mustela import App, BatchInput, StreamsBuilder, TimeWindows
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.ranges import RangeReader
from mustela.model import TopicPartition, Windowed
from mustela.serdes.primitives import IntSerde, StrSerde
from mustela.serdes.windowed import WindowedSerde
from mustela.spark.arrow import arrow as pa, parquet as pq
from mustela.spark.session import open_context
from mustela_dev import DevelopmentBroker

_RESULTS = Path(__file__).parent / "results" / "batch.jsonl"
_CUSTOMERS = 5_000
_START_MS = 1_700_000_040_000
_APART_MS = 10
_PARTITIONS = 4
_MINUTE = timedelta(minutes=1)
_PATIENCE = timedelta(minutes=20)
_INT = IntSerde()
_KEY, _WINDOW = StrSerde(), WindowedSerde(str, window_size=_MINUTE)

Found = tuple[dict[str, int], dict[tuple[str, int], int]]
"""Sum by customer, and count by customer and start of the minute."""


def build(builder: StreamsBuilder) -> None:
    """The program."""
    by_customer = builder.stream("orders", key=str, value=int).group_by_key()
    totals = by_customer.reduce(lambda x, y: x + y, associative=True, store="totals")
    totals.to_stream().to("totals")
    windows = TimeWindows(size=_MINUTE, grace=timedelta(0))
    by_customer.windowed_by(windows).count(store="minutes").to_stream().to("minutes")


def records(count: int) -> Any:
    """Return the records as an Arrow table."""
    return pa.table(
        {
            "key": [f"c{n * 7919 % _CUSTOMERS}" for n in range(count)],
            "value": [n % 100 for n in range(count)],
            "timestamp": [_START_MS + n * _APART_MS for n in range(count)],
        }
    )


def expected(table: Any) -> Found:
    """Return what the results have to be."""
    sums: Counter[str] = Counter()
    minutes: Counter[tuple[str, int]] = Counter()
    for row in table.to_batches():
        columns = (column.to_pylist() for column in row.columns)
        for key, value, time_ms in zip(*columns, strict=True):
            sums[key] += value
            minutes[key, time_ms - time_ms % 60_000] += 1
    return dict(sums), dict(minutes)


def of_batch(app: App, path: Path, lane_records: int) -> tuple[float, Found]:
    """Run the application over the file."""
    began = time.monotonic()
    with mustela.batch(
        app, {"orders": BatchInput(data=path)}, epoch_records=lane_records
    ) as result:
        spent = time.monotonic() - began
        totals = result.to_arrow("totals").to_pylist()
        minutes = result.to_arrow("minutes").to_pylist()
    last = {row["key"]: row["value"] for row in totals}
    windows = {
        (row["key"]["key"], round(row["key"]["start"].timestamp() * 1000)): row["value"]
        for row in minutes
    }
    return spent, (last, windows)


def of_spark(session: Any, path: Path, scratch: Path) -> tuple[float, Found]:
    """Let plain PySpark do it."""
    began = time.monotonic()
    frame = session.read.parquet(str(path))
    minute = f.window(f.timestamp_millis("timestamp"), "1 minute").start
    totals, minutes = str(scratch / "totals"), str(scratch / "minutes")
    frame.groupBy("key").agg(f.sum("value").alias("n")).write.mode("overwrite").parquet(totals)
    counts = frame.groupBy("key", minute.alias("start")).agg(f.count("*").alias("n"))
    counts.write.mode("overwrite").parquet(minutes)
    spent = time.monotonic() - began
    sums = {row["key"]: row["n"] for row in pq.read_table(totals).to_pylist()}
    windows = {
        (row["key"], round(row["start"].timestamp() * 1000)): row["n"]
        for row in pq.read_table(minutes).to_pylist()
    }
    return spent, (sums, windows)


class Kafka:
    """The same records in Kafka, and applications that catch up with them."""

    def __init__(self, servers: str, table: Any, scratch: Path, session: Any) -> None:
        self._properties = {"bootstrap.servers": servers}
        self._scratch, self._session, self._count = scratch, session, 0
        self._admin = KafkaAdmin(self._properties)
        self._create("orders", "totals", "minutes")
        producer = Producer({**self._properties, "linger.ms": 50})
        for batch in table.to_batches():
            columns = (column.to_pylist() for column in batch.columns)
            for key, value, time_ms in zip(*columns, strict=True):
                while True:
                    try:
                        producer.produce(
                            "orders", key=key, value=_INT.serialize(value), timestamp=time_ms
                        )
                        break
                    except BufferError:
                        producer.poll(0.1)
        assert producer.flush(120) == 0

    def _create(self, *topics: str) -> None:
        config = {"retention.ms": "-1"}
        self._admin.create(
            [TopicSpec(name=t, partitions=_PARTITIONS, config=config) for t in topics]
        )

    def catch_up(self) -> tuple[float, Found]:
        """Run a new application until it has caught up."""
        self._count += 1
        ends = {t: self._ends(t) for t in ("totals", "minutes")}
        app = App(
            f"bench-batch-{self._count}",
            bootstrap_servers=self._properties["bootstrap.servers"],
            state_dir=str(self._scratch / f"state-{self._count}"),
            topics={"create": True},
            session=self._session,
        )
        app.topology(build)
        began = time.monotonic()
        app.start()
        assert app.wait_until_caught_up(_PATIENCE)
        spent = time.monotonic() - began
        app.close()
        return spent, (self._last("totals", _KEY, ends), self._windows(ends))

    def _ends(self, topic: str) -> list[int]:
        places = [TopicPartition(topic, n) for n in range(_PARTITIONS)]
        found = self._admin.end_offsets(places)
        return [found[place] for place in places]

    def _last(self, topic: str, serde: Any, begin: dict[str, list[int]]) -> dict[Any, int]:
        reader, rows = RangeReader(self._properties), dict[Any, int]()
        for partition, end in enumerate(self._ends(topic)):
            for chunk in reader.read(topic, partition, begin[topic][partition], end):
                for key, value in zip(chunk.keys, chunk.values, strict=True):
                    number = _INT.deserialize(value)
                    assert number is not None
                    rows[serde.deserialize(key)] = number
        reader.close()
        return rows

    def _windows(self, begin: dict[str, list[int]]) -> dict[tuple[str, int], int]:
        found: dict[Windowed[str], int] = self._last("minutes", _WINDOW, begin)
        return {(window.key, window.start): n for window, n in found.items()}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epoch-records", type=int, default=500_000)
    parser.add_argument("--no-stream", action="store_true", help="leave out Kafka")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    table = records(given.records)
    wanted = expected(table)
    with tempfile.TemporaryDirectory(prefix="bench-batch-") as name:
        scratch = Path(name)
        pq.write_table(table, scratch / "orders.parquet")
        context: Any = open_context("bench", {"spark.local.dir": name})
        session = SparkSession(context)
        app = App("bench-batch", session=session)
        app.topology(build)
        path = scratch / "orders.parquet"
        ways: dict[str, Callable[[], tuple[float, Found]]] = {
            "batch": lambda: of_batch(app, path, given.epoch_records),
            "spark": lambda: of_spark(session, path, scratch),
        }
        try:
            if given.no_stream:
                line = measure(ways, wanted, given)
            else:
                with DevelopmentBroker() as broker:
                    kafka = Kafka(broker.bootstrap_servers, table, scratch, session)
                    line = measure({**ways, "catch_up": kafka.catch_up}, wanted, given)
        finally:
            context.stop()
    print(json.dumps(line))
    with given.out.open("a") as file:
        file.write(json.dumps(line) + "\n")


def measure(
    ways: dict[str, Callable[[], tuple[float, Found]]], wanted: Found, given: argparse.Namespace
) -> dict[str, Any]:
    """Run all ways in turns, after one round to warm up; return records a second, the median."""
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(given.rounds + 1):
        for way, run in ways.items():
            spent, found = run()
            assert found == wanted, f"{way} gives another result"
            if number:
                rates[way].append(given.records / spent)
            print(f"{number} {way}: {given.records / spent:,.0f} a second", flush=True)
    return {
        "processors": os.cpu_count(),
        "records": given.records,
        "epoch_records": given.epoch_records,
        "per_s": {way: round(statistics.median(found)) for way, found in rates.items()},
        "load": [round(load, 1) for load in os.getloadavg()],
    }


if __name__ == "__main__":
    main()
