"""From the user's options for a table's store to its specification."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final, get_args

from mustela.api.engines import checked_engine
from mustela.api.errors import BadOptionError
from mustela.api.indexes import check_indexed, named_indexes
from mustela.api.names import STORE_NAME_LENGTH_MAX, check_name, path_name
from mustela.api.options import Materialized, StoreType
from mustela.api.serdes import choose
from mustela.api.spans import milliseconds
from mustela.api.stores import check_ttl_by, checked_supplier
from mustela.api.upgrades import check_named, read_versions
from mustela.dsl.registry import NodePlace
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec

__all__ = ["AGGREGATE_KINDS", "KEY_VALUE_KINDS", "spec_if_named", "store_spec"]

KEY_VALUE_KINDS: Final[tuple[str, ...]] = (
    "timestamped_key_value",
    "key_value",
    "versioned",
)
"""The kinds of stores for a table whose rows come from elsewhere, not from its own rows."""

AGGREGATE_KINDS: Final[tuple[str, ...]] = ("timestamped_key_value", "key_value")
"""The kinds of stores for an aggregation."""

_WINDOWED: Final = frozenset(("window", "session"))
"""The kinds of stores that can have a retention: each row has its own time."""


def store_spec(  # noqa: PLR0913 - what the user said, and what the step can do
    place: NodePlace,
    options: Materialized[Any, Any],
    *,
    store: str | None,
    key: Serde[Any] | None,
    value: Serde[Any] | None,
    kinds: Collection[str] = AGGREGATE_KINDS,
    never_expires: str | None = None,
) -> tuple[StoreSpec, bool]:
    """Return the store of a step, and whether the user named it.

    Args:
        place: The step; its name is the store's name if none is given.
        options: The user's options.
        store: The store's name by keyword.
        key: Serde of the keys; None for the one that keeps Python's types.
        value: Serde of the values; None for the one that keeps Python's types.
        kinds: The kinds of stores that the step can write.
        never_expires: Why rows of the step cannot be kept for a time; None if they can.

    Raises:
        BadNameError: If the store's name breaks the rule for names.
        OptionConflictError: If the name is given twice and differs.
        BadOptionError: If the step cannot write the supplier's kind of store, the store type does
            not exist, or a retention is given for a store that keeps no windows.
    """
    at = place["origin"]
    _check_store_type(options, at)
    if not _WINDOWED.intersection(kinds):
        _check_no_retention(place, options)
    said = choose("store", store, options.store, holder="Materialized", at=at)
    supplied: StoreSpec | None = None
    if options.supplier is not None:
        supplied = checked_supplier(options.supplier, at=at)
        said = choose("store", said, supplied.name, holder="supplier", at=at)
    if said is not None:
        name = check_name(said, what="store", at=at, length_max=STORE_NAME_LENGTH_MAX)
    elif place["explicit_name"]:
        name = check_name(place["name"], what="store", at=at, length_max=STORE_NAME_LENGTH_MAX)
    else:
        name = path_name(place["name"], length_max=STORE_NAME_LENGTH_MAX)
    if supplied is not None:
        _check_kind(place, options, supplied, kinds)
    base = supplied or StoreSpec(name=name)
    ttl_ms = _ttl_ms(place, options, base, kinds, never_expires)
    versions = read_versions(name, options.version, options.upgrade, at=at)
    explicit = said is not None or place["explicit_name"]
    check_named(name, versions, explicit=explicit, at=at)
    spec = replace(
        base,
        name=name,
        key_serde=key or ValueSerde(sort_keys=True),
        value_serde=value or ValueSerde(),
        logged=options.logged,
        cached=options.caching,
        with_headers=options.with_headers or base.with_headers,
        topic_config=dict(options.topic_config),
        renamed_from=_former_name(name, options.renamed_from, at),
        row_versions=versions,
        ttl_ms=ttl_ms,
        ttl_by=options.ttl_by if ttl_ms is not None else "event_time",
        engine=checked_engine(options.engine, at=at),
    )
    return _with_indexes(spec, options, kinds, at), explicit


def _with_indexes(
    spec: StoreSpec, options: Materialized[Any, Any], kinds: Collection[str], at: Origin
) -> StoreSpec:
    """Return the store with the indexes that the user wants."""
    if options.index is None:
        return spec
    indexes = named_indexes(options.index, at=at)
    (windowed,) = _WINDOWED.intersection(kinds) or ("",)
    check_indexed(spec, indexes, at=at, kind=windowed)
    return replace(spec, indexes=indexes)


def spec_if_named(  # noqa: PLR0913 - what the user said, and what the step can do
    place: NodePlace,
    options: Materialized[Any, Any],
    *,
    store: str | None,
    key: Serde[Any] | None,
    value: Serde[Any] | None,
    kinds: Collection[str] = AGGREGATE_KINDS,
    never_expires: str | None = None,
) -> StoreSpec | None:
    """Return the store of a table's result; None if none is named, so that it is not stored.

    The arguments are those of `store_spec`.

    Raises:
        BadOptionError: If a result that is not stored is given a ``ttl``, or by `store_spec`.
    """
    if store is not None or options.store_name is not None:
        spec, _ = store_spec(
            place,
            options,
            store=store,
            key=key,
            value=value,
            kinds=kinds,
            never_expires=never_expires,
        )
        return spec
    _check_no_retention(place, options)
    if options.ttl is not None:
        why = "its rows are not stored: a result has its own store only if one is named"
        fix = 'name the store: Materialized(store="...", ttl=...)'
        raise _cannot_have(place, "ttl", options.ttl, why=why, fix=fix)
    return None


def _ttl_ms(
    place: NodePlace,
    options: Materialized[Any, Any],
    store: StoreSpec,
    kinds: Collection[str],
    never: str | None,
) -> int | None:
    """Return how long rows are kept, None for ever.

    Raises:
        BadOptionError: If it is not a span of time, or rows of the step cannot expire.
    """
    at = place["origin"]
    check_ttl_by(options.ttl_by, "Materialized", at=at)
    if options.ttl is None:
        return None
    ttl_ms = milliseconds("Materialized", "ttl", options.ttl, at=at, sign="positive")
    fix = "leave out ttl="
    if _WINDOWED.intersection(kinds):
        never, fix = "windows are kept for their retention", "write retention= instead of ttl="
    elif store.traits.versioned:
        never = "a versioned store keeps versions for its history"
    elif store.max_entries is not None:
        never = "the store evicts the keys that were not used for longest"
    elif "ttl_ms" not in store.traits.takes:
        never = f"stores of kind {store.kind!r} have no time to live"
    if never is None:
        return ttl_ms
    raise _cannot_have(place, "ttl", options.ttl, why=never, fix=fix)


def _former_name(name: str, given: object, at: Origin) -> str | None:
    """Return the former name of a store, if it differs."""
    if given is None:
        return None
    if not isinstance(given, str):
        msg = f"store {name!r} cannot be renamed_from={given!r}"
        fix = 'give the name that it had: renamed_from="..."'
        raise BadOptionError(msg, at=at, fix=fix, fields={"option": "renamed_from"})
    former = check_name(given, what="store", at=at, length_max=STORE_NAME_LENGTH_MAX)
    return None if former == name else former


def _check_store_type(options: Materialized[Any, Any], at: Origin) -> None:
    types = get_args(StoreType)
    if options.store_type is not None and options.store_type not in types:
        msg = f"{options.store_type!r} is not a type of store"
        raise BadOptionError(
            msg,
            at=at,
            fix=f"use one of {', '.join(types)}, or leave out store_type=",
            fields={"option": "store_type"},
        )
    if options.store_type is not None and options.supplier is not None:
        msg = f"Materialized cannot have both store_type={options.store_type!r} and a supplier"
        raise BadOptionError(
            msg,
            at=at,
            why="the supplier says what kind of store it is",
            fix="leave out store_type=, or give store= a name instead of the supplier",
            fields={"option": "store_type"},
        )


def _check_no_retention(place: NodePlace, options: Materialized[Any, Any]) -> None:
    """Check that no retention was given to a step whose store has none."""
    if options.retention is not None:
        why = "only windows have a retention"
        fix = "write ttl= for how long a row is kept, or aggregate with windowed_by(…)"
        raise _cannot_have(place, "retention", options.retention, why=why, fix=fix)


def _cannot_have(
    place: NodePlace, option: str, value: object, *, why: str, fix: str
) -> BadOptionError:
    return BadOptionError(
        f"step {place['name']!r} cannot have {option}={value!r}",
        at=place["origin"],
        why=why,
        fix=fix,
        fields={"option": option, "value": value, "step": place["name"]},
    )


def _fits(supplied: StoreSpec, kinds: Collection[str]) -> bool:
    """Whether a step that writes some kinds can write a store: kinds by key are all alike."""
    return supplied.kind in kinds or ("key_value" in kinds and supplied.traits.by_key)


def _check_kind(
    place: NodePlace,
    options: Materialized[Any, Any],
    supplied: StoreSpec,
    kinds: Collection[str],
) -> None:
    fields = {"store": supplied.name, "kind": supplied.kind, "step": place["name"]}
    if not _fits(supplied, kinds):
        can = " or ".join(f"{kind}" for kind in kinds)
        msg = (
            f"step {place['name']!r} cannot write store {supplied.name!r}: it is a {supplied.kind}"
            " store"
        )
        raise BadOptionError(
            msg,
            at=place["origin"],
            why=f"this step keeps its result in a {can} store",
            fix="use another supplier from Stores, or only store= for the one that fits",
            fields=fields,
        )
    if options.with_headers and supplied.traits.headed is None:
        msg = f"store {supplied.name!r} cannot keep headers: it is a {supplied.kind} store"
        raise BadOptionError(
            msg,
            at=place["origin"],
            why="headers are kept next to the timestamp of a value",
            fix="use Stores.persistent_timestamped_key_value_store_with_headers(name)",
            fields=fields,
        )
    if supplied.traits.versioned and options.caching:
        msg = f"store {supplied.name!r} cannot be cached"
        raise BadOptionError(
            msg,
            at=place["origin"],
            why="a versioned table sends each of its versions; combining changes would lose some",
            fix="leave out caching=",
            fields=fields,
        )
