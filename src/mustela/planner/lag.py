"""How far behind event time the rows of each step may be stamped."""

from __future__ import annotations

from dataclasses import replace

from mustela.planner.flow import Flow, FlowStep, StepId

__all__ = ["hand_down_lag"]


def hand_down_lag(flow: Flow) -> Flow:
    """Return the flow with each step's `FlowStep.lag_ms`.

    A window that is passed on when it closes has a timestamp inside the window, which is behind the
    watermark by then. For later steps event time is earlier by that much; otherwise every window
    would come too late.
    """
    behind: dict[StepId, int] = {}
    steps: list[FlowStep] = []
    for step in flow:
        lag = max((behind[edge.source] for edge in step.inputs), default=0)
        held = step.node.lag_ms if step.role in {"whole", "merge"} else 0
        behind[step.id] = lag + held
        steps.append(replace(step, lag_ms=lag) if lag else step)
    return replace(flow, steps=tuple(steps))
