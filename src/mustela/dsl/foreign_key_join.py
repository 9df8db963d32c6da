"""Joins of a table with a table by a foreign key; `KTable.join` and `KTable.left_join` call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from mustela.api.functions import check_function
from mustela.api.given_types import read_serde
from mustela.api.joined import TableJoined
from mustela.api.names import STORE_NAME_LENGTH_MAX, path_name
from mustela.api.options import Materialized, options_or
from mustela.api.serdes import choose, choose_serde
from mustela.dsl.extractors import Extractor, check_extractor
from mustela.dsl.handle import Handle
from mustela.dsl.materialize import check_not_kept, store_spec
from mustela.dsl.registry import NodePlace
from mustela.dsl.versions import row_versions_of, rows_serde
from mustela.errors import Origin
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
    from mustela.dsl.ktable import KTable

__all__ = ["foreign_key_join"]


def foreign_key_join(  # noqa: PLR0913 - all that the two public methods were given
    left: Handle[Any, Any],
    other: Handle[Any, Any],
    joiner: Callable[..., Any],
    *,
    kind: Literal["inner", "left"],
    extractor: Extractor,
    options: TableJoined | None,
    name: str | None,
    store: str | None,
    materialized: Materialized[Any, Any] | None,
    at: Origin,
    value: Any = None,
) -> KTable[Any, Any]:
    """Add a join by foreign key to the topology.

    Args:
        left: The table whose rows refer to the other's.
        other: The table that is referred to, of the same builder.
        joiner: (left value, right value) -> value.
        kind: Which rows the result has.
        extractor: Gives the key of the other table, or None.
        options: The join's name.
        name: The join's name by keyword.
        store: Name of the result's store.
        materialized: Options of that store.
        at: The user's line.
        value: Type or serde of the result's values.

    Raises:
        FunctionError: If a function cannot be called with what it will get.
        OptionConflictError: If an option is given twice and the two differ.
        DuplicateNameError: If another step already has this name.
    """
    verb = "join" if kind == "inner" else "left_join"
    check_extractor(extractor, verb=verb, at=at)
    check_function(joiner, ("left", "right"), role="joiner", verb=verb, at=at)
    said = choose(
        "name", name, options_or(options, TableJoined(), at=at).name, holder="TableJoined", at=at
    )
    stored = options_or(materialized, Materialized[Any, Any](), at=at)
    registry = left._registry  # pyright: ignore[reportPrivateUsage]
    result_store = store or stored.store_name
    place = registry.place(
        verb, parents=(left.name, other.name), at=at, name=said, apart=result_store or other.name
    )
    key = choose_serde("key", None, stored.key, holder="Materialized", at=at)
    result = _Result(
        place=place,
        base=said or result_store or place["name"],
        named=said is not None or result_store is not None,
        key=key or left._key or ValueSerde(sort_keys=True),  # pyright: ignore[reportPrivateUsage]
        value=choose_serde("value", value, stored.value, holder="Materialized", at=at)
        or read_serde(joiner),
    )
    spec = _result_store(result, stored, store) if result_store is not None else None
    if spec is None:
        check_not_kept(place, stored)
    subscribe = ForeignKeySubscribeNode(
        **_before(left, result, "subscription", (left.name,)),
        extractor=extractor.function,
        with_key=extractor.with_key,
        kind=kind,
        key=result.key,
        value=rows_serde(registry, left.name, _values_of(left)),
        foreign_key=_keys_of(other),
    )
    registry.add(subscribe)
    match = _match(left, other, result, subscribe)
    registry.add(match)
    place["parents"] = (match.name,)
    node = ForeignKeyJoinNode(
        **place,
        joiner=joiner,
        kind=kind,
        key=result.key,
        left=subscribe.value,
        right=rows_serde(registry, other.name, _values_of(other)),
        value=result.value,
        store=spec,
        explicit_store=spec is not None,
    )
    registry.add(node)
    return registry.handles.table(node.name, result.key, result.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """The step that the user sees, and what the steps before it need to know of it."""

    place: NodePlace
    base: str
    named: bool
    key: Serde[Any]
    value: Serde[Any] | None


def _result_store(result: _Result, options: Materialized[Any, Any], store: str | None) -> StoreSpec:
    never = "a row stands as long as the two that it is joined of"
    place, key, value = result.place, result.key, result.value
    return store_spec(place, options, store=store, key=key, value=value, never_expires=never)[0]


def _match(
    left: Handle[Any, Any],
    other: Handle[Any, Any],
    result: _Result,
    subscribe: ForeignKeySubscribeNode,
) -> ForeignKeyMatchNode:
    registry = left._registry  # pyright: ignore[reportPrivateUsage]
    held = row_versions_of(registry, left.name)

    def store_name(suffix: str) -> str:
        return path_name(f"{result.base}-{suffix}", length_max=STORE_NAME_LENGTH_MAX)

    return ForeignKeyMatchNode(
        **_before(left, result, "match", (subscribe.name, other.name)),
        key=result.key,
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
        explicit_store=result.named,
    )


def _before(
    left: Handle[Any, Any], result: _Result, what: str, parents: tuple[str, ...]
) -> NodePlace:
    """Return the place of a step before the one that the user sees."""
    registry = left._registry  # pyright: ignore[reportPrivateUsage]
    name = path_name(f"{result.place['name']}-{what}")
    place = registry.place(what, parents=parents, at=result.place["origin"], name=name)
    place["explicit_name"] = result.place["explicit_name"]
    return place


def _keys_of(table: Handle[Any, Any]) -> Serde[Any]:
    return table._key or ValueSerde(sort_keys=True)  # pyright: ignore[reportPrivateUsage]


def _values_of(table: Handle[Any, Any]) -> Serde[Any]:
    return table._value or ValueSerde()  # pyright: ignore[reportPrivateUsage]
