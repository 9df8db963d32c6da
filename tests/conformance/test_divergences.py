"""Where Mustela differs from Kafka Streams on purpose; docs/compat/divergences.md says why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    Joined,
    KTable,
    Materialized,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
)
from mustela.api.errors import ProcessorError
from mustela.processors import ValueTransformerWithKey
from mustela.windows import EmitStrategy
from tests.conformance.conftest import RunTopology
from tests.conformance.script import at

EVERY = {"settings": {"event_time": "stream-time", "emit": "every"}}


def test_no_deletion_goes_on_for_a_key_that_had_no_row(run_topology: RunTopology) -> None:
    """A filter behind a stored table is silent about rows that were never in its result."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int, store="table")
    table.filter(lambda _k, v: v > 5, store="large").to_stream().to("out")
    records = [at(n).send("in", "a", value) for n, value in enumerate([1, 7, 2, 3])]
    assert run_topology(builder.build(), records, **EVERY)["out"] == [("a", 7), ("a", None)]


@pytest.mark.parametrize("emit", ["every", "barrier"])
@pytest.mark.parametrize("history", ["nobody", "source", "filter", "both"])
def test_who_hears_of_a_deletion_of_nothing(
    run_topology: RunTopology, emit: str, history: str
) -> None:
    """A filter that knows old values is silent, unless it reads a versioned table.

    The table's other readers hear of it, at the barrier those of a versioned table alone.
    """

    def kept(name: str) -> dict[str, Any]:
        if history not in (name, "both"):
            return {"store": name}
        span = timedelta(minutes=1)
        supplier = Stores.persistent_versioned_key_value_store(name, history_retention=span)
        return {"materialized": Materialized(supplier=supplier)}

    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int, **kept("source"))
    table.to_stream(name="all").to("all")
    table.map_values(lambda v: -v, value=int).to_stream().to("mapped")
    table.filter(lambda _k, v: v > 5, **kept("filter")).to_stream().to("large")
    records = [at(n).send("in", "a", value) for n, value in enumerate([None, 1, 7, 2, 3])]
    settings = {**EVERY["settings"], "emit": emit}
    out = run_topology(builder.build(), records, settings=settings)
    versioned = history in ("source", "both")
    first = [None] if emit == "every" or versioned else []
    assert [value for _, value in out["all"]] == [*first, 1, 7, 2, 3]
    assert [value for _, value in out["mapped"]] == [*first, -1, -7, -2, -3]
    told = versioned and (emit == "every" or history == "both")
    assert [value for _, value in out["large"]] == (
        [None, None, 7, None, None] if told else [7, None]
    )


def test_a_first_count_takes_nothing_out_of_a_group(run_topology: RunTopology) -> None:
    """The group of the count 0, which no key ever had, hears nothing."""
    builder = StreamsBuilder()
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    by_count = counts.group_by(lambda key, count: (count, key), key=int, value=str)
    by_count.count(store="how-many").to_stream().to("out")
    records = [at(n).send("in", key, "x") for n, key in enumerate("aba")]
    got = run_topology(builder.build(), records, **EVERY)["out"]
    assert got == [(1, 1), (1, 2), (1, 1), (2, 1)]


def test_a_new_sliding_window_takes_nothing_out_of_a_group(run_topology: RunTopology) -> None:
    """It begins with what the records before it make, which no row of its own ever was."""
    builder = StreamsBuilder()
    near = SlidingWindows(time_difference=timedelta(milliseconds=10), grace=timedelta(0))
    numbers = builder.stream("in", key=str, value=int).group_by_key().windowed_by(near)
    sums: KTable[Any, int] = numbers.reduce(int.__add__, value=int, store="sums")
    total = sums.group_by(lambda _window, number: ("all", number), key=str, value=int)
    total.reduce(int.__add__, int.__sub__, store="total").to_stream().to("out")
    records = [at(time).send("in", "a", number) for time, number in [(10, 1), (14, 2)]]
    out = run_topology(builder.build(), records, **EVERY)
    # [0, 10] holds 1, [11, 21] holds 2, [4, 14] both.
    assert out["out"] == [("all", 1), ("all", 3), ("all", 6)]


def test_a_join_sees_no_window_that_is_still_open(run_topology: RunTopology) -> None:
    """The windows of the right side close first, and the left one still changes."""
    builder = StreamsBuilder()
    windows = TimeWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
    sides: list[KTable[Any, str]] = []
    for topic in ("left", "right"):
        grouped = builder.stream(topic, key=str, value=str).group_by_key().windowed_by(windows)
        final = grouped.emit_strategy(EmitStrategy.on_window_close())
        sides.append(final.reduce(str.__add__, store=topic))
    sides[0].join(sides[1], "{}+{}".format, value=str, name="both").to_stream().to("out")
    sent = [("left", "a", 1), ("right", "x", 2), ("right", "y", 20), ("left", "b", 3)]
    records = [
        at(time).send(topic, "k", value) for topic, value, time in [*sent, ("left", "c", 15)]
    ]
    out = run_topology(builder.build(), records, **EVERY)
    assert [(r.key, r.value, r.after_input) for r in out.of("out")] == [
        (Windowed("k", 0, 10), "ab+x", 4)
    ]


