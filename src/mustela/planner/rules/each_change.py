"""Rule: a table forwards every change if a later join looks rows up as of a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.options import PlanOptions
from mustela.topology.aggregate import AggregateNode
from mustela.topology.foreign_key import (
    ForeignKeyJoinNode,
    ForeignKeyMatchNode,
    ForeignKeySubscribeNode,
)
from mustela.topology.node import Node
from mustela.topology.settle import SettleNode
from mustela.topology.stream_table_join import StreamTableJoinNode
from mustela.topology.table import TableFilterNode, TableMapValuesNode
from mustela.topology.table_aggregate import TableAggregateNode
from mustela.topology.table_group import TableGroupNode
from mustela.topology.table_join import TableJoinNode

__all__ = ["each_change"]


def each_change(flow: Flow, options: PlanOptions) -> Flow:
    """Make tables forward every change if a stream looks their rows up.

    With ``emit = barrier`` a table reports once per key and epoch what became of the row. A record
    in the middle of the epoch must be joined with the row of its own moment, so the tables between
    the source and such a join forward each change. Their other readers read them through a
    `SettleNode`, which passes on one change for each key and epoch.
    """
    if options.emit != "barrier":
        return flow
    steps = flow.by_id()
    chain: set[StepId] = set()
    for step in flow:
        if isinstance(step.node, StreamTableJoinNode):
            _ask(step.inputs[1].source, steps, chain)
    if not chain:
        return flow
    settled = {
        edge.source
        for step in flow
        for number, edge in enumerate(step.inputs)
        if edge.source in chain and not _reads_each(step, number, chain)
    }
    old = _wanting_old(settled, steps)
    changed: list[FlowStep] = []
    for step in flow:
        inputs = tuple(
            replace(edge, source=_settle_id(edge.source))
            if edge.source in settled and not _reads_each(step, number, chain)
            else edge
            for number, edge in enumerate(step.inputs)
        )
        step_now = replace(step, inputs=inputs)
        if step.id in chain:
            step_now = replace(
                step_now, each_change=True, wants_old=step.wants_old or step.id in old
            )
        changed.append(step_now)
        if step.id in settled:
            changed.append(_settle(step))
    return replace(flow, steps=tuple(changed))


def _table_inputs(node: Node) -> tuple[int, ...]:
    """Return the inputs of a step that reads tables and gives one, change by change."""
    match node:
        case TableFilterNode() | TableMapValuesNode() | TableGroupNode() | TableAggregateNode():
            return (0,)
        case ForeignKeySubscribeNode() | ForeignKeyJoinNode():
            return (0,)
        case TableJoinNode() | ForeignKeyMatchNode():
            return 0, 1
        case _:
            return ()


def _ask(asked: StepId, steps: Mapping[StepId, FlowStep], chain: set[StepId]) -> None:
    if asked in chain:
        return
    chain.add(asked)
    step = steps[asked]
    for number in _table_inputs(step.node):
        _ask(step.inputs[number].source, steps, chain)


def _reads_each(step: FlowStep, number: int, chain: set[StepId]) -> bool:
    """Say whether a step must see every change of that input."""
    if isinstance(step.node, StreamTableJoinNode):
        return number == 1
    if isinstance(step.node, TableAggregateNode):
        return True  # a row of a group is not a row of the table: its changes cannot be combined
    return step.id in chain and number in _table_inputs(step.node)


def _wanting_old(settled: set[StepId], steps: Mapping[StepId, FlowStep]) -> set[StepId]:
    """Return the steps that must send old values so that the settled changes are right.

    A row that appeared and disappeared within an epoch is no change at all; only the old value
    shows that.
    """
    wanting: set[StepId] = set()
    for asked in settled:
        path: list[StepId] = []
        step = steps[asked]
        while True:
            path.append(step.id)
            if step.node.stores or isinstance(step.node, AggregateNode | TableJoinNode):
                wanting.update(path)
                break
            if not isinstance(step.node, TableFilterNode | TableMapValuesNode):
                break
            step = steps[step.inputs[0].source]
    return wanting


def _settle_id(source: StepId) -> StepId:
    return f"{source[0]}/settled", "whole"


def _settle(step: FlowStep) -> FlowStep:
    node = SettleNode(
        name=_settle_id(step.id)[0], parents=(step.node.name,), origin=step.node.origin
    )
    return FlowStep(node=node, inputs=(Edge(source=step.id),), wants_old=step.wants_old)
