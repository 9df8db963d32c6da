"""Rule: functions that are one expression without effects run over columns, not row by row."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, cast

from mustela.planner.expressions import FUNCTIONS, expression_of
from mustela.planner.flow import Flow, FlowStep
from mustela.planner.options import PlanOptions

__all__ = ["inline_expressions"]


def inline_expressions(flow: Flow, _options: PlanOptions) -> Flow:
    """Replace such functions by expressions that are computed for a whole batch at once.

    So ``filter(lambda key, order: order.total >= 100)`` calls nothing.
    """
    return replace(flow, steps=tuple(map(_inlined, flow.steps)))


def _inlined(step: FlowStep) -> FlowStep:
    found: dict[str, Any] = {}
    for name in {field.name for field in fields(step.node)}.intersection(FUNCTIONS):
        given = getattr(step.node, name)
        if isinstance(given, tuple):
            several = cast("tuple[Any, ...]", given)
            found[name] = tuple(expression_of(one) or one for one in several)
        elif (expression := expression_of(given)) is not None:
            found[name] = expression
    return replace(step, node=replace(step.node, **found)) if found else step
