"""Joins of a stream with a table, and their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function
from mustela.api.joined import Joined
from mustela.api.names import STORE_NAME_LENGTH_MAX, path_name
from mustela.api.options import options_or
from mustela.api.serdes import choose, choose_serde
from mustela.api.upgrades import read_versions
from mustela.api.windows import milliseconds
from mustela.dsl.extractors import Extractor, check_extractor
from mustela.dsl.handle import Handle
from mustela.dsl.join_copies import kept_for, windows_kept_ms
from mustela.dsl.join_keys import join_key
from mustela.dsl.serdes import said_or_read
from mustela.dsl.versions import row_versions_of, versions_of
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalJoinNode, GlobalTableNode
from mustela.topology.stream_table_join import StreamTableJoinKind, StreamTableJoinNode

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from mustela.dsl.kstream import KStream

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    W = TypeVar("W", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    W = TypeVar("W")

__all__ = ["join_global_table", "join_table"]


def join_table(  # noqa: PLR0913 - the arguments of four public methods
    left: Handle[Any, Any],
    other: Handle[Any, Any],
    joiner: Callable[..., Any],
    *,
    kind: StreamTableJoinKind,
    with_key: bool,
    options: Joined[Any, Any, Any] | None,
    name: str | None,
    at: Origin,
    value: type[Any] | Serde[Any] | None = None,
) -> KStream[Any, Any]:
    """Add the join of a stream with a table.

    Args:
        left: The stream.
        other: The table.
        joiner: (value, row), or (key, value, row) if ``with_key``.
        kind: Whether records without a row are dropped.
        with_key: Whether the joiner is given the key.
        options: The user's options.
        name: Step name by keyword.
        at: The user's line.
        value: Type or serde of the result's values.

    Raises:
        JoinKeysError: If the two sides write their keys in different ways.
        FunctionError: If the joiner cannot be called with what it will get.
        BadOptionError: If a grace period is given and the table is not versioned.
    """
    verb = {"inner": "join", "left": "left_join"}[kind] + ("_with_key" if with_key else "")
    arguments = ("key", "value", "row") if with_key else ("value", "row")
    check_function(joiner, arguments, role="joiner", verb=verb, at=at)
    left._check_builder(other, verb=verb, at=at)  # pyright: ignore[reportPrivateUsage]
    said = options_or(options, Joined[Any, Any, Any](), at=at)
    registry = left._registry  # pyright: ignore[reportPrivateUsage]
    place = registry.place(
        verb,
        parents=(left.name, other.name),
        at=at,
        name=choose("name", name, said.name, holder="Joined", at=at),
        apart=other.name,
    )
    key = join_key(left, other, choose_serde("key", None, said.key, holder="Joined", at=at), at=at)
    versions = versions_of(registry, other.name)
    buffer: StoreSpec | None = None
    grace_ms = _grace(verb, said, other, versions, at=at)
    if grace_ms is not None:
        mine = choose_serde("value", None, said.value, holder="Joined", at=at)
        mine = mine or left._value or ValueSerde()  # pyright: ignore[reportPrivateUsage]
        name = path_name(place["name"], "buffer", length_max=STORE_NAME_LENGTH_MAX)
        buffer = StoreSpec(name=name, kind="buffer", key_serde=key, value_serde=mine)
        waiting = read_versions(name, said.version, said.upgrade, at=at)
        buffer = replace(buffer, row_versions=waiting)
    row = choose_serde("value", None, said.other_value, holder="Joined", at=at)
    row = row or other._value or ValueSerde()  # pyright: ignore[reportPrivateUsage]
    copy = replace(
        versions or StoreSpec(name="copy"),
        name=path_name(place["name"], "table", length_max=STORE_NAME_LENGTH_MAX),
        key_serde=key,
        value_serde=row,
        renamed_from=None,
        row_versions=row_versions_of(registry, other.name),
    )
    kept_ms = windows_kept_ms(registry, other.name)
    if kept_ms is not None:
        copy = kept_for(copy, kept_ms)
    registry.add(
        StreamTableJoinNode(
            **place,
            joiner=joiner,
            kind=kind,
            with_key=with_key,
            key=key,
            copy=copy,
            grace_ms=grace_ms,
            buffer=buffer,
            explicit_store=place["explicit_name"],
        )
    )
    result = said_or_read("value", value, joiner, step=place["name"], at=at)
    return registry.handles.stream(place["name"], key, result)


def _grace(
    verb: str,
    options: Joined[Any, Any, Any],
    table: Handle[Any, Any],
    versions: StoreSpec | None,
    *,
    at: Origin,
) -> int | None:
    """Return how long records wait, None where they do not.

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
            "versioned table knows what was before",
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
            why="when the wait is over the row of the record's time would be forgotten",
            fix="give the table a longer history, or the join a shorter grace",
            fields=fields,
        )
    return grace_ms


def join_global_table(  # noqa: PLR0913 - the arguments of four public methods
    left: Handle[Any, Any],
    other: Handle[Any, Any],
    extractor: Extractor,
    joiner: Callable[..., Any],
    *,
    kind: StreamTableJoinKind,
    with_key: bool,
    name: str | None,
    at: Origin,
    value: type[Any] | Serde[Any] | None = None,
) -> KStream[Any, Any]:
    """Add the join of a stream with a global table.

    Args:
        left: The stream.
        other: The global table.
        extractor: Gives the key of the row.
        joiner: (value, row), or (key, value, row) if ``with_key``.
        kind: Whether records without a row are dropped.
        with_key: Whether the joiner is given the record's key.
        name: Step name by keyword.
        at: The user's line.
        value: Type or serde of the result's values.

    Raises:
        FunctionError: If a function cannot be called with what it will get.
        BadOptionError: If ``other`` is no global table.
    """
    verb = {"inner": "join", "left": "left_join"}[kind] + ("_with_key" if with_key else "")
    arguments = ("key", "value", "row") if with_key else ("value", "row")
    check_function(joiner, arguments, role="joiner", verb=verb, at=at)
    check_extractor(extractor, verb=verb, at=at)
    left._check_builder(other, verb=verb, at=at)  # pyright: ignore[reportPrivateUsage]
    registry = left._registry  # pyright: ignore[reportPrivateUsage]
    table = registry.node(other.name)
    if not isinstance(table, GlobalTableNode):
        msg = f"{verb} cannot join a stream with {other.name!r}: it is no table"
        raise BadOptionError(
            msg,
            at=at,
            why="a stream is joined with a stream, a table or a global table",
            fix="pass what stream(), table() or global_table() returned",
            fields={"verb": verb, "other": other.name},
        )
    place = registry.place(verb, parents=(left.name,), at=at, name=name, apart=other.name)
    registry.add(
        GlobalJoinNode(
            **place,
            key_mapper=extractor.function,
            by_value=not extractor.with_key,
            joiner=joiner,
            table=table.store,
            kind=kind,
            with_key=with_key,
        )
    )
    key = left._key  # pyright: ignore[reportPrivateUsage]
    result = said_or_read("value", value, joiner, step=place["name"], at=at)
    return registry.handles.stream(place["name"], key, result)
