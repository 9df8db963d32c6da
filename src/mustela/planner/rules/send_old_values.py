"""Rule: changes carry the old value if a later step can make use of it."""

from __future__ import annotations

from mustela.planner.flow import Flow, FlowStep, StepId
from mustela.planner.old_values import ask, with_old_values
from mustela.planner.options import PlanOptions
from mustela.topology.foreign_key import ForeignKeyMatchNode
from mustela.topology.suppress import SuppressNode
from mustela.topology.table import TableFilterNode

__all__ = ["send_old_values"]


def send_old_values(flow: Flow, _options: PlanOptions) -> Flow:
    """Ask for old values where they are available, as Kafka Streams does.

    A table filter asks its input: with old values it passes on no deletion for a row that was never
    in its result. A suppression asks, and a join by foreign key asks its right side: then a filter
    with its own store passes no such deletion on to them, which would be a row of their result. A
    step with a store can answer; a filter or a mapping without a store asks its own input; a table
    without a store declines, because this alone is not worth a store. Steps that cannot do without
    old values have them before any rule: see `mustela.planner.old_values`.
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
    """Ask an input of a step for old values if a filter would then pass on fewer deletions.

    If the input has none, nobody who was asked on the way sends any.
    """
    asked: set[StepId] = set()
    answers = ask(step.inputs[number].source, steps, asked)
    if answers and any(isinstance(steps[one].node, TableFilterNode) for one in asked):
        wanted |= asked
