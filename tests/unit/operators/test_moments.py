"""A stream is joined with a derived table as it was at the moment of each record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import KTable, StreamsBuilder
from mustela.topology.graph import TopologyGraph
from tests.epochs import by_key
from tests.unit.operators.table_models import Given, in_order, run

WAYS: list[dict[str, Any]] = [{}, {"key_groups": 8, "lanes": 3}]

RECORDS = st.one_of(
    st.builds(
        Given,
        topic=st.sampled_from(["left", "right"]),
        key=st.sampled_from("abc"),
        value=st.one_of(st.none(), st.sampled_from("abc")),
        timestamp=st.integers(0, 30),
    ),
    st.builds(
        Given,
        topic=st.just("stream"),
        key=st.sampled_from("abc"),
        value=st.just("?"),
        timestamp=st.integers(0, 30),
    ),
)
EPOCHS = st.lists(st.lists(RECORDS, min_size=1, max_size=8), max_size=5)


def counted(left: KTable[str, str], _right: KTable[str, str]) -> KTable[str, Any]:
    grouped = left.group_by(lambda key, value: (value, key), key=str, value=str)
    grouped.reduce(lambda one, other: min(one, other), lambda one, _gone: one, store="other")
    return grouped.count(store="count")


def paired(left: KTable[str, str], right: KTable[str, str]) -> KTable[str, Any]:
    return left.join(right, lambda one, other: one + other, foreign_key=str.lower, value=str)


def topology(derive: Callable[..., KTable[str, Any]]) -> TopologyGraph:
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=str)
    right = builder.table("right", key=str, value=str)
    table = derive(left, right)
    stream = builder.stream("stream", key=str, value=str)
    found = stream.left_join(table, lambda mark, value: f"{mark}{value}")
    found.to("out", key=str, value=str)
    table.to_stream().map_values(str).to("table", key=str, value=str)
    return builder.build()


@pytest.mark.parametrize("derive", [counted, paired])
@given(way=st.sampled_from(WAYS), epochs=EPOCHS)
def test_a_record_finds_the_row_of_its_own_moment(
    derive: Callable[..., KTable[str, Any]], way: dict[str, Any], epochs: list[list[Given]]
) -> None:
    """However epochs are cut, the result is that of one record after the other."""
    single = [[record] for record in in_order(epochs)]
    one_by_one = run(topology(derive), single, "out", **way)
    together = run(topology(derive), epochs, "out", **way)
    assert by_key(together["out"]) == by_key(one_by_one["out"])
