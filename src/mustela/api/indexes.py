"""Indexes of key-value stores, as users give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mustela.api.errors import BadOptionError
from mustela.api.names import check_name
from mustela.errors import Origin
from mustela.state.index import Index, NamedIndexes
from mustela.state.interfaces import StoreSpec
from mustela.state.store_kind import kind_named

__all__ = ["IndexLike", "check_indexed", "named_indexes"]

IndexLike = Index | str | Callable[[Any], Any]
"""A function of the value, a path of names in it, or either with options."""


def named_indexes(given: object, *, at: Origin) -> NamedIndexes:
    """Return indexes as a store's specification has them.

    Raises:
        BadNameError: If a name breaks the rule for names.
        BadOptionError: If something else is given.
    """
    if not isinstance(given, Mapping):
        raise _bad(repr(given)[:60], at)
    found: dict[str, Index] = {}
    items: list[tuple[str, Any]] = list(given.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    for name, one in items:
        index = one if isinstance(one, Index) else Index(one)
        path = isinstance(index.of, str) and all(index.of.split("."))
        if not path and not callable(index.of):
            told = f"{name!r}: {index.of!r:.60}"
            raise _bad(told, at)
        found[check_name(name, what="index", at=at)] = index
    return tuple(sorted(found.items(), key=lambda named: named[0]))


def check_indexed(spec: StoreSpec, indexes: NamedIndexes, *, at: Origin, kind: str = "") -> None:
    """Check that a store can have indexes.

    Args:
        spec: The store.
        indexes: The indexes.
        at: The user's line.
        kind: The kind that the store gets, if that is another one.

    Raises:
        BadOptionError: If it is of another kind, or forgets rows by itself.
    """
    if not indexes:
        return
    why = None
    traits = kind_named(kind) if kind else spec.traits
    if "indexes" not in traits.takes:
        why = f"only key-value stores have indexes, and it is a {traits.name} store"
    elif spec.max_entries is not None or spec.ttl_ms is not None:
        why = "it forgets rows by itself"
    if why is not None:
        msg = f"store {spec.name!r} cannot have indexes"
        fix = "leave out the indexes, or use Stores.persistent_key_value_store(...)"
        raise BadOptionError(msg, at=at, why=why, fix=fix, fields={"option": "index"})


def _bad(what: str, at: Origin) -> BadOptionError:
    msg = f"{what} is not an index"
    fix = 'index={"city": lambda value: value.city}, or a path: index={"city": "address.city"}'
    return BadOptionError(msg, at=at, fix=fix, fields={"option": "index"})
