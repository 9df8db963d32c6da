"""From the logical topology to the first, most careful flow."""

from __future__ import annotations

from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.rules.materialize_lookup import with_copies
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.graph import Topology
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["lower"]


def lower(topology: Topology) -> Flow:
    """Return a flow in which records travel to the lane of their key before each stateful step.

    A topic that is read as a table becomes two: reading it, and the table in the lane of each key.
    A join keeps what it has to know of a table in a store of its own.
    """
    output_of: dict[str, StepId] = {}
    steps: list[FlowStep] = []
    for written in topology:
        node = with_copies(written)
        if isinstance(node, GlobalTableNode):
            continue  # no step makes it: engines follow its topic
        if isinstance(node, SourceNode | TableSourceNode):
            steps.append(FlowStep(node=node, role=None))
            output_of[node.name] = steps[-1].id
        inputs = [output_of[parent] for parent in node.parents]
        if isinstance(node, TableSourceNode):
            inputs = [output_of[node.name]]
        if not isinstance(node, SourceNode):
            pairs = zip(inputs, node.arrivals, strict=True)
            edges = tuple(Edge(source=source, shuffle=shuffle) for source, shuffle in pairs)
            steps.append(FlowStep(node=node, inputs=edges))
            output_of[node.name] = steps[-1].id
    return Flow(topology, tuple(steps))
