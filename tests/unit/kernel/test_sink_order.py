"""Rows of one topic leave in the order of their records, whichever sink wrote them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import KStream, Processor, ProcessorContext, Record, StreamsBuilder, TopologyTestDriver
from mustela.kernel.core.output import SinkRows
from mustela.kernel.records.sink_order import in_record_order, places_of
from mustela.planner.planner import plan
from mustela.topology.graph import TopologyGraph

WAYS: list[dict[str, Any]] = [
    {},
    {"key_groups": 8, "lanes": 3},
    {"crash_after_every_record": True},
]
NUMBERS = [1, 10, 2, 20, 3, 30]


EVERY = {"emit": "every"}


def at_once(topology: TopologyGraph, numbers: list[int], **way: Any) -> list[int]:
    """Read all records in one epoch."""
    with TopologyTestDriver(topology, **way) as driver:
        topic = driver.create_input_topic("in", key=str, value=int)
        with driver.epoch():
            for number in numbers:
                topic.pipe_input("k", number)
        return driver.create_output_topic("out", key=str, value=int).read_values_to_list()


def small_and_large(stream: KStream[str, int]) -> tuple[KStream[str, int], KStream[str, int]]:
    small = stream.filter(lambda _key, number: number < 10, name="small")
    return small, stream.filter(lambda _key, number: number >= 10, name="large")


def in_the_source_stage(builder: StreamsBuilder, numbers: KStream[str, int]) -> None:
    parts = numbers.split().branch(lambda _k, n: n >= 10, name="large").default_branch()
    for part in parts.values():
        part.to("out")


def in_a_lane(builder: StreamsBuilder, numbers: KStream[str, int]) -> None:
    latest = numbers.group_by_key().reduce(lambda _old, new: new, store="latest").to_stream()
    for part in small_and_large(latest):
        part.to("out", value=int)


def in_two_stages(builder: StreamsBuilder, numbers: KStream[str, int]) -> None:
    small, large = small_and_large(numbers)
    small.to("out")
    large.repartition(name="travels").to("out")


def in_three_stages(builder: StreamsBuilder, numbers: KStream[str, int]) -> None:
    small, large = small_and_large(numbers)
    even = large.filter(lambda _key, number: number % 20 == 0, name="even")
    small.to("out")
    once = even.select_key(lambda _key, number: number).repartition(key=int, name="once")
    once.select_key(lambda _key, _n: "k").repartition(key=str, name="twice").to("out")
    large.filter_not(lambda _key, number: number % 20 == 0).repartition(name="other").to("out")


def where_functions_choose(builder: StreamsBuilder, numbers: KStream[str, int]) -> None:
    small, large = small_and_large(numbers)
    small.to(lambda _key, _value, _context: "out")
    large.to("out")


def by_a_processor(builder: StreamsBuilder, numbers: KStream[str, int]) -> None:
    class Pass(Processor[str, int, str, int]):
        def init(self, context: ProcessorContext[str, int]) -> None:
            self.forward = context.forward

        def process(self, record: Record[str, int]) -> None:
            self.forward(record)

    for part in small_and_large(numbers.process(Pass, name="pass")):
        part.to("out", key=str, value=int)


SHAPES = [
    in_the_source_stage,
    in_a_lane,
    in_two_stages,
    in_three_stages,
    where_functions_choose,
    by_a_processor,
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_sinks_of_one_topic_keep_the_order_of_their_records(
    shape: Callable[[StreamsBuilder, KStream[str, int]], None], way: dict[str, Any]
) -> None:
    """A reader of the topic as a table ends with the last record's value."""
    builder = StreamsBuilder()
    shape(builder, builder.stream("in", key=str, value=int))
    assert at_once(builder.build(), NUMBERS, settings=EVERY, **way) == NUMBERS


