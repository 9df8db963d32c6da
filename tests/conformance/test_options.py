"""Options of which a topology's meaning does not hang, but that users of Kafka Streams look for."""

from __future__ import annotations

from datetime import timedelta

from mustela import (
    Grouped,
    JoinWindows,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    StreamsBuilder,
)
from tests.conformance.conftest import RunTopology
from tests.conformance.script import at
from tests.conformance.ways import driver_way


def test_a_global_join_may_see_the_key(run_topology: RunTopology) -> None:
    """The stream's key, in inner and left joins."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    table = builder.global_table("prices", key=str, value=str)
    inner = stream.join_with_key(
        table, lambda k, v, row: f"{k}:{v}:{row}", foreign_key_with_key=lambda _k, v: v, value=str
    )
    left = stream.left_join_with_key(
        table, lambda k, v, row: f"{k}:{v}:{row}", foreign_key_with_key=lambda _k, v: v, value=str
    )
    inner.to("inner")
    left.to("left")
    records = [at(0).send("prices", "apple", "3"), at(1).send("in", "a", "apple")]
    records += [at(2).send("in", "b", "pear")]
    out = run_topology(builder.build(), records)
    assert out["inner"] == [("a", "a:apple:3")]
    assert out["left"] == [("a", "a:apple:3"), ("b", "b:pear:None")]


def test_options_name_steps_and_say_serdes(run_topology: RunTopology) -> None:
    """As objects, where Kafka Streams has objects."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    spread = stream.repartition(repartitioned=Repartitioned(key=str, value=str, name="spread"))
    grouped = spread.group_by_key(grouped=Grouped(key=str, value=str))
    counts = grouped.count(materialized=Materialized(store="counts", store_type="in_memory"))
    counts.to_stream().to("out", produced=Produced(key=str, value=int, name="written"))
    topology = builder.build()
    assert {"spread", "written"} <= {node.name for node in topology}
    records = [at(n).send("in", "a", "x") for n in range(2)]
    assert run_topology(topology, records)["out"] == [("a", 1), ("a", 2)]


def test_a_join_may_go_without_changelogs() -> None:
    """Its results are the same while no state is lost."""
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=str)
    right = builder.stream("right", key=str, value=str)
    windows = JoinWindows.of_time_difference(timedelta(milliseconds=5), grace=timedelta(0))
    options = StreamJoined(key=str, value=str, other_value=str, logged=False)
    joined = left.join(right, lambda x, y: x + y, windows=windows, value=str, stream_joined=options)
    joined.to("out")
    records = [at(1).send("left", "a", "l"), at(2).send("right", "a", "r")]
    out = driver_way()(builder.build(), [[record] for record in records])
    assert out["out"] == [("a", "lr")]
