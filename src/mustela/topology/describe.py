"""A topology as text, in the form of Kafka Streams' own ``Topology.describe()``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mustela.topology.global_table import GlobalTableNode
from mustela.topology.node import Node
from mustela.topology.scheduled import ScheduledSourceNode
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["describe", "sub_topologies"]


def describe(nodes: Iterable[Node]) -> str:
    r"""Return the text form of a topology.

    Nodes that share records or stores form a sub-topology. Inside one, the nodes that feed most
    others come first; ties are ordered by name.

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
        f"  Sub-topology: {number}{_told(part)}\n{_describe_part(part)}\n"
        for number, part in enumerate(parts)
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


@dataclass(frozen=True, slots=True)
class _Row:
    """What is printed of a node."""

    name: str
    head: str
    parents: tuple[str, ...]
    is_sink: bool = False


def _told(part: Sequence[Node]) -> str:
    whole = all(isinstance(node, GlobalTableNode) for node in part)
    return " for global store (will not generate tasks)" if whole else ""


def _describe_part(part: Sequence[Node]) -> str:
    rows = [row for node in part for row in _rows(node)]
    children: dict[str, list[str]] = {row.name: [] for row in rows}
    for row in rows:
        for parent in dict.fromkeys(row.parents):
            children[parent].append(row.name)
    reach: dict[str, set[str]] = {}
    for row in reversed(rows):
        reach[row.name] = {row.name}.union(*(reach[child] for child in children[row.name]))

    def rank(name: str) -> tuple[int, str]:
        return -len(reach[name]), name

    lines: list[str] = []
    for row in sorted(rows, key=lambda row: rank(row.name)):
        lines.append(f"    {row.head}")
        if not row.is_sink:
            lines.append(f"      --> {_names(sorted(children[row.name], key=rank))}")
        if row.parents:
            lines.append(f"      <-- {_names(sorted(set(row.parents), key=rank))}")
    return "".join(f"{line}\n" for line in lines)


def _rows(node: Node) -> list[_Row]:
    match node:
        case SourceNode(name=name, pattern=re.Pattern(pattern=pattern)):
            return [_Row(name, f"Source: {name} (topics: {pattern})", ())]
        case SourceNode(name=name):
            return [_Row(name, f"Source: {name} (topics: [{', '.join(sorted(node.topics))}])", ())]
        case ScheduledSourceNode(name=name, schedule=schedule):
            return [_Row(name, f"Source: {name} (schedule: {schedule.told})", ())]
        case TableSourceNode(name=name) | GlobalTableNode(name=name):
            # Like Kafka Streams, show the topic and the table that is made from it as two nodes.
            source = f"{name}.source"
            head = f"Source: {source} (topics: [{node.topic}])"
            return [_Row(source, head, ()), _processor(node, (source,))]
        case SinkNode(name=name, topic=str(topic)):
            return [_Row(name, f"Sink: {name} (topic: {topic})", node.parents, is_sink=True)]
        case SinkNode(name=name, topic=extractor):
            chosen = getattr(extractor, "__qualname__", type(extractor).__qualname__)
            head = f"Sink: {name} (extractor class: {chosen})"
            return [_Row(name, head, node.parents, is_sink=True)]
        case _:
            return [_processor(node, node.parents)]


def _processor(node: Node, parents: tuple[str, ...]) -> _Row:
    stores = ", ".join(sorted(store.name for store in node.stores))
    return _Row(node.name, f"Processor: {node.name} (stores: [{stores}])", parents)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
