"""Where records go, on every engine: branches, lanes, tables, partitions."""

from __future__ import annotations

from typing import Any

from mustela import Consumed, LogAndSkipOnInvalidTimestamp, Record, StreamsBuilder
from tests.conformance.conftest import RunTopology
from tests.conformance.script import Sent


def sent(topic: str, rows: list[tuple[Any, Any]]) -> list[Sent]:
    return [Sent(topic, key, value, n) for n, (key, value) in enumerate(rows)]


def keyed(produced: Any, topic: str) -> list[tuple[Any, Any]]:
    return [(r.key, r.value) for r in produced.records if r.topic == topic]


def test_a_split_stream_goes_its_ways(run_topology: RunTopology) -> None:
    """Each record to one branch; a branch can be counted, another be written as it is."""
    builder = StreamsBuilder()
    split = builder.stream("in", key=str, value=int).split(name="by")
    split.branch(lambda _key, value: value < 0, name="owed")
    branches = split.branch(lambda key, _value: key == "b", name="b").default_branch()
    branches["owed"].group_by_key().count(store="owed").to_stream().to("owed")
    branches["b"].to("b")
    branches["default"].map_values(str).to("rest", value=str)
    rows = [("a", -1), ("b", 2), ("a", 3), ("b", -4), ("a", -5)]
    produced = run_topology(builder.build(), sent("in", rows))
    assert keyed(produced, "owed") == [("a", 1), ("b", 1), ("a", 2)]
    assert keyed(produced, "b") == [("b", 2)]
    assert keyed(produced, "rest") == [("a", "3")]


def test_a_repartitioned_stream_keeps_what_has_no_key(run_topology: RunTopology) -> None:
    """And counts by the new key, behind one exchange."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).select_key(lambda _key, value: value or None)
    spread = stream.repartition(key=str, name="spread")
    spread.to("all")
    spread.group_by_key().count(store="counts").to_stream().to("counts")
    rows = [("x", "a"), ("x", ""), ("y", "a")]
    produced = run_topology(builder.build(), sent("in", rows))
    assert keyed(produced, "all") == [("a", "a"), (None, ""), ("a", "a")]
    assert keyed(produced, "counts") == [("a", 1), ("a", 2)]


def test_a_stream_becomes_a_table_by_its_new_key(run_topology: RunTopology) -> None:
    """The rows of the table are met by a filter, which deletes what no longer holds."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=int, value=int).select_key(lambda key, _value: f"k{key}")
    table = stream.to_table(key=str, store="last")
    table.filter(lambda _key, value: value > 0, store="positive").to_stream().to("out")
    rows: list[tuple[Any, Any]] = [(1, 5), (2, -1), (1, -2), (2, 3), (2, None)]
    produced = run_topology(builder.build(), sent("in", rows))
    assert keyed(produced, "out") == [("k1", 5), ("k1", None), ("k2", 3), ("k2", None)]


def test_records_have_the_times_that_a_program_extracts(run_topology: RunTopology) -> None:
    """Of a stream by a function, of a table by their own timestamps."""
    builder = StreamsBuilder()

    def extract(record: Record[str, int], partition_time: int) -> int:
        return -1 if record.value == 0 else max(record.timestamp + record.value, partition_time)

    timed = Consumed(key=str, value=int, timestamp_extractor=extract)
    builder.stream("in", consumed=timed).to("out")
    skip = Consumed(key=str, value=int, timestamp_extractor=LogAndSkipOnInvalidTimestamp)
    builder.table("rows", consumed=skip, store="rows").to_stream().to("changes")
    rows = [("a", 70), ("a", 0), ("b", 40), ("a", 90)]
    produced = run_topology(builder.build(), [*sent("in", rows), Sent("rows", "r", 1, 6)])
    times = [(r.topic, r.value, r.timestamp) for r in produced.records]
    assert times == [("out", 70, 70), ("out", 40, 70), ("out", 90, 93), ("changes", 1, 6)]


def test_rows_may_go_to_several_partitions_or_to_none(run_topology: RunTopology) -> None:
    """As the sink's partitioner says."""
    builder = StreamsBuilder()
    choices: dict[int, Any] = {0: None, 1: 0, 2: set[int](), 3: {0}}
    builder.stream("in", key=str, value=int).to(
        "out", partitioner=lambda _topic, _key, value, _count: choices[value]
    )
    produced = run_topology(builder.build(), sent("in", [("k", n) for n in range(4)]))
    assert keyed(produced, "out") == [("k", 0), ("k", 1), ("k", 3)]
