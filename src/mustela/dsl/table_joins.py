"""Joins of a table with a table, by key or by foreign key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function
from mustela.api.given_types import read_serde
from mustela.api.handlers import OnError, read_on_error
from mustela.api.joined import TableJoined
from mustela.api.options import Materialized, options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose, choose_serde
from mustela.dsl.extractors import Extractor, check_extractor, read_extractor
from mustela.dsl.foreign_key_join import JoinedTable, add_foreign_key_join
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.join_copies import copy_spec, kept_for, tables_kept_ms
from mustela.dsl.join_keys import join_key
from mustela.dsl.materialize import spec_if_named
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.table_join import TableJoinKind, TableJoinNode

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = ["TableJoins"]

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")

_STANDS = "a joined row exists as long as the two rows that it is made from"
_VERBS: dict[TableJoinKind, str] = {"inner": "join", "left": "left_join", "outer": "outer_join"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """The user's arguments of a join."""

    foreign_key: Callable[..., Any] | None = None
    foreign_key_with_key: Callable[..., Any] | None = None
    value: type[Any] | Serde[Any] | None
    name: str | None
    store: str | None
    materialized: Materialized[Any, Any] | None
    table_joined: TableJoined | None = None
    on_error: OnError | None = None


class TableJoins(Handle[K, V]):
    """The joins of `KTable`."""

    def join(  # noqa: PLR0913 - by key or by foreign key, and the options of the result
        self,
        other: KTable[Any, W],
        joiner: Callable[[V, W], R],
        *,
        foreign_key: Callable[[V], Any] | None = None,
        foreign_key_with_key: Callable[[K, V], Any] | None = None,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        materialized: Materialized[K, R] | None = None,
        table_joined: TableJoined | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, R]:
        """Join with the rows of another table that have the same key.

        The result has a row where both tables have one, and changes with either of them.

        Args:
            other: The other table.
            joiner: Called with this table's value and the other's.
            foreign_key: Returns, for a value of this table, the key of a row of the other table; or
                None, if the value refers to none. Without it, rows of equal keys are joined.
            foreign_key_with_key: The same, called with key and value.
            value: Type or serde of the joined values, for the store and for later steps.
            name: Step name; made from the step's place if not given.
            store: Name of a store to keep the result in; it is not stored if not given.
            materialized: Options of that store.
            table_joined: The name of a join by foreign key.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of joined rows.

        Raises:
            JoinKeysError: If the two tables encode their keys differently.
            BadOptionError: If two foreign keys are given, or options for one without it.
            FunctionError: If the joiner cannot be called with two values.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> names = builder.table("names", key=int, value=str)
            >>> towns = builder.table("towns", key=int, value=str)
            >>> joined = names.join(towns, lambda name, town: f"{name} of {town}", value=str)
            >>> joined.to_stream().to("people")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("names").pipe_input(1, "Ann")
            ...     driver.create_input_topic("towns").pipe_input(1, "Rome")
            ...     driver.create_output_topic("people").read_values_to_list()
            ['Ann of Rome']
        """
        wish = _Wish(
            foreign_key=foreign_key,
            foreign_key_with_key=foreign_key_with_key,
            value=value,
            name=name,
            store=store,
            materialized=materialized,
            table_joined=table_joined,
            on_error=on_error,
        )
        return self._join("inner", other, joiner, wish)

    def left_join(  # noqa: PLR0913 - by key or by foreign key, and the options of the result
        self,
        other: KTable[Any, W],
        joiner: Callable[[V, W | None], R],
        *,
        foreign_key: Callable[[V], Any] | None = None,
        foreign_key_with_key: Callable[[K, V], Any] | None = None,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        materialized: Materialized[K, R] | None = None,
        table_joined: TableJoined | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, R]:
        """Join with another table; the result has a row for each row of this table.

        Args:
            other: The other table.
            joiner: Called with this table's value and the other's, or None if it has no row.
            foreign_key: Returns, for a value of this table, the key of a row of the other table; or
                None, if the value refers to none. Without it, rows of equal keys are joined.
            foreign_key_with_key: The same, called with key and value.
            value: Type or serde of the joined values, for the store and for later steps.
            name: Step name; made from the step's place if not given.
            store: Name of a store to keep the result in; it is not stored if not given.
            materialized: Options of that store.
            table_joined: The name of a join by foreign key.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of joined rows.

        Raises:
            JoinKeysError: If the two tables encode their keys differently.
            BadOptionError: If two foreign keys are given, or options for one without it.
            FunctionError: If the joiner cannot be called with two values.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> stock = builder.table("stock", key=str, value=int)
            >>> orders = builder.table("orders", key=str, value=int)
            >>> left = stock.left_join(orders, lambda n, sold: n - (sold or 0), value=int)
            >>> left.to_stream().to("left")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("stock").pipe_input("apple", 9)
            ...     driver.create_input_topic("orders").pipe_input("apple", 2)
            ...     driver.create_output_topic("left").read_values_to_list()
            [9, 7]
        """
        wish = _Wish(
            foreign_key=foreign_key,
            foreign_key_with_key=foreign_key_with_key,
            value=value,
            name=name,
            store=store,
            materialized=materialized,
            table_joined=table_joined,
            on_error=on_error,
        )
        return self._join("left", other, joiner, wish)

    def outer_join(  # noqa: PLR0913 - a function, and the options of the result
        self,
        other: KTable[K, W],
        joiner: Callable[[V | None, W | None], R],
        materialized: Materialized[K, R] | None = None,
        *,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, R]:
        """Join with another table; the result has a row where either table has one.

        Args:
            other: The other table.
            joiner: Called with this table's value and the other's; a missing one is None.
            value: Type or serde of the joined values, for the store and for later steps.
            name: Step name; made from the step's place if not given.
            store: Name of a store to keep the result in; it is not stored if not given.
            materialized: Options of that store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of joined rows.

        Raises:
            JoinKeysError: If the two tables encode their keys differently.
            FunctionError: If the joiner cannot be called with two values.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> mails = builder.table("mails", key=int, value=str)
            >>> phones = builder.table("phones", key=int, value=str)
            >>> both = mails.outer_join(phones, lambda mail, phone: mail or phone, value=str)
            >>> both.to_stream().to("contacts")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("phones").pipe_input(1, "555")
            ...     driver.create_input_topic("mails").pipe_input(1, "ann@example.org")
            ...     driver.create_output_topic("contacts").read_values_to_list()
            ['555', 'ann@example.org']
        """
        wish = _Wish(
            value=value, name=name, store=store, materialized=materialized, on_error=on_error
        )
        return self._join("outer", other, joiner, wish)

    def _join(
        self, kind: TableJoinKind, other: Any, joiner: Callable[..., Any], wish: _Wish
    ) -> KTable[Any, Any]:
        at, verb = user_origin(), _VERBS[kind]
        extractor = _extractor(verb, wish, at)
        self._check_table(other, verb=verb, at=at)
        if extractor is not None:
            check_extractor(extractor, verb=verb, at=at)
        check_function(joiner, ("left", "right"), role="joiner", verb=verb, at=at)
        said = options_or(wish.table_joined, TableJoined(), at=at).name
        said = choose("name", wish.name, said, holder="TableJoined", at=at)
        options = options_or(wish.materialized, Materialized[Any, Any](), at=at)
        stored = wish.store or options.store_name
        place = self._registry.place(
            verb, parents=(self._name, other.name), at=at, name=said, apart=stored or other.name
        )
        place["on_error"] = read_on_error(wish.on_error, verb=verb, at=at)
        key = choose_serde("key", None, options.key, holder="Materialized", at=at)
        if extractor is None:
            key = join_key(self, other, key, at=at)
        key = key or self._key or ValueSerde(sort_keys=True)
        value = choose_serde("value", wish.value, options.value, holder="Materialized", at=at)
        value = value or read_serde(joiner)
        spec = spec_if_named(
            place,
            options,
            store=wish.store,
            key=key,
            value=value,
            never_expires=None if extractor is None else _STANDS,
        )
        join = JoinedTable(
            left=self, other=other, joiner=joiner, place=place, key=key, value=value, spec=spec
        )
        if extractor is None:
            _add_by_key(join, kind)
        else:
            assert kind != "outer"
            base = said or stored or place["name"]
            add_foreign_key_join(join, extractor, kind=kind, base=base)
        return self._registry.handles.table(place["name"], key, value)

    def _check_table(self, other: Any, *, verb: str, at: Origin) -> None:
        self._check_builder(other, verb=verb, at=at)
        if other._kind != "table":
            kind = type(other).__name__
            msg = f"{verb} takes a table, but {other.name!r} is a {kind}"
            fix = "turn it into a table with to_table(), or join the stream with this table"
            if kind == "GlobalKTable":
                fix = "read its topic with table(), or join a stream with it"
            raise BadOptionError(
                msg,
                at=at,
                why="a table is joined with something that has a row for each key",
                fix=fix,
                fields={"verb": verb},
            )


