"""Which tables are versioned, and of which version the rows of a table are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mustela.dsl.registry import Registry
from mustela.serdes.base import Serde
from mustela.serdes.row_versions import RowVersions, UpgradingSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.suppress import SuppressNode
from mustela.topology.table import TableFilterNode, TableMapValuesNode

__all__ = ["row_versions_of", "rows_serde", "versions_of", "with_versions_of"]


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
            return store if store.traits.versioned else None
        if not isinstance(node, TableFilterNode | TableMapValuesNode):
            return None
        node = registry.node(node.parents[0])


def with_versions_of(spec: StoreSpec, versions: StoreSpec | None) -> StoreSpec:
    """Return a store that has versions where another has, and as long."""
    if versions is None:
        return spec
    return replace(
        spec,
        kind=versions.kind,
        history_retention_ms=versions.history_retention_ms,
        segment_ms=versions.segment_ms,
    )


def row_versions_of(registry: Registry, table: str) -> RowVersions | None:
    """Return of which version the values of a table are; steps that keep copies keep it, too.

    Args:
        registry: What the builder knows.
        table: The table's step.
    """
    node = registry.node(table)
    while True:
        store: StoreSpec | None = getattr(node, "store", None)
        if store is not None:
            return store.row_versions
        if not isinstance(node, TableFilterNode | SuppressNode):
            return None
        node = registry.node(node.parents[0])


def rows_serde(registry: Registry, table: str, serde: Serde[Any]) -> Serde[Any]:
    """Return what makes rows of a table's values, for those that are kept elsewhere."""
    versions = row_versions_of(registry, table)
    return serde if versions is None else UpgradingSerde(serde, versions)
