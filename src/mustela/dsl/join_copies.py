"""The stores in which a join of tables keeps sides that it cannot look up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mustela.api.names import STORE_NAME_LENGTH_MAX, path_name
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.registry import Registry
from mustela.dsl.versions import row_versions_of
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.suppress import SuppressNode
from mustela.topology.table import TableFilterNode, TableMapValuesNode
from mustela.topology.table_join import TableJoinNode
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["copy_spec", "kept_for", "tables_kept_ms", "windows_kept_ms"]

_KEPT_MAX_MS = 1 << 53
"""A longer wait than this has no end."""


def copy_spec(step: str, side: Handle[Any, Any], key: Serde[Any], suffix: str) -> StoreSpec:
    """Return the store in which a join keeps a side that it cannot look up."""
    value, registry = side.serdes[1], registry_of(side)
    return StoreSpec(
        name=path_name(step, suffix, length_max=STORE_NAME_LENGTH_MAX),
        key_serde=key,
        value_serde=value or ValueSerde(),
        row_versions=row_versions_of(registry, side.name),
    )


def kept_for(copy: StoreSpec, kept_ms: int) -> StoreSpec:
    """Return a copy that forgets windows, if its keys say when they begin."""
    if isinstance(copy.key_serde, WindowedSerde | SessionWindowedSerde):
        return replace(copy, kind="window", retention_ms=kept_ms)
    return copy


def windows_kept_ms(registry: Registry, *tables: str) -> int | None:
    """Return how long after its start a window may still change in one of some tables.

    None if there is no end, or if one of the tables does not have the keys of a windowed
    aggregation.
    """
    longest = 0
    for table in tables:
        kept_ms = _kept_ms(registry, table)
        if kept_ms is None or kept_ms > _KEPT_MAX_MS:
            return None
        longest = max(longest, kept_ms)
    return longest


def tables_kept_ms(registry: Registry, left: str, right: str) -> tuple[int, int] | None:
    """Return `windows_kept_ms` of each of two tables, None if one has none."""
    first, second = (windows_kept_ms(registry, table) for table in (left, right))
    return None if first is None or second is None else (first, second)


def _kept_ms(registry: Registry, table: str) -> int | None:
    node = registry.node(table)
    match node:
        case WindowAggregateNode():
            return node.store.retention_ms
        case SuppressNode():
            kept_ms = windows_kept_ms(registry, *node.parents)
            return None if kept_ms is None else kept_ms + node.wait_ms
        case TableFilterNode() | TableMapValuesNode() | TableJoinNode():
            return windows_kept_ms(registry, *node.parents)
        case _:
            return None