def test_what_one_record_gives_leaves_as_the_steps_were_written() -> None:
    """As in Kafka Streams, which goes through each branch before the next."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    numbers.map_values(lambda number: number + 1).to("out", value=int)
    numbers.to("out")
    doubled = numbers.map_values(lambda number: 2 * number, name="doubled")
    doubled.repartition(value=int, name="travels").to("out")
    assert at_once(builder.build(), [5, 7]) == [6, 5, 10, 8, 7, 14]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("travels", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_what_a_flat_mapping_makes_of_one_record_keeps_its_order(
    way: dict[str, Any], *, keyed: bool, travels: bool
) -> None:
    """Though its parts go through several branches."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    parts = (
        numbers.flat_map(lambda key, number: [(key, number + n) for n in (0, 10, 1, 11)])
        if keyed
        else numbers.flat_map_values(lambda number: [number, number + 10, number + 1, number + 11])
    )
    if travels:
        parts = parts.repartition(key=str, value=int, name="travels")
    for part in small_and_large(parts):
        part.to("out", key=str, value=int)
    expected = [1, 11, 2, 12, 5, 15, 6, 16]
    assert at_once(builder.build(), [1, 5], **way) == expected


def test_a_topic_with_one_sink_costs_nothing() -> None:
    """No order is made for it, and nothing is sorted."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    numbers.to("out")
    numbers.group_by_key().count().to_stream().to("counts")
    steps = [step for stage in plan(builder.build()).stages for step in stage.steps]
    assert not any(step.turns or step.spread for step in steps)
    rows = [SinkRows(step="s", topic="out", keys=[b"k"], values=[b"v"], timestamps=[1])]
    assert in_record_order(rows) is rows


def test_a_counted_stream_is_ordered_where_its_topic_has_another_sink() -> None:
    """Counts are combined without an order elsewhere; here each has the place of its record."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    numbers.group_by_key().count().to_stream().to("out")
    numbers.to("out")
    assert at_once(builder.build(), [7, 8, 9]) == [7, 8, 3, 9]


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([b"a", b"b", None]), st.integers(0, 9)),
        max_size=12,
    ),
    chosen=st.booleans(),
)
def test_each_sinks_rows_of_a_key_keep_their_sequence(
    rows: list[tuple[int, bytes | None, int]], chosen: bool
) -> None:
    """Though a timer's row may have an earlier place than what its key was given before."""
    parts: list[SinkRows] = []
    for sink in range(3):
        mine = [(n, key, time) for n, (of, key, time) in enumerate(rows) if of == sink]
        order = [(time, 0, 0, time) for _, _, time in mine]
        names = [f"t{number % 2}" for number, _, _ in mine]
        parts.append(
            SinkRows(
                step=f"s{sink}",
                topic=names if chosen and sink else "t0",
                keys=[key for _, key, _ in mine],
                values=[b"%d" % number for number, _, _ in mine],
                timestamps=[time for _, _, time in mine],
                partitions=[number for number, _, _ in mine] if sink == 1 else None,
                headers=[(("n", b"%d" % number),) for number, _, _ in mine] if sink == 2 else None,
                places=places_of(order, (sink, sink)),
            )
        )
    (merged,) = in_record_order(parts)
    numbers = [int(value or b"0") for value in merged.values]
    assert sorted(numbers) == list(range(len(rows)))
    for sink in range(3):
        for key in (b"a", b"b", None):
            mine = [n for n in numbers if rows[n][:2] == (sink, key)]
            assert mine == sorted(mine)
    assert merged.keys == [rows[n][1] for n in numbers]
    assert merged.timestamps == [rows[n][2] for n in numbers]
    for row, number in enumerate(numbers):
        sink = rows[number][0]
        assert merged.partitions is None or merged.partitions[row] == (
            number if sink == 1 else None
        )
        assert merged.headers is None or bool(merged.headers[row]) is (sink == 2)
        if chosen and sink and isinstance(merged.topic, list):
            assert merged.topic[row] == f"t{number % 2}"