def _add_by_key(join: JoinedTable, kind: TableJoinKind) -> None:
    """Add the step of a join of tables by their keys."""
    registry, place, spec, key = registry_of(join.left), join.place, join.spec, join.key
    # If the user gave a name, the stores have it too: another name means another store.
    base = place["name"] if spec is None or place["explicit_name"] else spec.name
    left = copy_spec(base, join.left, key, "left")
    right = copy_spec(base, join.other, key, "right")
    kept_ms = tables_kept_ms(registry, join.left.name, join.other.name)
    if kept_ms is not None:
        left, right = (kept_for(copy, max(kept_ms)) for copy in (left, right))
    registry.add(
        TableJoinNode(
            **place,
            joiner=join.joiner,
            kind=kind,
            key=key,
            value=join.value,
            copies=(left, right),
            kept_ms=kept_ms,
            store=spec,
            explicit_store=spec is not None or place["explicit_name"],
        )
    )


def _extractor(verb: str, wish: _Wish, at: Origin) -> Extractor | None:
    """Return the function for the foreign key, None if rows of equal keys are joined."""
    extractor = read_extractor(verb, wish.foreign_key, wish.foreign_key_with_key)
    if extractor is None and wish.table_joined is not None:
        msg = f"{verb} takes table_joined= only with a foreign key"
        raise BadOptionError(
            msg,
            at=at,
            why="it names the stores of a join by foreign key",
            fix="write name=, or give foreign_key=",
            fields={"verb": verb},
        )
    return extractor
