"""Joins of tables against a model that goes through the records one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError, FunctionError, JoinKeysError
from tests.epochs import cut
from tests.unit.operators.join_models import (
    CUTS,
    EMITS,
    TIMES,
    WAYS,
    Change,
    Sent,
    at_barriers,
    by_key,
    joined_table,
    run,
    sent,
)

KINDS = ("inner", "left", "outer")


def spoiling(left: Any, right: Any) -> list[Any]:
    """Join two lists and change both of them, as careless functions do."""
    result = [*(left or ["-"]), *(right or ["-"])]
    for side in (left, right):
        if side is not None:
            side.append("spoilt")
    return result


def told(left: Any, right: Any) -> str:
    return f"{left}|{right}"


def add(left: int | None, right: int | None) -> int:
    return (left or 0) * 100 + (right or 0)


def without_repeats(rows: dict[Any, list[Change]]) -> dict[Any, list[Any]]:
    """Return the values of each key, one for those that follow each other and are equal."""
    return {
        key: [value for value, _ in groupby(change.value for change in changes)]
        for key, changes in rows.items()
    }


def join(kind: str, left: Any, right: Any, joiner: Any, **options: Any) -> Any:
    method: Any = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    return method(right, joiner, **options)


def tables(kind: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=int, store="left")
    right = builder.table("right", key=str, value=int)
    plain = join(kind, left, right, told, value=str, name="plain")
    plain.to_stream().to("plain")
    join(kind, left, right, told, value=str, store="kept").to_stream().to("kept")
    one, other = (side.map_values(lambda v: [v], value=list) for side in (left, right))
    join(kind, one, other, spoiling, value=list, name="spoiling").to_stream().to("spoiling")
    return builder


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@given(
    records=sent(("left", "right")),
    cuts=CUTS,
    emit=st.sampled_from(EMITS),
    event_time=st.sampled_from(TIMES),
)
def test_a_join_of_tables_is_what_going_through_the_records_gives(
    kind: str, way: str, records: Sequence[Sent], cuts: list[int], emit: str, event_time: str
) -> None:
    """Results and timestamps with each update, and the right change of each key at barriers."""
    epochs = cut(records, cuts)
    settings = {"emit": emit, "event_time": event_time}
    kept: dict[str, Any] = {}

    def look(driver: TopologyTestDriver) -> None:
        kept.update(driver.get_key_value_store("kept").all())

    found = run(tables(kind), epochs, settings, way, look)
    results, table = joined_table(kind, epochs, told)
    assert kept == table
    spoilt, _ = joined_table(
        kind, epochs, lambda a, b: ["-" if a is None else a, "-" if b is None else b]
    )
    for topic, rows in (("plain", results), ("kept", results), ("spoiling", spoilt)):
        got = by_key(found.get(topic, []))
        if emit == "barrier":
            assert without_repeats(got) == at_barriers(rows)
        else:
            assert got == by_key([(key, change.value, change.timestamp) for _, key, change in rows])


@pytest.mark.parametrize("kind", KINDS)
@given(
    records=sent(("left", "right")),
    cuts=CUTS,
    way=st.sampled_from(sorted(WAYS)),
    emit=st.sampled_from(EMITS),
)
def test_what_is_grouped_behind_a_join_adds_up(
    kind: str, records: Sequence[Sent], cuts: list[int], way: str, emit: str
) -> None:
    """Each change carries the value before, so that what is taken away is what was added."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=int)
    right = builder.table("right", key=str, value=int)
    sums = join(kind, left, right, add, value=int, name="sums")
    by_one = sums.group_by(lambda _k, v: ("all", v), key=str, value=int)
    total = by_one.aggregate(
        int, lambda _k, v, t: t + v, lambda _k, v, t: t - v, value=int, store="total"
    )
    total.to_stream().to("total", key=str, value=int)
    totals: list[Any] = []

    def look(driver: TopologyTestDriver) -> None:
        totals.append(driver.get_key_value_store("total").get("all", 0))

    epochs = cut(records, cuts)
    run(builder, epochs, {"emit": emit}, way, look)
    assert totals == [sum(joined_table(kind, epochs, add)[1].values())]


@pytest.mark.parametrize("kind", KINDS)
@given(records=sent(("left", "right")), cuts=CUTS, way=st.sampled_from(sorted(WAYS)))
def test_views_and_chains_are_joined_like_tables_with_a_store(
    kind: str, records: Sequence[Sent], cuts: list[int], way: str
) -> None:
    """A filter of a table, and a join of a join, end as their definition says."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=int)
    right = builder.table("right", key=str, value=int)
    seen = left.filter(lambda _k, v: v > 2).map_values(lambda v: v * 2, value=int)
    join(kind, seen, right, told, value=str, store="views")
    once = join(kind, left, right, add, value=int)
    join(kind, once, right, told, value=str, store="chain")
    stores: dict[str, dict[str, Any]] = {}

    def look(driver: TopologyTestDriver) -> None:
        for name in ("views", "chain"):
            stores[name] = dict(driver.get_key_value_store(name).all())

    epochs = cut(records, cuts)
    run(builder, epochs, {}, way, look)
    doubled = [
        [
            r
            if r.topic == "right"
            else r._replace(value=r.value * 2 if r.value is not None and r.value > 2 else None)
            for r in epoch
        ]
        for epoch in epochs
    ]
    assert stores["views"] == joined_table(kind, doubled, told)[1]
    _, first = joined_table(kind, epochs, add)
    rights = [r for epoch in epochs for r in epoch if r.topic == "right"]
    last = {r.key: r.value for r in rights if r.key is not None}
    pairs = {key: (first.get(key), last.get(key)) for key in first.keys() | last.keys()}
    wanted = {
        key: told(*pair)
        for key, pair in pairs.items()
        if {"inner": None not in pair, "left": pair[0] is not None, "outer": pair != (None, None)}[
            kind
        ]
    }
    assert stores["chain"] == wanted


def test_a_table_that_is_joined_twice_with_the_same_table_gives_two_results() -> None:
    """One record changes both sides of the second join: two equal results, as in Kafka Streams."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=int)
    right = builder.table("right", key=str, value=int)
    twice = left.join(right, told, value=str).join(right, told, value=str)
    twice.to_stream().to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), settings={"emit": "every"}) as driver:
        driver.create_input_topic("left").pipe_input("a", 1, timestamp=0)
        driver.create_input_topic("right").pipe_input("a", 2, timestamp=1)
        driver.create_input_topic("right").pipe_input("a", 3, timestamp=2)
        values = driver.create_output_topic("out").read_values_to_list()
    assert values == ["1|2|2", "1|2|2", "1|3|3", "1|3|3"]


def test_what_cannot_be_joined_is_refused_where_it_is_written() -> None:
    """Keys of two kinds, a stream in a table's place, a function with one argument."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=int)
    with pytest.raises(JoinKeysError) as error:
        left.join(builder.table("right", key=int, value=int), told)
    assert error.value.fields == {"left": "str", "right": "int"}
    with pytest.raises(BadOptionError):
        left.join(builder.stream("stream", key=str, value=int), told)  # type: ignore[arg-type]
    with pytest.raises(FunctionError):
        left.join(left.filter(max), lambda one: one)  # type: ignore[arg-type, misc]
    with pytest.raises(BadOptionError):
        left.join(
            left.filter(max, name="f"),
            told,
            foreign_key=str,
            foreign_key_with_key=lambda _k, v: v,
        )
