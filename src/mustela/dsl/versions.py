"""Which tables are versioned."""

from __future__ import annotations

from mustela.dsl.registry import Registry
from mustela.state.interfaces import StoreSpec
from mustela.topology.table import TableFilterNode, TableMapValuesNode

__all__ = ["versions_of"]


def versions_of(registry: Registry, name: str) -> StoreSpec | None:
    """Return the store of a versioned table, None if the table is not versioned.

    Filters and mappings without a store of their own are what the table above them is.

    Args:
        registry: What the builder knows.
        name: The table's step.
    """
    node = registry.node(name)
    while True:
        store: StoreSpec | None = getattr(node, "store", None)
        if store is not None:
            return store if store.kind == "versioned" else None
        if not isinstance(node, TableFilterNode | TableMapValuesNode):
            return None
        node = registry.node(node.parents[0])
