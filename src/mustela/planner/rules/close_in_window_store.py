"""Rule: windows that are held back until they close wait in the store that has them already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mustela.api.window_specs import SessionWindowSpec, TimeWindowSpec
from mustela.planner.flow import Flow, FlowStep, StepId
from mustela.planner.options import PlanOptions
from mustela.state.kinds.buffer import HEADERS_FORMAT
from mustela.topology.suppress import SuppressNode
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["close_in_window_store"]


def close_in_window_store(flow: Flow, options: PlanOptions) -> Flow:
    """Make an aggregation pass on its windows when they close, instead of a buffer after it.

    The last value of a window is in the aggregation's own store, so a second copy of every change,
    and of its deletion, need be neither stored nor logged. The buffer's store then only holds what
    the window store does not have: the headers of each window's last record, if there are any.

    Only by the watermark, where windows close after the rows of an epoch; only for time windows and
    for sessions that are not kept once they have closed, because the store would have to find the
    others among those; and only if no other step reads the changes.
    """
    if options.event_time != "watermark":
        return flow
    readers: dict[StepId, int] = {}
    for step in flow:
        for edge in step.inputs:
            readers[edge.source] = readers.get(edge.source, 0) + 1
    steps = flow.by_id()
    closing = {
        step.inputs[0].source: step
        for step in flow
        if isinstance(step.node, SuppressNode) and _fits(step, step.node, steps, readers)
    }
    gone = {step.id: source for source, step in closing.items()}
    kept = (step for step in flow if step.id not in gone)
    return replace(flow, steps=tuple(_rewired(step, closing, gone) for step in kept))


def _fits(
    step: FlowStep,
    node: SuppressNode,
    steps: Mapping[StepId, FlowStep],
    readers: Mapping[StepId, int],
) -> bool:
    """Say whether a step only waits for the windows of the aggregation that it reads."""
    (edge,) = step.inputs
    made = steps[edge.source].node
    return (
        isinstance(made, WindowAggregateNode)
        and _waits_well(made)
        and made.emit == "update"
        and edge.shuffle is None
        and readers[edge.source] == 1
        and node.until == "window_closes"
        and node.wait_ms == made.windows.closes_at(0, 0)
        and node.max_records is None
        and node.max_bytes is None
        # Rows that wait must be kept as long as they would have been in the buffer.
        and (made.store.logged or not node.buffer.logged)
    )


def _waits_well(made: WindowAggregateNode) -> bool:
    """Say whether a store finds those that close without looking at many others."""
    if isinstance(made.windows, SessionWindowSpec):
        kept_ms = made.store.retention_ms
        return kept_ms is not None and kept_ms < made.windows.closes_at(0, 0)
    return isinstance(made.windows, TimeWindowSpec)


def _rewired(
    step: FlowStep, closing: Mapping[StepId, FlowStep], gone: Mapping[StepId, StepId]
) -> FlowStep:
    inputs = tuple(replace(edge, source=gone.get(edge.source, edge.source)) for edge in step.inputs)
    waiting = closing.get(step.id)
    if waiting is None:
        return replace(step, inputs=inputs)
    assert isinstance(step.node, WindowAggregateNode), step.node.name
    assert isinstance(waiting.node, SuppressNode), waiting.node.name
    headers = replace(waiting.node.buffer, format_version=HEADERS_FORMAT)
    node = replace(step.node, emit="close", headers=headers)
    return replace(step, node=node, inputs=inputs, wants_old=waiting.wants_old)
