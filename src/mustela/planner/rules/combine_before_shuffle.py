"""Rule: partial results travel instead of records if the order of records does not matter."""

from __future__ import annotations

from dataclasses import replace

from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.options import PlanOptions
from mustela.state.interfaces import StoreSpec
from mustela.topology.aggregate import AggregateNode
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["combine_before_shuffle"]


def combine_before_shuffle(flow: Flow, options: PlanOptions) -> Flow:
    """Fold records by key where they are, send the partial results, and merge them there.

    Only for counts and for folds that the user declared combinable, only if records travel, and
    only with one change per key and epoch: with ``emit = every``, and if a join looks the table up
    as of a moment, each record must be seen. In windows only by the watermark.
    """
    if options.emit != "barrier":
        return flow
    renamed: dict[StepId, StepId] = {}
    steps: list[FlowStep] = []
    for old in flow:
        edges = (replace(e, source=renamed.get(e.source, e.source)) for e in old.inputs)
        step = replace(old, inputs=tuple(edges))
        if _can_combine(step, options):
            combine, merge = _split(step)
            steps += [combine, merge]
            renamed[step.id] = merge.id
        else:
            steps.append(step)
    return replace(flow, steps=tuple(steps))


def _can_combine(step: FlowStep, options: PlanOptions) -> bool:
    windowed = isinstance(step.node, WindowAggregateNode)
    return (
        isinstance(step.node, AggregateNode | WindowAggregateNode)
        and (not windowed or options.event_time == "watermark")
        and step.node.combinable
        and step.role == "whole"
        and not step.each_change
        and step.node.store.cached is not False
        and not _is_timed(step.node.store)
        and step.inputs[0].shuffle is not None
    )


def _is_timed(store: StoreSpec) -> bool:
    """Whether each record must be joined with the row that exists at its own time."""
    return store.ttl_ms is not None and store.ttl_by == "event_time"


def _split(step: FlowStep) -> tuple[FlowStep, FlowStep]:
    edge = step.inputs[0]
    assert edge.shuffle is not None, step.node.name
    combine = FlowStep(node=step.node, role="combine", inputs=(Edge(source=edge.source),))
    # Records that may be late for their window travel separately, and are judged by their order.
    ordered = isinstance(step.node, WindowAggregateNode)
    travels = Edge(source=combine.id, shuffle=replace(edge.shuffle, ordered=ordered))
    return combine, replace(step, role="merge", inputs=(travels,))
