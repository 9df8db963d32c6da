"""No join needs topics with the same number of partitions: records go to the lane of their key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import JoinWindows, KStream, KTable, StreamsBuilder
from mustela.topology.graph import TopologyGraph
from mustela_dev import DevelopmentBroker
from tests.conformance.script import Produced, Sent, Written
from tests.conformance.spark_ways import SparkWay
from tests.conformance.ways import driver_way

LEFT, RIGHT = "left", "right"
PARTITIONS = {LEFT: 3, RIGHT: 5}
END_MS = 1_000_000
WITHIN = JoinWindows.of_time_difference(timedelta(milliseconds=5), grace=timedelta(seconds=1))


def text(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def streams(builder: StreamsBuilder) -> tuple[KStream[str, str], KStream[str, str]]:
    return (
        builder.stream(LEFT, key=str, value=str),
        builder.stream(RIGHT, key=str, value=str),
    )


def tables(builder: StreamsBuilder) -> tuple[KTable[str, str], KTable[str, str]]:
    return builder.table(LEFT, key=str, value=str), builder.table(RIGHT, key=str, value=str)


def stream_stream(how: str) -> Callable[[StreamsBuilder], KStream[Any, str]]:
    def build(builder: StreamsBuilder) -> KStream[Any, str]:
        left, right = streams(builder)
        return getattr(left, how)(right, text, windows=WITHIN, value=str)

    return build


def stream_table(how: str) -> Callable[[StreamsBuilder], KStream[Any, str]]:
    def build(builder: StreamsBuilder) -> KStream[Any, str]:
        left = builder.stream(LEFT, key=str, value=str)
        return getattr(left, how)(builder.table(RIGHT, key=str, value=str), text, value=str)

    return build


def stream_global(how: str) -> Callable[[StreamsBuilder], KStream[Any, str]]:
    def build(builder: StreamsBuilder) -> KStream[Any, str]:
        left = builder.stream(LEFT, key=str, value=str)
        table = builder.global_table(RIGHT, key=str, value=str)
        return getattr(left, how)(
            table, text, foreign_key_with_key=lambda key, _value: key, value=str
        )

    return build


def table_table(how: str, **options: Any) -> Callable[[StreamsBuilder], KStream[Any, str]]:
    def build(builder: StreamsBuilder) -> KStream[Any, str]:
        left, right = tables(builder)
        return getattr(left, how)(right, text, value=str, store="joined", **options).to_stream()

    return build


def refers_to(value: str) -> str:
    return f"k{int(value[1:]) % 7}"


JOINS: dict[str, Callable[[StreamsBuilder], KStream[Any, str]]] = {
    "stream-stream-inner": stream_stream("join"),
    "stream-stream-left": stream_stream("left_join"),
    "stream-stream-outer": stream_stream("outer_join"),
    "stream-table-inner": stream_table("join"),
    "stream-table-left": stream_table("left_join"),
    "stream-global-inner": stream_global("join"),
    "stream-global-left": stream_global("left_join"),
    "table-table-inner": table_table("join"),
    "table-table-left": table_table("left_join"),
    "table-table-outer": table_table("outer_join"),
    "foreign-key-inner": table_table("join", foreign_key=refers_to),
    "foreign-key-left": table_table("left_join", foreign_key=refers_to),
}


def topology(join: str) -> TopologyGraph:
    builder = StreamsBuilder()
    JOINS[join](builder).to("out", key=str, value=str)
    return builder.build()


def epochs() -> list[list[Sent]]:
    """Right rows first, then left ones, some of them without a partner; at the end all closes."""
    rights = [Sent(RIGHT, f"k{n}", f"r{n}", n) for n in range(0, 24, 2)]
    lefts = [Sent(LEFT, f"k{n}", f"l{n}", n) for n in range(0, 24, 3)]
    # So many keys that every partition has one, or the watermark would wait for it.
    ends = [Sent(topic, f"end{n}", f"x{n}", END_MS) for n in range(40) for topic in (LEFT, RIGHT)]
    return [rights, lefts, ends]


def rows(produced: Produced) -> Counter[tuple[Any, Any, int]]:
    """Return what was written, but for the records that only close windows."""

    def told(row: Written) -> bool:
        return not row.key.startswith("end")

    return Counter((row.key, row.value, row.timestamp) for row in produced.of("out") if told(row))


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.parametrize("join", sorted(JOINS))
def test_topics_of_different_partition_counts_are_joined(
    join: str, broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """Three partitions with five, on Spark, as one partition with one in the driver."""
    way = SparkWay(restarts=False).on(broker.bootstrap_servers, spark_context, tmp_path)
    options = {"settings": {"event_time": "watermark"}}
    on_spark = way(**options, key_groups=8, lanes=2, partitions=PARTITIONS)
    got = rows(on_spark(topology(join), epochs()))
    wanted = rows(driver_way(**options)(topology(join), epochs()))
    assert got == wanted
    assert got
