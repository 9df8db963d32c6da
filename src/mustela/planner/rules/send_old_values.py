"""Rule: changes carry the value before where a step behind can make use of it."""

from __future__ import annotations

from dataclasses import replace

from mustela.planner.flow import Flow, FlowStep, StepId
from mustela.planner.options import PlanOptions
from mustela.topology.aggregate import AggregateNode
from mustela.topology.source import TableSourceNode
from mustela.topology.table import TableFilterNode, TableMapValuesNode

__all__ = ["send_old_values"]


def send_old_values(flow: Flow, _options: PlanOptions) -> Flow:
    """Ask for old values where they are at hand, as Kafka Streams does.

    A table filter asks what it reads: with old values it passes no deletion on for a row that was
    never in its result. Who has a store can answer; a filter or a mapping without a store asks on;
    a table without a store says no, since nobody is worth a store of its own for that.
    """
    steps = flow.by_id()
    wanted: set[StepId] = set()
    for step in flow:
        if isinstance(step.node, TableFilterNode) and _ask(step.inputs[0].source, steps, wanted):
            wanted.add(step.id)
    return replace(
        flow,
        steps=tuple(replace(step, wants_old=True) if step.id in wanted else step for step in flow),
    )


def _ask(asked: StepId, steps: dict[StepId, FlowStep], wanted: set[StepId]) -> bool:
    """Ask a step to send old values; return whether it will."""
    step = steps[asked]
    match step.node:
        case AggregateNode():
            can = True
        case TableSourceNode() | TableFilterNode() | TableMapValuesNode() if step.node.stores:
            can = True
        case TableFilterNode() | TableMapValuesNode():
            can = _ask(step.inputs[0].source, steps, wanted)
        case _:
            can = False
    if can:
        wanted.add(asked)
    return can
