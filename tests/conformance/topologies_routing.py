"""Topologies of the cases of repartitioning, each as its prose says, by the case's name."""

from __future__ import annotations

from collections.abc import Callable

from mustela import Repartitioned, StreamsBuilder
from mustela.topology.graph import TopologyGraph

__all__ = ["TOPOLOGIES"]


def repartition_then_group_by_key() -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("input", key=int, value=str).select_key(lambda k, _v: str(k))
    spread = stream.repartition(key=str, name="new-key")
    spread.group_by_key().count(store="counts").to_stream().to("output")
    return builder.build()


def repartition_timestamps() -> TopologyGraph:
    """No topic lies between: what comes out of the step is written to one of the case's name."""
    builder = StreamsBuilder()
    options = Repartitioned[int, str](
        name="test", partitions=2, partitioner=lambda _topic, _key, _value, _count: {1}
    )
    stream = builder.stream("input-topic", key=int, value=str)
    stream.repartition(repartitioned=options).to("repartition")
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], TopologyGraph]] = {
    build.__name__: build for build in (repartition_then_group_by_key, repartition_timestamps)
}
