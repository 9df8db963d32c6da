"""What can be asked about a topology before it runs."""

from __future__ import annotations

from collections.abc import Iterable

from mustela.topology.global_table import GlobalTableNode
from mustela.topology.node import Node
from mustela.topology.source import TableSourceNode

__all__ = ["unnamed_stateful_steps"]


def unnamed_stateful_steps(topology: Iterable[Node]) -> list[Node]:
    """Return the steps whose store got its name from the step's place in the program.

    Such a name changes when the program around the step changes, and the new store starts empty.
    An application refuses them unless ``naming.strict`` is false. A table's store has the name of
    its topic, which does not move.

    Args:
        topology: A `Topology`, or nodes: of the topology, and of a plan's steps, which may keep
            rows where the topology does not say so. Of several with one name the first one counts.
    """
    found: dict[str, Node] = {}
    for node in topology:
        if not node.stores or isinstance(node, TableSourceNode | GlobalTableNode):
            continue
        if not (node.explicit_name or getattr(node, "explicit_store", False)):
            found.setdefault(node.name, node)
    return list(found.values())
