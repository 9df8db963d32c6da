"""Applications over DataFrames, on Spark; what they write is compared in tests/differential."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mustela
from mustela import App, Consumed, StreamsBuilder, TimeWindows, TopologyTestDriver
from mustela.cli.main import main
from mustela.runtime.batch import BatchResult
from mustela.spark.arrow import arrow as pa, parquet as pq
from mustela.windows import EmitStrategy
from tests.integration.app_world import World

pytestmark = pytest.mark.spark
pytest_plugins = ["tests.integration.app_fixture"]

COUNT = 3_000
BASE = 1_700_000_000_000


@dataclass
class Order:
    customer: str
    total: int
    at: int


def build(builder: StreamsBuilder) -> None:
    """Stateless steps, a table, windows, and a join with a table and a global one."""
    consumed = Consumed(timestamp_extractor=lambda record, _time: record.value.at)
    orders = builder.stream("orders", consumed, key=str, value=Order)
    cities = builder.table("cities", key=str, value=str, store="cities")
    names = builder.global_table("names", key=str, value=str, store="names")
    by_customer = orders.select_key(lambda _key, order: order.customer, key=str)
    grouped = by_customer.group_by_key()
    totals = grouped.aggregate(int, lambda _k, o, t: t + o.total, value=int, store="totals")
    totals.to_stream().to("totals", key=str, value=int)
    windows = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    final = grouped.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    final.count(store="minutes").to_stream().to("minutes", value=int)
    placed = by_customer.join(cities, lambda order, city: f"{city} {order.total}", value=str)
    named = placed.join(
        names,
        lambda text, name: f"{text} {name}",
        foreign_key=lambda text: text.partition(" ")[0],
        value=str,
    )
    named.to("placed", key=str, value=str)


def data() -> dict[str, Any]:
    return {
        "orders": pa.table(
            {
                "key": [None] * COUNT,
                "customer": [f"c{n % 17}" for n in range(COUNT)],
                "total": [n % 5 for n in range(COUNT)],
                "at": [(n * 7919) % COUNT * 100 for n in range(COUNT)],
            }
        ),
        "cities": pa.table(
            {
                "key": [f"c{n % 19}" for n in range(100)],
                "value": [f"city{n % 7}" for n in range(100)],
                "timestamp": [n * 2_500 for n in range(100)],
            }
        ),
        "names": pa.table(
            {"key": [f"city{n}" for n in range(7)], "value": [f"City {n}" for n in range(7)]}
        ),
    }


def of_driver(app: App) -> dict[str, list[tuple[Any, Any]]]:
    """Return what the test driver writes of the same records, in the order of their times."""
    tables = {topic: rows.to_pylist() for topic, rows in data().items()}
    with TopologyTestDriver(app) as driver:
        for row in tables["names"]:
            driver.create_input_topic("names").pipe_input(row["key"], row["value"], timestamp=0)
        merged = [
            *((row["at"], 1, row) for row in tables["orders"]),
            *((row["timestamp"], 0, row) for row in tables["cities"]),
        ]
        topics = driver.create_input_topic("cities"), driver.create_input_topic("orders")
        for time, kind, row in sorted(merged, key=lambda one: one[:2]):
            value = row["value"] if kind == 0 else Order(row["customer"], row["total"], row["at"])
            topics[kind].pipe_input(row["key"], value, timestamp=time)
        return {
            topic: driver.create_output_topic(topic).read_key_values_to_list()
            for topic in ("totals", "minutes", "placed")
        }


def of_frame(frame: Any) -> list[tuple[Any, Any]]:
    rows = frame.orderBy("offset").collect()
    return [(row["key"], row["value"]) for row in rows]


def of_arrow(result: BatchResult, topic: str) -> list[tuple[Any, Any]]:
    return [(row["key"], row["value"]) for row in result.to_arrow(topic).to_pylist()]


def test_dataframes_go_through_spark_and_come_out_as_from_the_stream(
    spark_context: Any, tmp_path: Path
) -> None:
    """Over several lanes and epochs, whatever the input is; the times may be in the values."""
    app = App("batch-frames", {"emit": "every", "event_time": "stream-time", "key_groups": 8})
    app.topology(build)
    expected = of_driver(app)
    given = data()
    pq.write_table(given["orders"], tmp_path / "orders.parquet")
    session = _session(spark_context)
    inputs = {
        "orders": session.read.parquet(str(tmp_path / "orders.parquet")).repartition(3),
        "cities": given["cities"].to_pandas(),
        "names": given["names"],
    }
    with mustela.batch(app, inputs, epoch_records=1_000, directory=str(tmp_path)) as result:
        assert sorted(result) == ["minutes", "placed", "totals"]
        assert by_key(of_frame(result["totals"])) == by_key(expected["totals"])
        assert by_key(of_arrow(result, "placed")) == by_key(expected["placed"])
        windows = [
            ((key["key"], key["start"].timestamp() * 1000), value)
            for key, value in of_arrow(result, "minutes")
        ]
        assert Counter(windows) == Counter(
            ((key.key, key.start), value) for key, value in expected["minutes"]
        )
        assert not result.has_dead_letters


def test_the_command_writes_parquet(
    spark_context: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A directory for each topic; the working directory's program is found, as by `mustela run`."""
    del spark_context
    (tmp_path / "batch_program.py").write_text(PROGRAM)
    orders = pa.table({"who": ["a", "b", "a"], "value": ["x", "y", "z"], "when": [3, 1, 2]})
    pq.write_table(orders, tmp_path / "lines.parquet")
    monkeypatch.chdir(tmp_path)
    line = "batch batch_program:app --input lines=lines.parquet,key=who,timestamp=when --output out"
    assert main(line.split()) == 0
    assert "read 3 records of lines" in capsys.readouterr().out
    counts = pq.read_table(tmp_path / "out" / "counts").to_pylist()
    assert {row["key"]: row["value"] for row in counts} == {"a": 2, "b": 1}
    assert main(line.split()) == 2
    assert "not empty" in capsys.readouterr().err


