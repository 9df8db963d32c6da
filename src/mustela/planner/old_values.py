"""Which steps send the old value with each change: those asked, and those that they must ask."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from mustela.errors import InvariantError
from mustela.planner.flow import Flow, FlowStep, StepId

__all__ = ["answer_old_values", "ask", "with_old_values"]


def answer_old_values(flow: Flow) -> Flow:
    """Return the flow with old values wherever a step needs them.

    Raises:
        InvariantError: If a table that is asked has neither a store nor parents to ask.
    """
    steps = flow.by_id()
    wanted: set[StepId] = set()
    for step in flow:
        if step.role is None:
            continue
        for edge, asks in zip(step.inputs, step.node.asks_old, strict=False):
            if asks and not ask(edge.source, steps, wanted):
                msg = f"step {step.node.name!r} needs old values that {edge.source[0]!r} lacks"
                raise InvariantError(msg)
    return with_old_values(flow, wanted)


def ask(asked: StepId, steps: dict[StepId, FlowStep], wanted: set[StepId]) -> bool:
    """Ask a step to send old values; return whether it will.

    Args:
        asked: The step.
        steps: All steps.
        wanted: The steps that will; those that agree are added.
    """
    step = steps[asked]
    if getattr(step.node, "store", None) is None:
        willing = step.node.passes_old and bool(step.inputs)
        if not willing or not all(ask(edge.source, steps, wanted) for edge in step.inputs):
            return False
    wanted.add(asked)
    return True


def with_old_values(flow: Flow, wanted: Set[StepId]) -> Flow:
    """Return the flow in which the ``wanted`` steps send old values, too."""
    return replace(
        flow,
        steps=tuple(replace(step, wants_old=True) if step.id in wanted else step for step in flow),
    )
