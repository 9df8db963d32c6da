"""Which tables are versioned, and the version of a table's rows."""

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

    Filters and mappings without their own store are like the table before them.

    Args:
        registry: The topology while it is being written.
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
    """Return a store that keeps versions if another one does, and for as long."""
    if versions is None:
        return spec
    return replace(
        spec,
        kind=versions.kind,
        history_retention_ms=versions.history_retention_ms,
        segment_ms=versions.segment_ms,
    )


def row_versions_of(registry: Registry, table: str) -> RowVersions | None:
    """Return the version of a table's values; steps that keep copies keep it, too.

    Args:
        registry: The topology while it is being written.
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
    """Return the serde of a table's rows, for those that are kept elsewhere."""
    versions = row_versions_of(registry, table)
    return serde if versions is None else UpgradingSerde(serde, versions)
