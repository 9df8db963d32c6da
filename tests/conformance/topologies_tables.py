"""Joins with tables: a stream with a table, a table with a table, a stream with a global table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mustela import Joined, KStream, KTable, Materialized, Stores, StreamsBuilder
from mustela.topology.graph import TopologyGraph

__all__ = ["TOPOLOGIES"]

_Stream = KStream[int, str]
_Table = KTable[int, str]
_HISTORY = timedelta(minutes=5)


def told(left: str | None, right: str | None) -> str:
    """Print both sides as Kafka Streams' tests do."""
    return f"{left or 'null'}-{right or 'null'}"


def stream_and_table(build: Callable[[_Stream, _Table], Any], **options: Any) -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("inputTopicLeft", key=int, value=str)
    table = builder.table("inputTopicRight", key=int, value=str, **options)
    build(stream, table).to("outputTopic", key=int, value=str)
    return builder.build()


def two_tables(
    build: Callable[[_Table, _Table], _Table],
    left: dict[str, Any] | None = None,
    right: dict[str, Any] | None = None,
) -> TopologyGraph:
    builder = StreamsBuilder()
    one = builder.table("inputTopicLeft", key=int, value=str, **(left or {"store": "left"}))
    other = builder.table("inputTopicRight", key=int, value=str, **(right or {"store": "right"}))
    build(one, other).to_stream().to("outputTopic", key=int, value=str)
    return builder.build()


def versioned(store: str) -> dict[str, Any]:
    history = Stores.persistent_versioned_key_value_store(store, _HISTORY)
    return {"materialized": Materialized(supplier=history)}


def stj_inner() -> TopologyGraph:
    return stream_and_table(lambda s, t: s.join(t, told))


def stj_left() -> TopologyGraph:
    return stream_and_table(lambda s, t: s.left_join(t, told))


def stj_left_versioned() -> TopologyGraph:
    return stream_and_table(lambda s, t: s.left_join(t, told), **versioned("table"))


def stj_left_versioned_grace() -> TopologyGraph:
    waits = Joined[Any, Any, Any](grace=timedelta(milliseconds=2), name="join")
    return stream_and_table(lambda s, t: s.left_join(t, told, joined=waits), **versioned("table"))


def ttj_inner() -> TopologyGraph:
    return two_tables(lambda a, b: a.join(b, told, value=str, store="result"))


def ttj_left() -> TopologyGraph:
    return two_tables(lambda a, b: a.left_join(b, told, value=str, store="result"))


def ttj_outer() -> TopologyGraph:
    return two_tables(lambda a, b: a.outer_join(b, told, value=str, store="result"))


def ttj_inner_inner() -> TopologyGraph:
    return two_tables(
        lambda a, b: a.join(b, told, value=str).join(b, told, value=str, store="result")
    )


def ttj_left_outer() -> TopologyGraph:
    return two_tables(
        lambda a, b: a.left_join(b, told, value=str).outer_join(b, told, value=str, store="result")
    )


def ttj_inner_versioned() -> TopologyGraph:
    return two_tables(
        lambda a, b: a.join(b, told, value=str, store="result"),
        versioned("left"),
        versioned("right"),
    )


def ttj_inner_left_versioned() -> TopologyGraph:
    return two_tables(lambda a, b: a.join(b, told, value=str, store="result"), versioned("left"))


def second_token(_key: int | None, value: str) -> str | None:
    tokens = value.split(",")
    return tokens[1] if len(tokens) > 1 else None


def stream_and_global_table(kind: str) -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("streamTopic", key=int, value=str)
    table = builder.global_table("globalTableTopic", key=str, value=str)
    join = stream.left_join if kind == "left" else stream.join
    joined = join(table, lambda v, row: f"{v}+{row or 'null'}", foreign_key_with_key=second_token)
    joined.to("out", key=int, value=str)
    return builder.build()


def gktable_inner_null_record_key() -> TopologyGraph:
    return stream_and_global_table("inner")


def gktable_left_null_mapped_key() -> TopologyGraph:
    return stream_and_global_table("left")


def null_key_left_stream_table() -> TopologyGraph:
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=str).repartition()
    right = builder.stream("right", key=str, value=str).repartition().to_table()
    left.left_join(right, lambda a, b: f"{a}|{b or 'null'}").to("out", key=str, value=str)
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], TopologyGraph]] = {
    build.__name__: build
    for build in (
        stj_inner,
        stj_left,
        stj_left_versioned,
        stj_left_versioned_grace,
        ttj_inner,
        ttj_left,
        ttj_outer,
        ttj_inner_inner,
        ttj_left_outer,
        ttj_inner_versioned,
        ttj_inner_left_versioned,
        gktable_inner_null_record_key,
        gktable_left_null_mapped_key,
        null_key_left_stream_table,
    )
}
