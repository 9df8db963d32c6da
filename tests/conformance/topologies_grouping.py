"""Tables grouped anew, joins by foreign key, and cogroups."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mustela import KTable, Materialized, SlidingWindows, Stores, StreamsBuilder
from mustela.topology.graph import TopologyGraph

__all__ = ["TOPOLOGIES"]

_HISTORY = timedelta(minutes=5)


def plus(_key: Any, value: str, total: str) -> str:
    return f"{total}+{value}"


def minus(_key: Any, value: str, total: str) -> str:
    return f"{total}-{value}"


def append(_key: Any, value: str, total: str) -> str:
    return total + value


def versioned(store: str) -> dict[str, Any]:
    history = Stores.persistent_versioned_key_value_store(store, _HISTORY)
    return {"materialized": Materialized(supplier=history)}


def table_agg_basic() -> TopologyGraph:
    builder = StreamsBuilder()
    grouped = builder.table("topic1", key=str, value=str).group_by(lambda k, v: (k, v), key=str)
    grouped.aggregate(lambda: "0", plus, minus, value=str).to_stream().to("out")
    return builder.build()


def table_agg_remove_before_add() -> TopologyGraph:
    builder = StreamsBuilder()
    table = builder.table("count-test-input", key=str, value=str)
    grouped = table.group_by(lambda key, _value: (key[0], key[1]), key=str)
    grouped.aggregate(
        str, append, lambda _key, value, total: total.replace(value, ""), value=str
    ).to_stream().to("out")
    return builder.build()


def table_agg_versioned() -> TopologyGraph:
    builder = StreamsBuilder()
    table = builder.table("topic1", key=str, value=str, **versioned("versions"))

    def group(key: str, value: str) -> Any:
        if key == "NULL":
            return None
        return (None, value) if key == "null" else (value, value)

    grouped = table.group_by(group, key=str)
    grouped.aggregate(lambda: "0", plus, minus, value=str).to_stream().to("out")
    return builder.build()


def table_count_same_group_no_transient() -> TopologyGraph:
    builder = StreamsBuilder()
    table = builder.table("input-topic", key=str, value=str)
    table.group_by(lambda k, v: (k, v), key=str).count().to_stream().to("output-topic")
    return builder.build()


def by_foreign_key(
    join: Callable[[KTable[str, str], KTable[str, str]], KTable[str, str]],
    left: dict[str, Any] | None = None,
    right: dict[str, Any] | None = None,
) -> TopologyGraph:
    builder = StreamsBuilder()
    one = builder.table("left_table", key=str, value=str, **(left or {}))
    other = builder.table("right_table", key=str, value=str, **(right or {}))
    join(one, other).to_stream().to("output-topic", key=str, value=str)
    return builder.build()


def foreign_key(value: str) -> str:
    return value.split("|")[1]


def paired(left: str, right: str | None) -> str:
    return f"({left},{'null' if right is None else right})"


def fk_inner_unsubscribe() -> TopologyGraph:
    return by_foreign_key(lambda one, other: one.join(other, paired, foreign_key=foreign_key))


def fk_inner_out_of_order_versioned() -> TopologyGraph:
    return by_foreign_key(
        lambda one, other: one.join(other, paired, foreign_key=foreign_key),
        left=versioned("left"),
        right=versioned("right"),
    )


def fk_left_changing_fk() -> TopologyGraph:
    return by_foreign_key(lambda one, other: one.left_join(other, paired, foreign_key=foreign_key))


def fk_left_right_side_changes() -> TopologyGraph:
    return by_foreign_key(lambda one, other: one.left_join(other, paired, foreign_key=foreign_key))


def fk_left_null_fk() -> TopologyGraph:
    def or_none(value: str) -> str | None:
        found = foreign_key(value)
        return None if found == "returnNull" else found

    return by_foreign_key(lambda one, other: one.left_join(other, paired, foreign_key=or_none))


def cogroup_shared_keys() -> TopologyGraph:
    builder = StreamsBuilder()
    one = builder.stream("one", key=str, value=str).group_by_key()
    two = builder.stream("two", key=str, value=str).group_by_key()
    table = one.cogroup(append).cogroup(two, append).aggregate(str, value=str)
    table.to_stream().to("output")
    return builder.build()


def cogroup_join_table() -> TopologyGraph:
    builder = StreamsBuilder()
    one = builder.stream("one", key=str, value=str).group_by_key()
    two = builder.stream("two", key=str, value=str).group_by_key()
    three = builder.table("three", key=str, value=str)
    table = one.cogroup(append).cogroup(two, append).aggregate(str, value=str)
    joined = table.join(three, lambda left, right: f"{left}+{right}", value=str)
    joined.to_stream().to("output")
    return builder.build()


def sliding_exact_order() -> TopologyGraph:
    builder = StreamsBuilder()
    one = builder.stream("topic", key=str, value=str).group_by_key()
    two = builder.stream("topic2", key=str, value=str).group_by_key()
    windows = SlidingWindows(
        time_difference=timedelta(milliseconds=500), grace=timedelta(milliseconds=2000)
    )
    table = one.cogroup(plus).cogroup(two, minus).windowed_by(windows)
    table.aggregate(lambda: "0", value=str).to_stream().to("output")
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], TopologyGraph]] = {
    build.__name__: build
    for build in (
        cogroup_join_table,
        cogroup_shared_keys,
        fk_inner_out_of_order_versioned,
        fk_inner_unsubscribe,
        fk_left_changing_fk,
        fk_left_null_fk,
        fk_left_right_side_changes,
        sliding_exact_order,
        table_agg_basic,
        table_agg_remove_before_add,
        table_agg_versioned,
        table_count_same_group_no_transient,
    )
}
