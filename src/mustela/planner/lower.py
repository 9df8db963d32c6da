"""From the logical topology to the first, most careful flow."""

from __future__ import annotations

from dataclasses import replace

from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.rules.materialize_lookup import with_copies
from mustela.planner.turns import turns
from mustela.topology.global_table import GlobalJoinNode, GlobalTableNode
from mustela.topology.graph import TopologyGraph
from mustela.topology.node import Node
from mustela.topology.processor import ChildNode, GlobalStore, OutputNode, ProcessorNode
from mustela.topology.routing import RepartitionNode
from mustela.topology.source import SourceNode, TableSourceNode
from mustela.topology.stream_join import StreamJoinNode
from mustela.topology.stream_table_join import StreamTableJoinNode

__all__ = ["lower"]


def lower(topology: TopologyGraph) -> Flow:
    """Return a flow in which records travel to the lane of their key before each stateful step.

    A topic that is read as a table becomes two steps: reading it, and the table in the lane of each
    key. A join keeps its own copy of a table.
    """
    output_of: dict[str, StepId] = {}
    steps: list[FlowStep] = []
    nodes = [_looking_ahead(with_copies(written), topology) for written in topology]
    turns_of = turns(nodes)
    for node in nodes:
        if isinstance(node, GlobalTableNode):
            continue  # no step makes it: engines read its topic
        if isinstance(node, SourceNode | TableSourceNode):
            steps.append(FlowStep(node=node, role=None))
            output_of[node.name] = steps[-1].id
        parents = [output_of[parent] for parent in node.parents]
        inputs = [_own_part(node, parent, output_of, steps) for parent in parents]
        if isinstance(node, TableSourceNode):
            inputs = [output_of[node.name]]
        if not isinstance(node, SourceNode):
            pairs = zip(inputs, node.arrivals, strict=True)
            edges = tuple(Edge(source=source, shuffle=shuffle) for source, shuffle in pairs)
            steps.append(FlowStep(node=node, inputs=edges, turns=turns_of.get(node.name, ())))
            output_of[node.name] = steps[-1].id
    return Flow(topology, tuple(steps))


def _looking_ahead(node: Node, topology: TopologyGraph) -> Node:
    """Return a step with what it must know about the steps after it."""
    if isinstance(node, RepartitionNode) and not node.null_keys:
        return replace(node, null_keys=_joins_null_keys(node.name, topology))
    return _with_children(node, topology) if isinstance(node, ProcessorNode) else node


def _joins_null_keys(name: str, topology: TopologyGraph) -> bool:
    """Say whether a join after a step has results for records without a key."""
    waiting, seen = [name], {name}
    while waiting:
        for reader in topology.children(waiting.pop()):
            joins = isinstance(reader, StreamJoinNode | StreamTableJoinNode | GlobalJoinNode)
            if joins and reader.kind != "inner":
                return True
            if reader.name not in seen:
                seen.add(reader.name)
                waiting.append(reader.name)
    return False


def _with_children(node: ProcessorNode, topology: TopologyGraph) -> Node:
    """Return a processor's step with the names to which its processor may forward."""
    readers = topology.children(node.name)
    names = [reader.name for reader in readers if not isinstance(reader, OutputNode)]
    whole = tuple(
        GlobalStore(table.store, table.plain)
        for table in topology
        if isinstance(table, GlobalTableNode)
    )
    return replace(node, children=tuple(names), global_stores=whole)


def _own_part(
    node: Node, parent: StepId, output_of: dict[str, StepId], steps: list[FlowStep]
) -> StepId:
    """Return what a step reads of another one: only a part, if that is a processor with several."""
    made = next((step for step in steps if step.id == parent), None)
    if made is None or not isinstance(made.node, ProcessorNode) or not made.node.divides:
        return parent
    if isinstance(node, OutputNode):
        return parent
    child = ChildNode(
        name=f"{made.node.name}=>{node.name}",
        parents=(made.node.name,),
        origin=made.node.origin,
        child=node.name,
    )
    if child.name not in output_of:
        steps.append(FlowStep(node=child, inputs=(Edge(source=parent),)))
        output_of[child.name] = steps[-1].id
    return output_of[child.name]
