"""Rule: changes carry the value before where a step behind can make use of it."""

from __future__ import annotations

from mustela.planner.flow import Flow, FlowStep, StepId
from mustela.planner.old_values import ask, with_old_values
from mustela.planner.options import PlanOptions
from mustela.topology.foreign_key import ForeignKeyMatchNode
from mustela.topology.suppress import SuppressNode
from mustela.topology.table import TableFilterNode

__all__ = ["send_old_values"]


def send_old_values(flow: Flow, _options: PlanOptions) -> Flow:
    """Ask for old values where they are at hand, as Kafka Streams does.

    A table filter asks what it reads: with old values it passes no deletion on for a row that was
    never in its result. A suppression asks, and a join by foreign key asks its right side: a
    filter with a store of its own passes no such deletion on to them, which would be a row of their
    result. Who has a store can answer; a filter or a mapping without a store asks on;
    a table without a store says no, since nobody is worth a store of its own for that. Steps that
    cannot do without old values have them before any rule: see `mustela.planner.old_values`.
    """
    steps = flow.by_id()
    wanted: set[StepId] = set()
    for step in flow:
        match step.node:
            case TableFilterNode() if ask(step.inputs[0].source, steps, wanted):
                wanted.add(step.id)
            case SuppressNode():
                _ask_if_known(step, 0, steps, wanted)
            case ForeignKeyMatchNode():
                _ask_if_known(step, 1, steps, wanted)
            case _:
                pass
    return with_old_values(flow, wanted)


def _ask_if_known(
    step: FlowStep, number: int, steps: dict[StepId, FlowStep], wanted: set[StepId]
) -> None:
    """Ask an input of a step for old values if a filter would be silent for them.

    Where the input has none, nobody who was asked on the way sends any.
    """
    asked: set[StepId] = set()
    answers = ask(step.inputs[number].source, steps, asked)
    if answers and any(isinstance(steps[one].node, TableFilterNode) for one in asked):
        wanted |= asked