def test_each_change_of_a_foreign_key_join_has_its_result(run_topology: RunTopology) -> None:
    """Two changes of a left row in one record give two results."""
    builder = StreamsBuilder()
    twice = builder.stream("left", key=str, value=str).flat_map_values(lambda v: [v, v + "!"])
    left = twice.to_table(key=str, value=str, store="left")
    right = builder.table("right", key=str, value=str, store="right")
    joined = left.join(right, lambda x, y: f"{x}+{y}", foreign_key=lambda v: v[0], value=str)
    joined.to_stream().to("out")
    records = [at(0).send("right", "r", "right"), at(1).send("left", "a", "r1")]
    got = run_topology(builder.build(), records, **EVERY)["out"]
    assert got == [("a", "r1+right"), ("a", "r1!+right")]


def test_a_row_that_is_not_there_is_not_transformed(run_topology: RunTopology) -> None:
    """A table without a store is a view of the rows before it, and there is none to look at."""
    builder = StreamsBuilder()
    rows = builder.table("rows", key=str, value=str)
    shown = rows.transform_values(lambda _key, value: value or "nil", value=str)
    stream = builder.stream("in", key=str, value=str)
    stream.join(shown, lambda one, row: f"{one}+{row}", value=str).to("out")
    records = [at(0).send("in", "a", "1"), at(1).send("rows", "a", "x"), at(2).send("in", "a", "2")]
    assert run_topology(builder.build(), records, **EVERY)["out"] == [("a", "2+x")]


def test_what_one_record_gives_comes_way_by_way(run_topology: RunTopology) -> None:
    """All that the first way gives, then all of the second; not row by row."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    twice = stream.flat_map_values(lambda value: [value, value + "!"], name="twice")
    loud = twice.map_values(str.upper, name="loud")
    twice.merge(loud).to("out", key=str, value=str)
    records = [at(0).send("in", "a", "x")]
    got = run_topology(builder.build(), records, **EVERY)["out"]
    assert got == [("a", "X"), ("a", "X!"), ("a", "x"), ("a", "x!")]


def test_a_join_of_two_views_of_a_table_shows_both_as_they_are(run_topology: RunTopology) -> None:
    """No row pairs what one view is now with what the other was before the same change."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=str)
    same = table.filter(lambda _key, _value: True, name="same", store="same")
    loud = table.map_values(str.upper, value=str, name="loud", store="loud")
    same.outer_join(loud, "{}+{}".format, value=str, name="pairs").to_stream().to("out")
    records = [at(n).send("in", "a", value) for n, value in enumerate(["x", "y", None])]
    got = run_topology(builder.build(), records, **EVERY)["out"]
    assert got == [("a", pair) for pair in ("x+X", "x+X", "y+Y", "y+Y", None, None)]


def test_a_row_that_refers_to_itself_has_one_result_for_each_change(
    run_topology: RunTopology,
) -> None:
    """Also where it is put again as it was."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=str)
    pairs = table.join(table, "{}+{}".format, foreign_key=lambda value: value, value=str)
    pairs.to_stream().to("out")
    records = [at(n).send("in", "b", "b") for n in range(2)]
    out = run_topology(builder.build(), records, **EVERY)
    assert [(r.after_input, r.value) for r in out.of("out")] == [(0, "b+b"), (1, "b+b")]


def test_a_record_without_a_key_does_not_wait_for_a_row(run_topology: RunTopology) -> None:
    """A left join has a result for it at once; the others wait until their time is over."""
    span = timedelta(minutes=1)
    supplier = Stores.persistent_versioned_key_value_store("rows", history_retention=span)
    builder = StreamsBuilder()
    rows = builder.table("rows", key=str, value=str, materialized=Materialized(supplier=supplier))
    waits = Joined[str, str, str](grace=timedelta(milliseconds=5), name="wait")
    stream = builder.stream("in", key=str, value=str)
    stream.left_join(rows, lambda one, row: f"{one}+{row}", value=str, joined=waits).to("out")
    sent = [("a", "1", 10), (None, "2", 11), ("a", "3", 17)]
    records = [at(time).send("in", key, value) for key, value, time in sent]
    assert run_topology(builder.build(), records, **EVERY)["out"] == [
        (None, "2+None"),
        ("a", "1+None"),
    ]


class SeesItself(ValueTransformerWithKey[str, str, str]):
    def init(self, context: Any) -> None:
        self.made = context.state_store("made")

    def transform(self, key: str, value: str | None) -> str | None:
        return self.made.get(key) or value


def test_a_transformer_does_not_see_the_table_that_it_makes() -> None:
    """It has no such store, and the error says what to do."""
    builder = StreamsBuilder()
    rows = builder.table("in", key=str, value=str)
    rows.transform_values(SeesItself, value=str, store="made").to_stream().to("out")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessorError, match="has no store 'made'"),
    ):
        driver.create_input_topic("in").pipe_input("a", "x")
