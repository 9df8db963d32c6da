"""The logical graph: what the user wrote, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mustela.topology.describe import describe
from mustela.topology.fingerprint import fingerprint
from mustela.topology.node import Node

__all__ = ["TopologyGraph"]


@dataclass(frozen=True, slots=True)
class TopologyGraph:
    """All nodes of an application, parents before children.

    Attributes:
        nodes: The nodes in the order they were written.
    """

    nodes: tuple[Node, ...]
    _by_name: dict[str, Node] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the nodes and check that each parent comes before its children."""
        by_name: dict[str, Node] = {}
        for node in self.nodes:
            for parent in node.parents:
                assert parent in by_name, f"{node.name} reads {parent}, which is not before it"
            assert node.name not in by_name, f"two nodes are named {node.name}"
            by_name[node.name] = node
        object.__setattr__(self, "_by_name", by_name)

    def __getitem__(self, name: str) -> Node:
        """Return the node of that name."""
        return self._by_name[name]

    def __iter__(self) -> Iterator[Node]:
        """Iterate over the nodes, parents first."""
        return iter(self.nodes)

    def children(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read ``name``'s output, in the order they were written."""
        return tuple(node for node in self.nodes if name in node.parents)

    @property
    def fingerprint(self) -> str:
        """A hash of the shape; see `mustela.topology.fingerprint`."""
        return fingerprint(self.nodes)

    def describe(self) -> str:
        """Return the topology as text, in Kafka Streams' form.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> builder.stream("lines", key=str, value=str).to("copies")
            >>> print(builder.build().describe())
            Topologies:
               Sub-topology: 0
                Source: lines (topics: [lines])
                  --> lines.to.copies
                Sink: lines.to.copies (topic: copies)
                  <-- lines
            <BLANKLINE>
            <BLANKLINE>
        """
        return describe(self.nodes)
