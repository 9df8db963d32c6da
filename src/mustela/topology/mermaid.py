"""A topology as a Mermaid flowchart, which many Markdown viewers draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mustela.topology.facts import node_facts
from mustela.topology.node import Node

__all__ = ["mermaid"]


def mermaid(nodes: Iterable[Node]) -> str:
    r"""Return the flowchart: topics, steps and stores, and what flows between them.

    Args:
        nodes: A `Topology`, or its nodes.

    Example:
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("lines", key=str, value=str).to("copies")
        >>> print(mermaid(builder.build()), end="")
        flowchart LR
            n0["lines"]
            t1(["lines"])
            t1 --> n0
            n2["lines.to.copies"]
            n0 --> n2
            t3(["copies"])
            n2 --> t3
    """
    numbers: dict[tuple[str, str], str] = {}
    lines = ["flowchart LR"]

    def number(kind: str, name: str, shape: tuple[str, str]) -> str:
        if (kind, name) not in numbers:
            known = numbers[kind, name] = f"{kind}{len(numbers)}"
            lines.append(f'    {known}{shape[0]}"{_escaped(name)}"{shape[1]}')
        return numbers[kind, name]

    for node in nodes:
        facts = node_facts(node)
        here = number("n", node.name, ("[", "]"))
        lines.extend(f"    {numbers['n', parent]} --> {here}" for parent in node.parents)
        for topic in _topics(facts):
            there = number("t", topic, ("([", "])"))
            ends = (here, there) if facts["kind"] == "Sink" else (there, here)
            lines.append(f"    {ends[0]} --> {ends[1]}")
        lines.extend(
            f"    {here} -.- {number('s', store, ('[(', ')]'))}" for store in facts["stores"]
        )
    return "\n".join(lines) + "\n"


def _topics(facts: dict[str, Any]) -> list[str]:
    topic = facts.get("topic")
    return list(facts.get("topics", ())) or ([topic] if isinstance(topic, str) else [])


def _escaped(text: str) -> str:
    """Return a text as Mermaid needs it between quotation marks, on one line."""
    coded = "".join(f"#{ord(char)};" if char in '"#<>&;`' else char for char in text)
    return " ".join(coded.split())
