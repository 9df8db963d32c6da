"""Rule: records that are already in the lane of their key do not travel again."""

from __future__ import annotations

from dataclasses import replace

from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.options import PlanOptions
from mustela.planner.placement import Placement, place

__all__ = ["keep_known_keys"]


def keep_known_keys(flow: Flow, _options: PlanOptions) -> Flow:
    """Remove each shuffle by a key by which the records were sent before and which they still have.

    So ``counts.to_stream().group_by_key().reduce(...)`` runs where the counts are made.
    """
    placed: dict[StepId, Placement] = {}
    steps: list[FlowStep] = []
    for step in flow:
        inputs = tuple(_kept(edge, placed) for edge in step.inputs)
        steps.append(replace(step, inputs=inputs))
        placed[step.id] = place(steps[-1], placed)
    return replace(flow, steps=tuple(steps))


def _kept(edge: Edge, placed: dict[StepId, Placement]) -> Edge:
    known = placed[edge.source].keyed_by
    if edge.shuffle is None or known is None or known != edge.shuffle.key:
        return edge
    return replace(edge, shuffle=None)
