"""Rule: a join looks rows up where the table keeps them, or in its own copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.options import PlanOptions
from mustela.planner.placement import Placement
from mustela.planner.shared_stores import place_all
from mustela.state.interfaces import StoreSpec
from mustela.topology.foreign_key import ForeignKeyMatchNode
from mustela.topology.node import Node
from mustela.topology.settle import SettleNode
from mustela.topology.stream_table_join import StreamTableJoinNode
from mustela.topology.table import TableFilterNode, TableMapValuesNode
from mustela.topology.table_join import TableJoinNode
from mustela.topology.table_lookup import TableLookup, TableView

__all__ = ["materialize_lookup", "with_copies"]


def with_copies(node: Node) -> Node:
    """Return a join that keeps copies of its tables, which is always right; others stay."""
    match node:
        case StreamTableJoinNode():
            return replace(node, table=TableLookup(store=node.copy))
        case TableJoinNode(copies=(left, right)):
            return replace(node, sides=(TableLookup(store=left), TableLookup(store=right)))
        case _:
            return node


def materialize_lookup(flow: Flow, _options: PlanOptions) -> Flow:
    """Tell each join where the rows of its tables are.

    A table in the join's own stage is looked up in its store. A filter or a mapping without a store
    is a view: its functions are applied to the rows of the store before it. If the table is in an
    earlier stage, because the stream got another key on its way, or has no store that can be read
    by key, its changes travel to the join, which keeps the rows in its own store. A join by foreign
    key does the same, unless the right table's own store holds the same rows.
    """
    placed = place_all(flow)
    owners = Counter(store.name for step in flow if step.role for store in step.node.stores)
    shared = {name for name, count in owners.items() if count > 1}
    steps: dict[StepId, FlowStep] = {}
    for step in flow:
        node = _told(step.node, placed[step.id], steps)
        if isinstance(node, ForeignKeyMatchNode) and node.table and node.table.store.name in shared:
            node = replace(node, table=None)  # a processor may write there and report to nobody
        steps[step.id] = replace(step, node=node)
    return replace(flow, steps=tuple(steps.values()))


def _told(node: Node, placement: Placement, steps: Mapping[StepId, FlowStep]) -> Node:
    match node:
        case StreamTableJoinNode():
            found = _lookup(placement.inputs[1], node.copy, steps)
            if found.store.traits.versioned and found.views:
                return node  # the functions' result for each version has to be stored itself
            return replace(node, table=found)
        case TableJoinNode(copies=(left, right)):
            first, second = placement.inputs
            return replace(node, sides=(_lookup(first, left, steps), _lookup(second, right, steps)))
        case ForeignKeyMatchNode():
            found = _lookup(placement.inputs[1], node.rows, steps)
            return replace(node, table=found) if _holds_rows_of(found, node) else node
        case _:
            return node


def _holds_rows_of(found: TableLookup, node: ForeignKeyMatchNode) -> bool:
    """Whether a store holds right rows exactly as the join itself would."""
    store, own = found.store, node.rows
    same = all(
        getattr(store, name) == getattr(own, name)
        for name in (
            "kind",
            "key_serde",
            "value_serde",
            "with_headers",
            "logged",
            "max_entries",
            "ttl_ms",
            "row_versions",
        )
    )
    return same and not found.own and not found.views


def _lookup(edge: Edge, copy: StoreSpec, steps: Mapping[StepId, FlowStep]) -> TableLookup:
    views: list[TableView] = []
    while edge.shuffle is None:
        step = steps[edge.source]
        store: StoreSpec | None = getattr(step.node, "store", None)
        if store is not None:
            if not (store.traits.by_key or store.traits.versioned):
                break
            return TableLookup(store=store, views=tuple(reversed(views)), own=False)
        match step.node:
            case TableFilterNode() | TableMapValuesNode():
                views.append(step.node)
            case SettleNode():
                pass
            case _:
                break
        edge = step.inputs[0]
    return TableLookup(store=copy)
