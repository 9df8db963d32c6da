"""A topology as text, in the form of Kafka Streams' own ``Topology.describe()``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mustela.topology.node import Node
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["describe", "sub_topologies"]


def describe(nodes: Iterable[Node]) -> str:
    r"""Return the text form of a topology.

    Sub-topologies are what hangs together by records or by stores. Inside one, the nodes that
    feed most others come first, and equals are in the order of their names.

    Args:
        nodes: A `Topology`, or its nodes.

    Example:
        >>> describe(())
        'Topologies:\n   none\n'
    """
    parts = sub_topologies(tuple(nodes))
    if not parts:
        return "Topologies:\n   none\n"
    text = [
        f"  Sub-topology: {number}\n{_describe_part(part)}\n" for number, part in enumerate(parts)
    ]
    return "Topologies:\n " + "".join(text)


def sub_topologies(nodes: Sequence[Node]) -> list[tuple[Node, ...]]:
    """Return the parts of a topology that share neither records nor stores.

    Parts, and the nodes of each, are in the order in which they were written.
    """
    part_of = {node.name: node.name for node in nodes}

    def root(name: str) -> str:
        while part_of[name] != name:
            name = part_of[name]
        return name

    owner: dict[str, str] = {}
    for node in nodes:
        for parent in node.parents:
            part_of[root(node.name)] = root(parent)
        for store in node.stores:
            part_of[root(node.name)] = root(owner.setdefault(store.name, node.name))
    parts: dict[str, list[Node]] = {}
    for node in nodes:
        parts.setdefault(root(node.name), []).append(node)
    return [tuple(part) for part in parts.values()]


def _describe_part(part: Sequence[Node]) -> str:
    children: dict[str, list[str]] = {node.name: [] for node in part}
    for node in part:
        for parent in node.parents:
            children[parent].append(node.name)
    reach: dict[str, set[str]] = {}
    for node in reversed(part):
        reach[node.name] = {node.name}.union(*(reach[child] for child in children[node.name]))

    def rank(name: str) -> tuple[int, str]:
        return -len(reach[name]), name

    lines: list[str] = []
    for node in sorted(part, key=lambda node: rank(node.name)):
        lines.append(f"    {_head(node)}")
        if not isinstance(node, SinkNode):
            lines.append(f"      --> {_names(sorted(children[node.name], key=rank))}")
        if node.parents:
            lines.append(f"      <-- {_names(sorted(node.parents, key=rank))}")
    return "".join(f"{line}\n" for line in lines)


def _head(node: Node) -> str:
    match node:
        case SourceNode():
            return f"Source: {node.name} (topics: [{', '.join(sorted(node.topics))}])"
        case TableSourceNode():
            stores = f", stores: [{node.store.name}]" if node.store else ""
            return f"Source: {node.name} (topics: [{node.topic}]{stores})"
        case SinkNode(topic=str(topic)):
            return f"Sink: {node.name} (topic: {topic})"
        case SinkNode(topic=extractor):
            name = getattr(extractor, "__qualname__", type(extractor).__qualname__)
            return f"Sink: {node.name} (extractor class: {name})"
        case _:
            stores = ", ".join(sorted(store.name for store in node.stores))
            return f"Processor: {node.name} (stores: [{stores}])"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
