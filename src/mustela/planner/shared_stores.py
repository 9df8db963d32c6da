"""Steps that share a store stay in one stage, and records between them do not travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mustela.api.errors import StorePathError
from mustela.plan.together import sharing, with_between
from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.placement import Placement, lifted, place
from mustela.serdes.values import ValueSerde
from mustela.topology.node import Arrival
from mustela.topology.processor import ProcessorNode

__all__ = ["keep_together", "place_all"]


def keep_together(flow: Flow) -> Flow:
    """Return the flow in which no record travels between steps that share a store.

    What a processor forwards to another one that shares a store, through any steps, stays in the
    key group of the record that reached the first, even under another key, just as it stays in its
    task in Kafka Streams. Records from elsewhere travel to the lane of their key. A table whose
    store a processor uses forwards each change, so that both see the records in turn.

    Raises:
        StorePathError: If a step between them sends records to the lane of another key.
    """
    shared = _sharing(flow)
    if not shared:
        return flow
    inputs = {step.id: [edge.source for edge in step.inputs] for step in flow}
    sets = with_between(shared, inputs)
    set_of = {step: number for number, steps in enumerate(sets) for step in steps}
    own = {step for steps in shared for step in steps}
    kept = [
        _kept(step, sets[set_of[step.id]], flow, each_change=step.id in own)
        if step.id in set_of
        else step
        for step in flow
    ]
    return replace(flow, steps=tuple(kept))


def place_all(flow: Flow) -> dict[StepId, Placement]:
    """Return where each step runs: with the steps that share its stores, else as early as possible.

    Steps are also moved later, to where their rows are needed.
    """
    shared = _sharing(flow)
    placed, floors = _together(flow, shared)
    floors |= lifted(flow.steps, placed, {step for steps in shared for step in steps})
    return _placed(flow, floors)


def _together(
    flow: Flow, shared: list[set[StepId]]
) -> tuple[dict[StepId, Placement], dict[StepId, int]]:
    """Return where steps run if those that share stores run together, and the lowest stages."""
    floors: dict[StepId, int] = {}
    while True:
        placed = _placed(flow, floors)
        low = {
            step: top
            for steps in shared
            for top in [max(placed[step].stage for step in steps)]
            for step in steps
            if placed[step].stage < top
        }
        if not low:
            return placed, floors
        floors.update(low)


def _placed(flow: Flow, floors: Mapping[StepId, int]) -> dict[StepId, Placement]:
    placed: dict[StepId, Placement] = {}
    for step in flow:
        placed[step.id] = place(step, placed, floors.get(step.id, 0))
    return placed


def _sharing(flow: Flow) -> list[set[StepId]]:
    whole = {step.id: step.node for step in flow if step.role in {"whole", "merge"}}
    return sharing(whole)


def _kept(step: FlowStep, together: set[StepId], flow: Flow, *, each_change: bool) -> FlowStep:
    by_id = flow.by_id()
    edges: list[Edge] = []
    for edge in step.inputs:
        inside = edge.source in together
        if inside and edge.shuffle is not None:
            if not isinstance(step.node, ProcessorNode):
                raise _path_error(step, together, by_id)
            edges.append(replace(edge, shuffle=None))
        elif not inside and edge.shuffle is None:
            key = _key_of(together, by_id)
            arrival = Arrival(key=key, keep_null_keys=True)
            edges.append(replace(edge, shuffle=arrival))
        else:
            edges.append(edge)
    table = not isinstance(step.node, ProcessorNode) and each_change
    return replace(step, inputs=tuple(edges), each_change=step.each_change or table)


def _key_of(together: set[StepId], by_id: Mapping[StepId, FlowStep]):
    nodes = (by_id[step].node for step in by_id if step in together)
    processors = [node for node in nodes if isinstance(node, ProcessorNode)]
    return next((node.key for node in processors if node.key), None) or ValueSerde(sort_keys=True)


def _path_error(
    step: FlowStep, together: set[StepId], by_id: Mapping[StepId, FlowStep]
) -> StorePathError:
    users = [
        name for name in by_id if name in together and isinstance(by_id[name].node, ProcessorNode)
    ]
    first, last = by_id[users[0]].node, by_id[users[-1]].node
    return StorePathError(
        f"records travel at step {step.node.name!r}, which is between steps that share a store",
        evidence={"first": first.origin or first.name, "last": last.origin or last.name},
        at=step.node.origin,
        why="a store belongs to one stage, and a step that sends records to the lane of "
        "another key begins a later one",
        fix="give the later processor its own store, or pass what it needs in its records",
        fields={"step": step.node.name, "first": first.name, "last": last.name},
    )
