"""Rule: a stream that is joined with itself is kept once."""

from __future__ import annotations

from dataclasses import replace

from mustela.planner.flow import Flow, FlowStep
from mustela.planner.options import PlanOptions
from mustela.topology.stream_join import StreamJoinNode

__all__ = ["single_store_self_join"]


def single_store_self_join(flow: Flow, _options: PlanOptions) -> Flow:
    """Read the stream once and keep its records only in the left store.

    Only for inner joins: in other joins records wait by side. Not if left records have windows of
    their own, which are kept with them. The results and their order stay the same.
    """
    return replace(flow, steps=tuple(_single(step) for step in flow))


def _single(step: FlowStep) -> FlowStep:
    node = step.node
    if not isinstance(node, StreamJoinNode) or node.kind != "inner" or node.spans is not None:
        return step
    left, right = step.inputs
    if left != right:
        return step
    return replace(step, node=replace(node, single_store=True), inputs=(left,))
