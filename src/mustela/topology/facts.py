"""A node in plain values, for documents that programs read."""

from __future__ import annotations

from typing import Any

from mustela.topology.node import Node

__all__ = ["node_facts"]


def node_facts(node: Node) -> dict[str, Any]:
    """Return name, kind, parents, stores, topics and place of a node.

    Example:
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("lines", key=str, value=str).to("copies")
        >>> facts = node_facts(builder.build()["lines.to.copies"])
        >>> facts["kind"], facts["parents"], facts["topic"]
        ('Sink', ['lines'], 'copies')
    """
    facts: dict[str, Any] = {
        "name": node.name,
        "kind": type(node).__name__.removesuffix("Node"),
        "parents": list(node.parents),
        "stores": [store.name for store in node.stores],
        "explicit_name": node.explicit_name,
        "at": None if node.origin is None else str(node.origin),
    }
    for name in ("topics", "topic"):
        value = getattr(node, name, None)
        if isinstance(value, str):
            facts[name] = value
        elif isinstance(value, tuple):
            facts[name] = list(value)  # pyright: ignore[reportUnknownArgumentType]
    return facts
