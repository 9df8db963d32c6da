"""A table whose rows are grouped anew: what can be folded into a table of the groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mustela.api.aggregates import Aggregate
from mustela.api.errors import SubtractorError
from mustela.api.functions import check_function, check_initializer, function_name
from mustela.api.given_types import read_fold
from mustela.api.options import Materialized, options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose_serde
from mustela.dsl.materialize import store_spec
from mustela.dsl.registry import Registry
from mustela.dsl.said import SaidAggregates, SaidTable, SaidVerbs, add_rows, is_said
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.primitives import IntSerde
from mustela.serdes.rows import Row
from mustela.topology.aggregate import AggregateKind
from mustela.topology.table_aggregate import TableAggregateNode

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = ["KGroupedTable"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    """What an aggregation does with the rows of a group."""

    kind: AggregateKind
    initializer: Callable[[], Any] | None = None
    adder: Callable[..., Any] | None = None
    subtractor: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What the user said of the result, and the serde of its values if nothing is said."""

    store: str | None
    name: str | None
    options: Materialized[Any, Any] | None
    value: type[Any] | Serde[Any] | None = None
    inherited: Serde[Any] | None = None


class KGroupedTable(SaidVerbs[K, V], Generic[K, V]):
    """The rows of a table by group; made by `KTable.group_by`.

    A row that changes is taken away from its old group and added to its new one, in this order;
    where the group is the same, that is one change of the result. A group that has become empty
    stays in the result, with whatever the subtractor left: a count of 0, for instance.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> stock = builder.table("stock", key=str, value=int)
        >>> by_first_letter = stock.group_by(lambda item, count: (item[0], count), key=str)
        >>> total = by_first_letter.reduce(int.__add__, int.__sub__, value=int, store="total")
        >>> total.to_stream().to("totals")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     item = driver.create_input_topic("stock")
        ...     item.pipe_input("apple", 3)
        ...     item.pipe_input("apricot", 2)
        ...     item.pipe_input("apple", 4)
        ...     driver.create_output_topic("totals").read_key_values_to_list()
        [('a', 3), ('a', 5), ('a', 6)]
    """

    def __init__(
        self, registry: Registry, parent: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> None:
        self._registry = registry
        self._parent = parent
        self._key = key
        self._value = value

    def _stage_name(self) -> str:
        return self._parent

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, int]:
        """Count the rows of each group.

        Args:
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.

        Returns:
            The table of counts. A group that has become empty has a count of 0.

        Raises:
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> homes = builder.table("homes", key=str, value=str)
            >>> by_town = homes.group_by(lambda person, town: (town, person), key=str)
            >>> counts = by_town.count(store="inhabitants")
        """
        result = _Result(store=store, name=name, options=materialized, inherited=IntSerde())
        return self._add(_Fold(kind="count"), result, at=user_origin())

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None] | None = None,
        materialized: Materialized[K, V] | None = None,
        *,
        value: type[V] | Serde[V] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Fold the values of each group two by two.

        The first value of a group is the first result; the adder is not called for it. Both
        functions may change the result that they get and return it.

        Args:
            adder: Called with the result so far and a value that has come to the group.
            subtractor: Called with the result so far and a value that has left the group; must
                undo what the adder did. If it returns None, the row is deleted.
            value: Type or serde of the values; the grouping's if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.

        Returns:
            The table of results.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If a function cannot be called with two values.
            SubtractorError: If there is no subtractor.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> stock = builder.table("stock", key=str, value=int)
            >>> by_first_letter = stock.group_by(lambda item, n: (item[0], n), key=str, value=int)
            >>> totals = by_first_letter.reduce(int.__add__, int.__sub__, store="totals")
        """
        at = user_origin()
        arguments = ("aggregate", "value")
        check_function(adder, arguments, role="adder", verb="reduce", at=at)
        _check_subtractor(subtractor, arguments, verb="reduce", at=at)
        fold = _Fold(kind="reduce", adder=adder, subtractor=subtractor)
        result = _Result(
            store=store, name=name, options=materialized, value=value, inherited=self._value
        )
        return self._add(fold, result, at=at)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None] | None = None,
        materialized: Materialized[K, A] | None = None,
        *,
        value: type[A] | Serde[A] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        *,
        value: type[R] | Serde[R],
        materialized: Materialized[Any, Any] | None = None,
        store: str | None = None,
        name: str | None = None,
        **fields: Aggregate,
    ) -> KTable[K, R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: None = None,
        materialized: Materialized[Any, Any] | None = None,
        store: str | None = None,
        name: str | None = None,
        **fields: Aggregate,
    ) -> KTable[K, Row]: ...
    def aggregate(  # noqa: PLR0913 - three functions, and the keywords that all folds take
        self,
        initializer: Any = None,
        adder: Any = None,
        subtractor: Any = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        value: type[Any] | Serde[Any] | None = None,
        store: str | None = None,
        name: str | None = None,
        **fields: Aggregate,
    ) -> KTable[K, Any]:
        """Fold the values of each group into a value of any type.

        Both functions may change the aggregate that they get and return it.

        Args:
            initializer: Called without arguments for the first aggregate of a group: ``list``,
                ``dict``, ``lambda: 0``; not a value such as ``[]``.
            adder: Called with group, a value that has come to it, and the aggregate so far.
            subtractor: Called with group, a value that has left it, and the aggregate so far;
                must undo what the adder did. If one of the two returns None, the row is deleted,
                and the next value starts anew.
            value: Type or serde of the aggregates; a serde that keeps Python's types if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.
            fields: Instead of functions: aggregates by name, such as ``total=Sum("amount")``, which
                make rows of these fields; ``value`` is then the type of the rows, `Row` if not
                given. Names of other arguments cannot be fields.

        Returns:
            The table of aggregates.

        Raises:
            DuplicateNameError: If another step already has this name.
            InitializerError: If the initializer is a value.
            FunctionError: If a function cannot be called with what it will get.
            SubtractorError: If there is no subtractor.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> homes = builder.table("homes", key=str, value=str)
            >>> by_town = homes.group_by(lambda person, town: (town, person), key=str)
            >>> people = by_town.aggregate(
            ...     list,
            ...     lambda _town, person, people: sorted([*people, person]),
            ...     lambda _town, person, people: [p for p in people if p != person],
            ...     store="people",
            ... )
            >>> people.to_stream().to("people", value=list)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     home = driver.create_input_topic("homes")
            ...     home.pipe_input("bob", "Rome")
            ...     home.pipe_input("ann", "Rome")
            ...     home.pipe_input("bob", None)
            ...     driver.create_output_topic("people").read_values_to_list()
            [['bob'], ['ann', 'bob'], ['ann']]
        """
        at = user_origin()
        functions = {"initializer": initializer, "adder": adder}
        if is_said(self, functions, fields, more={"subtractor": subtractor}):
            table = SaidTable(store=store, name=name, options=materialized, value=value)
            return self._said(fields, table, at=at)
        arguments = ("key", "value", "aggregate")
        check_initializer(initializer, verb="aggregate", at=at, adder=adder)
        check_function(adder, arguments, role="adder", verb="aggregate", at=at)
        _check_subtractor(subtractor, arguments, verb="aggregate", at=at)
        fold = _Fold(kind="aggregate", initializer=initializer, adder=adder, subtractor=subtractor)
        result = _Result(store=store, name=name, options=materialized, value=value)
        return self._add(fold, result, at=at)

    def _said_of(self) -> tuple[Serde[Any] | None, bool]:
        return self._value, True

    def _add_said(
        self, said: SaidAggregates, *, store: str | None, name: str | None
    ) -> KTable[K, Any]:
        written = said.fold
        fold = _Fold(
            kind="aggregate",
            initializer=written.initializer,
            adder=written.adder,
            subtractor=written.subtractor,
        )
        result = _Result(store=store, name=name, options=said.options, value=said.cells)
        return add_rows(self._registry, self._add(fold, result, at=said.at), said)

    def _add(self, fold: _Fold, result: _Result, *, at: Origin) -> KTable[K, Any]:
        options = options_or(result.options, Materialized[Any, Any](), at=at)
        place = self._registry.place(
            fold.kind,
            parents=(self._parent,),
            at=at,
            name=result.name,
            apart=result.store or options.store_name or function_name(fold.adder),
        )
        key = choose_serde("key", self._key, options.key, holder="Materialized", at=at)
        value = choose_serde("value", result.value, options.value, holder="Materialized", at=at)
        value = value or result.inherited or read_fold(fold.adder, fold.initializer)
        spec, explicit = store_spec(
            place,
            options,
            store=result.store,
            key=key,
            value=value,
            never_expires="rows of the table are taken out of it again when they change",
        )
        node = TableAggregateNode(
            **place,
            kind=fold.kind,
            store=spec,
            explicit_store=explicit,
            key=spec.key_serde,
            initializer=fold.initializer,
            adder=fold.adder,
            subtractor=fold.subtractor,
        )
        self._registry.add(node)
        return self._registry.handles.table(node.name, key, value)


def _check_subtractor(
    subtractor: object, arguments: tuple[str, ...], *, verb: str, at: Origin
) -> None:
    if subtractor is not None:
        check_function(subtractor, arguments, role="subtractor", verb=verb, at=at)
        return
    wanted = ", ".join(arguments)
    msg = f"{verb} of a re-grouped table needs a subtractor"
    raise SubtractorError(
        msg,
        at=at,
        why="when a row changes or goes, its old value must be taken out of its group again",
        fix=f"add a function that undoes what the adder did: lambda {wanted}: ...",
        fields={"verb": verb, "arguments": arguments},
    )
