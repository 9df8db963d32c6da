"""Joins of a table with a table by a foreign key; `KTable.join` and `KTable.left_join` call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from mustela.api.names import STORE_NAME_LENGTH_MAX, path_name
from mustela.dsl.extractors import Extractor
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.registry import NodePlace
from mustela.dsl.versions import row_versions_of, rows_serde
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.foreign_key import (
    ForeignKeyJoinNode,
    ForeignKeyMatchNode,
    ForeignKeySubscribeNode,
)

if TYPE_CHECKING:
    pass

__all__ = ["JoinedTable", "add_foreign_key_join"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTable:
    """A join of tables whose steps are about to be added.

    Attributes:
        left: The left table.
        other: The right table.
        joiner: (left value, right value) -> value.
        place: The place of the step that the user sees.
        key: Serde of the result's keys.
        value: Serde of its values, if it is known.
        spec: The store of the result, if it has one.
    """

    left: Handle[Any, Any]
    other: Handle[Any, Any]
    joiner: Callable[..., Any]
    place: NodePlace
    key: Serde[Any]
    value: Serde[Any] | None
    spec: StoreSpec | None


def add_foreign_key_join(
    join: JoinedTable, extractor: Extractor, *, kind: Literal["inner", "left"], base: str
) -> None:
    """Add the steps of a join by foreign key.

    Args:
        join: What is joined; the result has the keys of the left table.
        extractor: Gives the key of the other table, or None.
        kind: Which rows the result has.
        base: The beginning of the stores' names.
    """
    left, other, place = join.left, join.other, join.place
    registry = registry_of(left)
    subscribe = ForeignKeySubscribeNode(
        **registry.part(place, "subscription", left.name, joint="-"),
        extractor=extractor.function,
        with_key=extractor.with_key,
        kind=kind,
        key=join.key,
        value=rows_serde(registry, left.name, _values_of(left)),
        foreign_key=_keys_of(other),
    )
    registry.add(subscribe)
    match = _match(join, subscribe, base)
    registry.add(match)
    place["parents"] = (match.name,)
    registry.add(
        ForeignKeyJoinNode(
            **place,
            joiner=join.joiner,
            kind=kind,
            key=join.key,
            left=subscribe.value,
            right=rows_serde(registry, other.name, _values_of(other)),
            value=join.value,
            store=join.spec,
            explicit_store=join.spec is not None,
        )
    )


def _match(join: JoinedTable, subscribe: ForeignKeySubscribeNode, base: str) -> ForeignKeyMatchNode:
    left, other, place, registry = join.left, join.other, join.place, registry_of(join.left)
    held = row_versions_of(registry, left.name)

    def store_name(suffix: str) -> str:
        return path_name(f"{base}-{suffix}", length_max=STORE_NAME_LENGTH_MAX)

    return ForeignKeyMatchNode(
        **registry.part(place, "match", subscribe.name, other.name, joint="-"),
        key=join.key,
        foreign_key=_keys_of(other),
        subscriptions=StoreSpec(
            name=store_name("subscription-store"),
            kind="key_value",
            key_serde=BytesSerde(),
            value_serde=BytesSerde() if held is None else _values_of(left),
            row_versions=held,
        ),
        rows=StoreSpec(
            name=store_name("right-store"),
            key_serde=_keys_of(other),
            value_serde=_values_of(other),
            row_versions=row_versions_of(registry, other.name),
        ),
        subscribed=_values_of(left),
        explicit_store=place["explicit_name"] or join.spec is not None,
    )


def _keys_of(table: Handle[Any, Any]) -> Serde[Any]:
    return table.serdes[0] or ValueSerde(sort_keys=True)


def _values_of(table: Handle[Any, Any]) -> Serde[Any]:
    return table.serdes[1] or ValueSerde()
