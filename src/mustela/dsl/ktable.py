"""A table: the newest value of each key, and the changes to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mustela.api.errors import BadOptionError, NotWindowedError
from mustela.api.functions import check_function, function_name
from mustela.api.given_types import read_serde
from mustela.api.handlers import OnError, read_on_error
from mustela.api.options import Materialized, options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose_serde
from mustela.dsl.folds import FoldTable
from mustela.dsl.handle import Handle
from mustela.dsl.materialize import KEY_VALUE_KINDS, spec_if_named, store_spec
from mustela.dsl.row_types import or_none, row_maker, whole_type
from mustela.dsl.serdes import said_or_read
from mustela.dsl.suppression import Suppression
from mustela.dsl.table_grouping import TableGrouping
from mustela.dsl.table_joins import TableJoins
from mustela.dsl.value_transformers import Mapped, add_transformer, is_transformer_supplier
from mustela.dsl.versions import versions_of, with_versions_of
from mustela.errors import Origin
from mustela.model import Windowed
from mustela.serdes.base import Serde
from mustela.serdes.rows import Row, RowSerde, flat_row
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.topology.stateless import MapNode
from mustela.topology.table import TableFilterNode, TableMapValuesNode, TableToStreamNode

if TYPE_CHECKING:
    from mustela.api.stores import StoreBuilder
    from mustela.api.value_transformer import TransformerSupplier
    from mustela.dsl.kstream import KStream

__all__ = ["KTable"]

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
K2 = TypeVar("K2")


class KTable(TableJoins[K, V], TableGrouping[K, V], Suppression[K, V], Handle[K, V]):
    """A table whose rows change as records arrive; made by a builder or by an aggregation.

    Each method adds a step and returns its result. The table itself never changes and can be used
    any number of times.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", key=str, value=int, store="prices")
        >>> prices.filter(lambda _item, price: price > 10).to_stream().to("dear")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     item = driver.create_input_topic("prices")
        ...     item.pipe_input("melon", 12)
        ...     item.pipe_input("apple", 3)
        ...     item.pipe_input("melon", 9)
        ...     driver.create_output_topic("dear").read_values_to_list()
        [12, None]
    """

    _kind = "table"

    @property
    def queryable_store_name(self) -> str | None:
        """The name of this table's store if the user named it, else None.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> builder.table("prices", key=str, value=int, store="prices").queryable_store_name
            'prices'
            >>> builder.table("stock", key=str, value=int).queryable_store_name
        """
        node = self._registry.node(self._name)
        named = bool(getattr(node, "explicit_store", False))
        tables = [store for store in node.stores if store.traits.store is not None]
        return tables[0].name if named and tables else None

    def filter(
        self,
        predicate: Callable[[K, V], object],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Keep the rows for which the predicate is true; a row that no longer matches is deleted.

        With ``emit = barrier``, and if this table or the result has a store, a deletion is sent
        only for rows that were in the result. If neither has a store, nobody knows which these are,
        and a deletion is sent for each changed row that does not match. With ``emit = every``, the
        store of this table decides; that of the result decides only before a grouping, a
        suppression, or the right side of a join by foreign key, which ask for old values.

        Args:
            predicate: Called with key and value of each changed row, never with a null value.
            name: Step name; made from the step's place if not given.
            store: Name of a store to keep the result in; it is not stored if not given.
            materialized: Options of that store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of matching rows.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the predicate cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> stock = builder.table("stock", key=str, value=int)
            >>> available = stock.filter(lambda _item, count: count > 0, store="available")
        """
        table = FoldTable(store=store, name=name, options=materialized, on_error=on_error)
        return self._filter("filter", predicate, table)

    def filter_not(
        self,
        predicate: Callable[[K, V], object],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Keep the rows for which the predicate is false; see `filter`.

        Args:
            predicate: Called with key and value of each changed row, never with a null value.
            name: Step name; made from the step's place if not given.
            store: Name of a store to keep the result in; it is not stored if not given.
            materialized: Options of that store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of rows that do not match.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the predicate cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> stock = builder.table("stock", key=str, value=int)
            >>> available = stock.filter_not(lambda _item, count: count == 0)
        """
        table = FoldTable(store=store, name=name, options=materialized, on_error=on_error)
        return self._filter("filter_not", predicate, table)

    def map_values(
        self,
        mapper: Callable[[V], W],
        materialized: Materialized[K, W] | None = None,
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, W]:
        """Replace each row's value; deletions are passed on.

        Args:
            mapper: Called with the value of each changed row, never with None. If it returns
                None, the row is deleted from the result.
            value: Type or serde of the new values, for the store and for later steps.
            name: Step name; made from the step's place if not given.
            store: Name of a store to keep the result in; it is not stored if not given.
            materialized: Options of that store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of new values.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=float)
            >>> prices.map_values(round, value=int).to_stream().to("rounded")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("prices").pipe_input("apple", 2.9)
            ...     driver.create_output_topic("rounded").read_values_to_list()
            [3]
        """
        table = FoldTable(
            store=store, name=name, options=materialized, value=value, on_error=on_error
        )
        return self._map_values("map_values", mapper, table)

    def map_values_with_key(
        self,
        mapper: Callable[[K, V], W],
        materialized: Materialized[K, W] | None = None,
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, W]:
        """Replace each row's value by a function of key and value; see `map_values`.

        Args:
            mapper: Called with key and value of each changed row. It must not change the key.
            value: Type or serde of the new values, for the store and for later steps.
            name: Step name; made from the step's place if not given.
            store: Name of a store to keep the result in; it is not stored if not given.
            materialized: Options of that store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of new values.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=int)
            >>> labels = prices.map_values_with_key(lambda item, price: f"{item}: {price}")
        """
        table = FoldTable(
            store=store, name=name, options=materialized, value=value, on_error=on_error
        )
        return self._map_values("map_values_with_key", mapper, table)

    def transform_values(  # noqa: PLR0913 - a function, and the options of the result
        self,
        transformer: Callable[[K, V | None], W] | TransformerSupplier,
        materialized: Materialized[K, W] | None = None,
        *,
        stores: Sequence[str | StoreBuilder] = (),
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, W]:
        """Replace each row's value, even that of a deleted row.

        Unlike a mapper, the transformer is also called when a row is deleted, and its result is
        then the row's value in the result. The result is always stored, because it may contain rows
        that this table no longer has.

        Args:
            transformer: Called with key and value of each changed row; the value is None if the row
                was deleted. If it returns None, the row is deleted from the result. To use a
                context and stores, give a `ValueTransformerWithKey` class, or a function without
                arguments that returns a new one on each call.
            stores: For such a class: names of stores that were added with
                `StreamsBuilder.add_state_store`, or that tables have; or store builders, which are
                added here. Its ``stores()``, if it has one, names more.
            value: Type or serde of the new values, for the store and for later steps.
            name: Step name; made from the step's place if not given.
            store: Name of the store; made from the step's name if not given.
            materialized: Options of that store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of new values.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the transformer cannot be called with a key and a value, or a supplier
                does not return transformers.
            UnknownStoreError: If a store was not added.
            BadOptionError: If stores are given to a function, which cannot reach them.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> users = builder.table("users", key=str, value=str)
            >>> states = users.transform_values(
            ...     lambda user, name: "gone" if name is None else f"known as {name}", value=str
            ... )
            >>> states.to_stream().to("states")
            >>> with TopologyTestDriver(builder) as driver:
            ...     users = driver.create_input_topic("users")
            ...     users.pipe_key_value_list([("u1", "Ann"), ("u1", None)])
            ...     driver.create_output_topic("states").read_values_to_list()
            ['known as Ann', 'gone']
        """
        at = user_origin()
        table = FoldTable(
            store=store, name=name, options=materialized, value=value, on_error=on_error
        )
        if not is_transformer_supplier(transformer, stores, at=at):
            return self._map_values("transform_values", transformer, table)
        mapped = self._mapped("transform_values", transformer, table)
        add_transformer(self, mapped, transformer, stores)
        return self._of(mapped)

    @overload
    def to_stream(
        self, mapper: None = None, *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]: ...
    @overload
    def to_stream(
        self,
        mapper: Callable[[K, V], K2],
        *,
        key: type[K2] | Serde[K2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V]: ...
    @overload
    def to_stream(
        self: KTable[Windowed[K2], V],
        *,
        flat: Literal[True],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, Row]: ...
    def to_stream(
        self,
        mapper: Callable[[K, V], Any] | None = None,
        *,
        flat: bool = False,
        key: type[Any] | Serde[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Return the changes as a stream: new values as records, deletions as null values.

        Args:
            mapper: Returns a new key for key and value; a later grouping or join then sends records
                to the lane of the new key.
            flat: For a windowed table: the key is the one inside the windowed key, and the value is
                a `Row` of ``key``, ``start`` and ``end`` (in milliseconds) and ``value``, which is
                None if the window's row was deleted.
            key: Type or serde of the new keys; what the mapper's annotation says if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of changes.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.
            BadOptionError: If ``key`` is given without a mapper, or ``flat`` with one.
            NotWindowedError: If ``flat`` is given for a table that is not windowed.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=int)
            >>> prices.to_stream().to("price-changes")
            >>> by_price = prices.to_stream(lambda item, price: price, key=int, name="by-price")
        """
        at = user_origin()
        if mapper is not None:
            check_function(mapper, ("key", "value"), role="mapper", verb="to_stream", at=at)
        place = self._registry.place(
            "to_stream", parents=(self._name,), at=at, name=name, apart=function_name(mapper)
        )
        place["on_error"] = read_on_error(on_error, verb="to_stream", at=at)
        if mapper is None:
            _refuse_key(place["name"], key, at)
        if flat:
            _check_flat(self._name, self._key, mapper, at)
        self._registry.add(TableToStreamNode(**place, mapper=mapper))
        step = place["name"]
        if flat:
            inner: Serde[Any] | None = getattr(self._key, "inner", None)
            types = (whole_type(inner), int, int, or_none(whole_type(self._value)))
            make = row_maker(("key", "start", "end", "value"), types)
            flatten = self._registry.place("flat", parents=(step,), at=at)
            self._registry.add(MapNode(**flatten, mapper=partial(flat_row, make)))
            return self._registry.handles.stream(flatten["name"], inner, RowSerde(make))
        if mapper is None:
            return self._registry.handles.stream(step, self._key, self._value)
        keys = said_or_read("key", key, mapper, step=step, at=at)
        return self._registry.handles.stream(step, keys, self._value)

    def _filter(
        self, verb: str, predicate: Callable[[K, V], object], table: FoldTable
    ) -> KTable[K, V]:
        at = user_origin()
        check_function(predicate, ("key", "value"), role="predicate", verb=verb, at=at)
        options = options_or(table.options, Materialized[Any, Any](), at=at)
        apart = table.store or options.store_name or function_name(predicate)
        place = self._registry.place(
            verb, parents=(self._name,), at=at, name=table.name, apart=apart
        )
        place["on_error"] = read_on_error(table.on_error, verb=verb, at=at)
        key = choose_serde("key", None, options.key, holder="Materialized", at=at) or self._key
        value = choose_serde("value", None, options.value, holder="Materialized", at=at)
        value = value or self._value
        spec = spec_if_named(
            place, options, store=table.store, key=key, value=value, kinds=KEY_VALUE_KINDS
        )
        self._registry.add(
            TableFilterNode(
                **place,
                predicate=predicate,
                negate=verb == "filter_not",
                store=spec,
                explicit_store=spec is not None,
            )
        )
        return self._registry.handles.table(place["name"], key, value)

    def _map_values(
        self,
        verb: str,
        mapper: Callable[..., Any],
        table: FoldTable,
    ) -> KTable[K, Any]:
        at = user_origin()
        with_key = verb != "map_values"
        arguments = ("key", "value") if with_key else ("value",)
        check_function(mapper, arguments, role="mapper", verb=verb, at=at)
        mapped = self._mapped(verb, mapper, table)
        self._registry.add(
            TableMapValuesNode(
                **mapped.place,
                mapper=mapper,
                with_key=with_key,
                with_nulls=verb == "transform_values",
                store=mapped.spec,
                explicit_store=mapped.is_named,
            )
        )
        return self._of(mapped)

    def _mapped(
        self,
        verb: str,
        mapper: Callable[..., Any],
        table: FoldTable,
    ) -> Mapped:
        """Choose name, serdes and store of a table with other values."""
        at = user_origin()
        options = options_or(table.options, Materialized[Any, Any](), at=at)
        apart = table.store or options.store_name or function_name(mapper)
        place = self._registry.place(
            verb, parents=(self._name,), at=at, name=table.name, apart=apart
        )
        place["on_error"] = read_on_error(table.on_error, verb=verb, at=at)
        key = choose_serde("key", None, options.key, holder="Materialized", at=at) or self._key
        said = choose_serde("value", table.value, options.value, holder="Materialized", at=at)
        said = said or read_serde(mapper)
        spec = named = spec_if_named(
            place, options, store=table.store, key=key, value=said, kinds=KEY_VALUE_KINDS
        )
        if verb == "transform_values" and named is None:
            spec, _ = store_spec(place, options, store=None, key=key, value=said)
            spec = with_versions_of(spec, versions_of(self._registry, self._name))
        return Mapped(place, key, said, spec, is_named=named is not None)

    def _of(self, mapped: Mapped) -> KTable[Any, Any]:
        return self._registry.handles.table(mapped.place["name"], mapped.key, mapped.value)


def _refuse_key(step: str, key: object, at: Origin) -> None:
    if key is None:
        return
    msg = f"{step!r} is given key= but no mapper"
    raise BadOptionError(
        msg,
        at=at,
        why="without a mapper the keys do not change",
        fix="leave out key=, or give a mapper: to_stream(lambda key, value: ..., key=...)",
        fields={"option": "key"},
    )


def _check_flat(name: str, key: Serde[Any] | None, mapper: object, at: Origin) -> None:
    """Check that a table has windowed keys, and that no mapper changes them."""
    if mapper is not None:
        msg = f"to_stream of {name!r} cannot have both flat= and a mapper"
        raise BadOptionError(
            msg,
            at=at,
            why="each of them decides the new keys",
            fix="leave out flat=, or use select_key on the flat rows",
            fields={"option": "flat"},
        )
    if not isinstance(key, WindowedSerde | SessionWindowedSerde):
        msg = f"the rows of {name!r} cannot be flattened: its keys are not windowed"
        raise NotWindowedError(
            msg,
            at=at,
            why="a flat row is the key, start and end of a window, and its value",
            fix="leave out flat=, or use windowed_by(...) before the aggregation",
            fields={"table": name},
        )
