"""What can be checked in a topology before it runs."""

from __future__ import annotations

from collections.abc import Iterable

from mustela.api.errors import StoreAccessError
from mustela.state.interfaces import StoreSpec
from mustela.topology.asked_stores import AskedStore
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.node import Node
from mustela.topology.processor import ProcessorNode
from mustela.topology.source import TableSourceNode

__all__ = ["check_asked_stores", "unnamed_stateful_steps"]


def check_asked_stores(topology: Iterable[Node]) -> None:
    """Check that processors have the stores that their code asks for.

    Args:
        topology: A `Topology`, or its nodes.

    Raises:
        StoreAccessError: If one asks for a store that its step does not declare.
    """
    nodes = list(topology)
    everywhere = {store.name for node in nodes for store in _whole(node)}
    for node in nodes:
        if not isinstance(node, ProcessorNode):
            continue
        known = {
            "stores": {*everywhere, *(store.name for store in node.stores)},
            "reads": set(node.reads_any),
        }
        for asked in node.asks:
            if asked.name not in known[asked.option]:
                raise _not_said(node, asked, known[asked.option])


def _whole(node: Node) -> tuple[StoreSpec, ...]:
    """Return the stores of which every host has a full copy, which any processor may read."""
    return node.stores if isinstance(node, GlobalTableNode) else ()


def _not_said(node: ProcessorNode, asked: AskedStore, known: Iterable[str]) -> StoreAccessError:
    said = f'process(..., {asked.option}=["{asked.name}"])'
    if asked.option == "stores":
        why = "a step's stores decide the lane of its records, so they must be declared"
        fix = f"connect it: {said}, or name it in stores() of the class"
    else:
        why = "what a step reads from other lanes must be known before the epoch begins"
        fix = f"declare it: {said}"
    return StoreAccessError(
        f"step {node.name!r} asks for store {asked.name!r} but does not declare it",
        evidence={"asks": asked.at, f"its {asked.option}": ", ".join(sorted(known)) or "none"},
        at=node.origin,
        why=why,
        fix=fix,
        fields={"step": node.name, "store": asked.name},
    )


def unnamed_stateful_steps(topology: Iterable[Node]) -> list[Node]:
    """Return the steps whose store is named after the step's place in the program.

    Such a name changes when the program around the step changes, and then the store starts empty.
    An application refuses such steps unless ``naming.strict`` is false. A table's store is named
    after its topic, which does not move.

    Args:
        topology: A `Topology`, or nodes: those of the topology and those of a plan's steps, which
            may keep rows where the topology does not say so. Of several with one name the first
            counts.
    """
    found: dict[str, Node] = {}
    for node in topology:
        if not node.stores or isinstance(node, TableSourceNode | GlobalTableNode):
            continue
        if not (node.explicit_name or getattr(node, "explicit_store", False)):
            found.setdefault(node.name, node)
    return list(found.values())
