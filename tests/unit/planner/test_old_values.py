"""Who is asked for the values before, and who answers."""

from __future__ import annotations

import pytest

from mustela import StreamsBuilder
from mustela.errors import InvariantError
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.serdes.primitives import StrSerde
from mustela.topology.graph import TopologyGraph
from mustela.topology.source import TableSourceNode
from mustela.topology.table_group import TableGroupNode


def answering(topology: TopologyGraph, *, rules_off: frozenset[str] = frozenset()) -> set[str]:
    """Return the steps that send old values."""
    stages = plan(topology, options=PlanOptions(rules_off=rules_off)).stages
    return {step.name for stage in stages for step in stage.steps if step.wants_old}


def test_a_grouping_asks_through_steps_that_keep_nothing() -> None:
    """A mapping and a filter without a store pass the question on; the source answers."""
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=int).map_values(lambda value: value + 1)
    table.filter(lambda _key, value: value > 1).group_by(lambda _key, value: (value, 1)).count()
    assert answering(builder.build()) == {"t", "t.map_values", "t.map_values.filter"}


def test_a_step_with_a_store_answers_by_itself() -> None:
    """Nobody before a store is asked."""
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=int).map_values(lambda value: value + 1, store="m")
    table.group_by(lambda _key, value: (value, 1)).count()
    topology = builder.build()
    assert answering(topology) == {"t.map_values"}
    assert topology["t"].stores == ()


def test_old_values_that_are_needed_do_not_hang_on_a_rule() -> None:
    """Switching the rule off takes away only what nobody needs."""
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=int, store="t")
    table.filter(lambda _key, value: value > 1).to_stream().to("out")
    table.group_by(lambda _key, value: (value, 1)).count()
    topology = builder.build()
    assert answering(topology) == {"t", "t.filter"}
    assert answering(topology, rules_off=frozenset({"send_old_values"})) == {"t"}


def test_a_join_by_foreign_key_asks_the_left_side_alone() -> None:
    """The right side's rows are kept where they are needed, so it needs no store of its own."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=str)
    right = builder.table("right", key=str, value=str)
    joined = left.join(right, lambda one, other: one + other, foreign_key=str.lower, name="j")
    joined.group_by(lambda _key, value: (value, 1)).count()
    topology = builder.build()
    assert answering(topology) == {"left", "j"}
    assert [store.name for store in topology["j"].stores] == ["j"]
    assert topology["right"].stores == ()


def test_a_source_table_keeps_its_name_for_its_store() -> None:
    """A table that was read twice is one table, also after it was given a store."""
    builder = StreamsBuilder()
    first = builder.table("t", key=str, value=int)
    first.group_by(lambda _key, value: (value, 1)).count(store="count")
    again = builder.table("t", key=str, value=int)
    assert again.name == "t"
    assert again.queryable_store_name is None
    assert [store.name for store in builder.build()["t"].stores] == ["t"]


def test_a_topology_made_by_hand_must_have_the_stores() -> None:
    """What the builder sees to is checked when a plan is made."""
    source = TableSourceNode(name="t", topic="t", key=StrSerde(), value=StrSerde())
    group = TableGroupNode(name="g", parents=("t",), mapper=lambda key, value: (value, key))
    with pytest.raises(InvariantError, match="needs old values that 't' lacks"):
        plan(TopologyGraph((source, group)))
