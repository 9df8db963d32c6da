"""Where records go, on every engine: branches, lanes, tables, partitions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import Consumed, JoinWindows, KStream, Record, StreamsBuilder, TopologyTestDriver
from mustela.windows import LogAndSkipOnInvalidTimestamp
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


def test_a_repartitioned_stream_loses_what_has_no_key(run_topology: RunTopology) -> None:
    """And counts by the new key, behind one exchange."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).select_key(lambda _key, value: value or None)
    spread = stream.repartition(key=str, name="spread")
    spread.to("all")
    spread.group_by_key().count(store="counts").to_stream().to("counts")
    rows = [("x", "a"), ("x", ""), ("y", "a")]
    produced = run_topology(builder.build(), sent("in", rows))
    assert keyed(produced, "all") == [("a", "a"), ("a", "a")]
    assert keyed(produced, "counts") == [("a", 1), ("a", 2)]


MINUTE = JoinWindows.of_time_difference(timedelta(minutes=1), grace=timedelta(0))

# What is behind a repartitioned stream, and whether it has results for records without a key.
READERS: dict[str, tuple[Callable[[StreamsBuilder, KStream[str, str]], object], bool]] = {
    "nothing": (lambda _builder, _stream: None, False),
    "inner table join": (lambda b, s: s.join(b.table("other", key=str, value=str), pair), False),
    "left table join": (lambda b, s: s.left_join(b.table("other", key=str, value=str), pair), True),
    "the table of a left join": (lambda b, s: other(b).left_join(s.to_table(), pair), True),
    "inner global join": (
        lambda b, s: s.join(
            b.global_table("other", key=str, value=str), pair, foreign_key_with_key=lambda k, _v: k
        ),
        False,
    ),
    "left global join": (
        lambda b, s: s.map_values(str.upper).left_join(
            b.global_table("other", key=str, value=str), pair, foreign_key_with_key=lambda k, _v: k
        ),
        True,
    ),
    "inner join": (lambda b, s: s.join(other(b), pair, windows=MINUTE), False),
    "left join": (lambda b, s: s.left_join(other(b), pair, windows=MINUTE), True),
    "right side of a left join": (lambda b, s: other(b).left_join(s, pair, windows=MINUTE), True),
    "outer join": (lambda b, s: s.outer_join(other(b), pair, windows=MINUTE), True),
    "left join of tables": (lambda b, s: s.to_table().left_join(other(b).to_table(), pair), False),
}


def pair(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


def other(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("other", key=str, value=str)


@pytest.mark.parametrize("behind", READERS)
def test_a_repartition_keeps_null_keys_for_a_join_that_can_use_them(behind: str) -> None:
    """However far on it is: then all that read the stream see them."""
    add, keeps = READERS[behind]
    builder = StreamsBuilder()
    spread = builder.stream("in", key=str, value=str).repartition(key=str, value=str, name="spread")
    spread.map_values(len).filter(lambda _key, length: length > 0).to("all", value=int)
    add(builder, spread)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_key_value_list([(None, "x"), ("a", "yy")])
        told = driver.create_output_topic("all").read_key_values_to_list()
        lost = sum(n for name, n in driver.metrics.items() if name.startswith("dropped_null_key"))
    assert told == ([(None, 1), ("a", 2)] if keeps else [("a", 2)])
    assert keeps or lost == 1


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
