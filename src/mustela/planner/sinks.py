"""Sinks that write one topic: in which order their rows of one record are written.

Rows of one topic are written in the order of their records, whichever step made them: a reader of
the topic as a table ends with the value of the last record. A topic with one sink costs nothing; a
function that names topics may name the topic of any other sink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.turns import first_turns, made_by
from mustela.topology.sink import SinkNode

__all__ = ["spread_sinks", "with_sink_turns"]


def with_sink_turns(flow: Flow) -> Flow:
    """Return the flow in which sinks of one topic have turns and know the order of their rows."""
    groups = _groups(step.node for step in flow if isinstance(step.node, SinkNode))
    if not groups:
        return flow
    nodes = tuple(flow.topology)
    by_name = {node.name: node for node in nodes}
    turn_of = first_turns(nodes)
    turns: dict[str, tuple[int, int]] = {}
    for group in groups:
        makers: dict[str, int] = {}
        for sink in sorted(group, key=lambda sink: turn_of[sink.name]):
            turn = turn_of[sink.name]
            turns[sink.name] = makers.setdefault(made_by(sink.name, by_name), turn), turn
    behind = flow.up_to(step for step in flow if step.node.name in turns)
    return replace(flow, steps=tuple(_told(step, turns, behind) for step in flow))


def spread_sinks(flow: Flow, stages: Mapping[StepId, int]) -> frozenset[str]:
    """Return the names of the sinks whose topic is written in other stages, too.

    Args:
        flow: The flow.
        stages: The stage of each step.
    """
    return frozenset(
        sink.name
        for group in _groups(step.node for step in flow if isinstance(step.node, SinkNode))
        if len({stages[sink.name, "whole"] for sink in group}) > 1
        for sink in group
    )


def _groups(sinks: Iterable[SinkNode]) -> list[list[SinkNode]]:
    """Group the sinks that may write one topic."""
    by_topic: dict[str, list[SinkNode]] = {}
    for sink in sinks:
        by_topic.setdefault(sink.topic if isinstance(sink.topic, str) else "", []).append(sink)
    if "" in by_topic:
        return [group] if len(group := [s for some in by_topic.values() for s in some]) > 1 else []
    return [group for group in by_topic.values() if len(group) > 1]


def _told(step: FlowStep, turns: Mapping[str, tuple[int, int]], behind: set[StepId]) -> FlowStep:
    if step.id not in behind:
        return step
    inputs = tuple(_ordered(edge) for edge in step.inputs)
    own = turns.get(step.node.name, step.turns) if isinstance(step.node, SinkNode) else step.turns
    return replace(step, inputs=inputs, turns=own, numbers=step.node.gives_several)


def _ordered(edge: Edge) -> Edge:
    if edge.shuffle is None or edge.shuffle.ordered:
        return edge
    return replace(edge, shuffle=replace(edge.shuffle, ordered=True))
