"""Rule: changes carry the value before where a step behind can make use of it."""

from __future__ import annotations

from mustela.planner.flow import Flow, StepId
from mustela.planner.old_values import ask, with_old_values
from mustela.planner.options import PlanOptions
from mustela.topology.table import TableFilterNode

__all__ = ["send_old_values"]


def send_old_values(flow: Flow, _options: PlanOptions) -> Flow:
    """Ask for old values where they are at hand, as Kafka Streams does.

    A table filter asks what it reads: with old values it passes no deletion on for a row that was
    never in its result. Who has a store can answer; a filter or a mapping without a store asks on;
    a table without a store says no, since nobody is worth a store of its own for that. Steps that
    cannot do without old values have them before any rule: see `mustela.planner.old_values`.
    """
    steps = flow.by_id()
    wanted: set[StepId] = set()
    for step in flow:
        if isinstance(step.node, TableFilterNode) and ask(step.inputs[0].source, steps, wanted):
            wanted.add(step.id)
    return with_old_values(flow, wanted)
