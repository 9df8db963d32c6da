"""The topologies of the conformance cases, each as its prose says, by the case's name."""

from __future__ import annotations

from collections.abc import Callable

from mustela import StreamsBuilder
from mustela.topology.graph import TopologyGraph

__all__ = ["TOPOLOGIES"]


def stream_aggregate_last() -> TopologyGraph:
    builder = StreamsBuilder()
    grouped = builder.stream("topic", key=str, value=str).group_by_key()
    table = grouped.aggregate(lambda: "0", lambda _k, v, total: f"{total}+{v}", value=str)
    table.to_stream().to("out", key=str, value=str)
    return builder.build()


def table_filter_tombstones() -> TopologyGraph:
    builder = StreamsBuilder()
    table = builder.table("topic1", key=str, value=int)
    table.filter(lambda _k, v: v % 2 == 0).to_stream().to("out2")
    table.filter_not(lambda _k, v: v % 2 == 0).to_stream().to("out3")
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], TopologyGraph]] = {
    build.__name__: build for build in (stream_aggregate_last, table_filter_tombstones)
}
