"""What a stream can be joined with: the step for a stream, for a table and for a global table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mustela.api.errors import BadOptionError
from mustela.api.join_windows import JoinWindows, StreamJoined
from mustela.api.joined import Joined
from mustela.api.names import STORE_NAME_LENGTH_MAX, check_name, path_name
from mustela.api.options import options_or
from mustela.api.serdes import choose
from mustela.api.spans import milliseconds
from mustela.api.upgrades import read_versions
from mustela.api.windows import check_windows_for
from mustela.dsl.extractors import Extractor, check_extractor, read_extractor
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.join_copies import kept_for, windows_kept_ms
from mustela.dsl.join_stores import JoinStores
from mustela.dsl.join_wish import Wish, begin_join
from mustela.dsl.versions import row_versions_of, versions_of
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalJoinNode, GlobalTableNode
from mustela.topology.stream_join import StreamJoinNode
from mustela.topology.stream_table_join import StreamTableJoinNode

__all__ = ["AddJoin", "add_global_join", "add_stream_join", "add_table_join"]

AddJoin = Callable[
    [Handle[Any, Any], Handle[Any, Any], Wish, Origin], tuple[str, Serde[Any] | None]
]
"""Adds the step of a join of a stream with a handle; returns its name and the serde of its keys."""

_STORE_SUFFIX_LENGTH_MAX = 30
_WINDOWS = "JoinWindows(before=timedelta(...), after=timedelta(...), grace=timedelta(...))"


def add_stream_join(
    left: Handle[Any, Any], other: Handle[Any, Any], wish: Wish, at: Origin
) -> tuple[str, Serde[Any]]:
    """Add a join of two streams; return the step and the serde of its keys.

    Raises:
        BadOptionError: If windows are missing, or the store of a side cannot keep its records.
        JoinKeysError: If the two sides encode their keys differently.
        DuplicateStoreError: If both sides have the same store.
    """
    windows = _windows(other, wish, at)
    options = options_or(wish.stream_joined, StreamJoined[Any, Any, Any](), at=at)
    join = begin_join(left, other, wish, options, ("left", "right"), at)
    window, key, place = windows.spec(), join.key(), join.place
    base, named = _store_base(wish, options, place["name"], at=at)
    stores = JoinStores(base, wish.kind, key, window, options, at)
    mine, others = join.values()
    kept = stores.left(mine)
    registry_of(left).add(
        StreamJoinNode(
            **place,
            kind=wish.kind,
            joiner=wish.joiner,
            window=window,
            spans=windows.spans(),
            left=kept,
            right=stores.right(others, kept.name),
            unmatched=stores.unmatched(),
            key=key,
            with_key=wish.with_key,
            explicit_store=named or place["explicit_name"],
        )
    )
    return place["name"], key


def _windows(other: Handle[Any, Any], wish: Wish, at: Origin) -> JoinWindows:
    """Return the windows of a join with a stream.

    Raises:
        BadOptionError: If there are none, or they are not windows for joins.
    """
    windows: Any = wish.windows
    if isinstance(windows, JoinWindows):
        check_windows_for(windows, at=at)
        return windows
    if windows is None:
        msg = f"{wish.verb} with the stream {other.name!r} needs windows="
    else:
        msg = f"{wish.verb} takes JoinWindows as its windows, not {type(windows).__name__}"
    raise BadOptionError(
        msg,
        at=at,
        why="streams never end: only a window says which records can still be joined",
        fix=f"write windows={_WINDOWS}",
        fields={"verb": wish.verb, "option": "windows"},
    )


def _store_base(
    wish: Wish, options: StreamJoined[Any, Any, Any], step: str, *, at: Origin
) -> tuple[str, bool]:
    """Return the beginning of the stores' names, and whether the user gave it."""
    said = choose("store", wish.store, options.store, holder="StreamJoined", at=at)
    longest = STORE_NAME_LENGTH_MAX - _STORE_SUFFIX_LENGTH_MAX
    if said is not None:
        return check_name(said, what="store", at=at, length_max=longest), True
    supplied = options.this_store is not None and options.other_store is not None
    return path_name(step, length_max=longest), supplied