PROGRAM = """
from mustela import App

app = App("batch-command")

@app.topology
def build(builder):
    lines = builder.stream("lines", key=str, value=str)
    lines.group_by_key().count(store="counts").to_stream().to("counts")
"""


def by_key(rows: list[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, value in rows:
        found.setdefault(key, []).append(value)
    return found


def _session(context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession(context)


@pytest.mark.broker
def test_a_running_application_comes_to_the_same(world: World) -> None:
    """Over partitions of a topic, with late records: each key's last row, and what was late."""
    source, table, sums, minutes = (
        world.topic(name, partitions=3) for name in ("in", "table", "sums", "minutes")
    )

    def program(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        names = builder.table(table, key=str, value=str, store="names")
        joined = stream.join(names, lambda value, name: f"{name}{value}", value=str)
        by_name = joined.group_by(lambda _key, value: value[:2], key=str)
        by_name.aggregate(
            str, lambda _k, value, all: all + value[-1], value=str, store="sums"
        ).to_stream().to(sums)
        windows = TimeWindows(size=timedelta(seconds=10), grace=timedelta(seconds=1))
        counted = stream.group_by_key().windowed_by(windows).count(store="minutes")
        counted.to_stream().to(minutes, value=int)

    end = BASE + 1_000_000
    for partition in range(3):
        keys = [f"k{partition}{n}" for n in range(4)]
        early = [(key, f"n{n % 2}", BASE + 1_000 * n) for n, key in enumerate(keys)]
        later = [(key, f"m{n % 2}", BASE + 200_000 + n) for n, key in enumerate(keys)]
        world.send(table, [*early, *later, ("end", "e", end)], partition=partition)
        times = [(n * 7919) % 400 * 1_000 - (n % 11) * 900 for n in range(300)]
        records = [(keys[n % 4], str(n % 10), BASE + abs(t)) for n, t in enumerate(sorted(times))]
        late = [(keys[0], "9", BASE + 1), (keys[1], "9", BASE + 2)]
        everything = [*records[:150], *late, *records[150:], ("end", "0", end)]
        world.send(source, everything, partition=partition)
    watcher = world.run(program)
    app, _ = world.app(program)
    inputs = {topic: _as_table(world.rows(topic)) for topic in (source, table)}
    with mustela.batch(app, inputs, epoch_records=100) as result:
        for topic in (sums, minutes):
            wanted = {row.key: row.value for row in world.rows(topic)}
            found = result.to_arrow(topic, raw=True).to_pylist()
            assert {row["key"]: row["value"] for row in found} == wanted
        late_records = {n: c for n, c in result.counters.items() if "late" in n}
    assert sum(late_records.values()) == 6
    assert late_records == {name: watcher.counter(name) for name in late_records}


def _as_table(rows: list[Any]) -> Any:
    return pa.table(
        {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "timestamp": [row.timestamp for row in rows],
            "partition": [row.partition for row in rows],
            "offset": [row.offset for row in rows],
        }
    )