def add_table_join(
    left: Handle[Any, Any], other: Handle[Any, Any], wish: Wish, at: Origin
) -> tuple[str, Serde[Any]]:
    """Add a join of a stream with a table; return the step and the serde of its keys.

    Raises:
        JoinKeysError: If the two sides encode their keys differently.
        BadOptionError: If records wait longer than the table knows their rows.
    """
    assert wish.kind != "outer"
    options = options_or(wish.joined, Joined[Any, Any, Any](), at=at)
    join = begin_join(left, other, wish, options, ("value", "row"), at)
    registry, place = registry_of(left), join.place
    key, (mine, row) = join.key(), join.values()
    versions = versions_of(registry, other.name)
    buffer: StoreSpec | None = None
    grace_ms = _grace(wish.verb, options, other, versions, at=at)
    if grace_ms is not None:
        name = path_name(place["name"], "buffer", length_max=STORE_NAME_LENGTH_MAX)
        buffer = StoreSpec(
            name=name,
            kind="buffer",
            key_serde=key,
            value_serde=mine or ValueSerde(),
            row_versions=read_versions(name, options.version, options.upgrade, at=at),
        )
    copy = replace(
        versions or StoreSpec(name="copy"),
        name=path_name(place["name"], "table", length_max=STORE_NAME_LENGTH_MAX),
        key_serde=key,
        value_serde=row or ValueSerde(),
        renamed_from=None,
        row_versions=row_versions_of(registry, other.name),
    )
    kept_ms = windows_kept_ms(registry, other.name)
    registry.add(
        StreamTableJoinNode(
            **place,
            joiner=wish.joiner,
            kind=wish.kind,
            with_key=wish.with_key,
            key=key,
            copy=copy if kept_ms is None else kept_for(copy, kept_ms),
            grace_ms=grace_ms,
            buffer=buffer,
            explicit_store=place["explicit_name"],
        )
    )
    return place["name"], key


def _grace(
    verb: str,
    options: Joined[Any, Any, Any],
    table: Handle[Any, Any],
    versions: StoreSpec | None,
    *,
    at: Origin,
) -> int | None:
    """Return how long records wait, None if they do not.

    Raises:
        BadOptionError: If the table has no versions, or forgets them before the wait is over.
    """
    if options.grace is None:
        return None
    grace_ms = milliseconds(verb, "grace", options.grace, at=at)
    fields = {"option": "grace", "table": table.name}
    if versions is None:
        msg = f"{verb} cannot wait for rows of {table.name!r}: the table is not versioned"
        raise BadOptionError(
            msg,
            evidence={"grace": options.grace},
            at=at,
            why="a record that waited is joined with the row of its own time, and only a "
            "versioned table knows earlier rows",
            fix="give the table Materialized(supplier=Stores.persistent_versioned_key_value_store("
            "...)), or leave out grace=",
            fields=fields,
        )
    history = versions.history_retention_ms
    if history is not None and history < grace_ms:
        msg = f"{verb} waits longer than {table.name!r} remembers"
        raise BadOptionError(
            msg,
            evidence={"grace": f"{grace_ms} ms", "history": f"{history} ms"},
            at=at,
            why="at the end of the wait the row of the record's time would be forgotten",
            fix="give the table a longer history, or the join a shorter grace",
            fields=fields,
        )
    return grace_ms


def add_global_join(
    left: Handle[Any, Any], other: Handle[Any, Any], wish: Wish, at: Origin
) -> tuple[str, Serde[Any] | None]:
    """Add a join of a stream with a global table; return the step and the serde of its keys.

    Raises:
        BadOptionError: If nothing says with which row a record is joined, or two options do.
        FunctionError: If the function that says so cannot be called with its arguments.
    """
    assert wish.kind != "outer"
    table = registry_of(left).node(other.name)
    assert isinstance(table, GlobalTableNode)
    extractor = _extractor(other, wish, at)
    place = begin_join(left, other, wish, Joined[Any, Any, Any](), ("value", "row"), at).place
    place["parents"] = (left.name,)  # the table's rows are already there: it sends nothing
    registry_of(left).add(
        GlobalJoinNode(
            **place,
            key_mapper=extractor.function,
            by_value=not extractor.with_key,
            joiner=wish.joiner,
            table=table.store,
            kind=wish.kind,
            with_key=wish.with_key,
        )
    )
    return place["name"], left.serdes[0]


def _extractor(other: Handle[Any, Any], wish: Wish, at: Origin) -> Extractor:
    extractor = read_extractor(wish.verb, wish.foreign_key, wish.foreign_key_with_key)
    if extractor is not None:
        check_extractor(extractor, verb=wish.verb, at=at)
        return extractor
    msg = f"{wish.verb} with the global table {other.name!r} needs foreign_key="
    raise BadOptionError(
        msg,
        at=at,
        why="a global table is looked up by any key, so the join has to say by which",
        fix="write foreign_key=lambda value: ..., which gives the row's key; or"
        " foreign_key_with_key=lambda key, value: key",
        fields={"verb": wish.verb, "option": "foreign_key"},
    )
