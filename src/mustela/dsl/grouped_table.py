"""A table whose rows are regrouped, ready to be folded into a table of the groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mustela.api.aggregates import Aggregate
from mustela.api.errors import SubtractorError
from mustela.api.functions import check_function
from mustela.api.handlers import OnError
from mustela.api.options import Materialized
from mustela.api.origin import user_origin
from mustela.dsl.folds import Fold, FoldTable, Group, begin_fold, check_fold
from mustela.dsl.said import SaidVerbs, is_said
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.primitives import IntSerde
from mustela.serdes.rows import Row
from mustela.topology.table_aggregate import TableAggregateNode

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = ["KGroupedTable"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


_TAKEN_OUT = "rows of the table are removed from it again when they change"


class KGroupedTable(SaidVerbs[K, V], Generic[K, V]):
    """The rows of a table by group; made by `KTable.group_by`.

    A row that changes is subtracted from its old group and added to its new one, in this order; if
    the group is the same, that is one change of the result. A group that has become empty stays in
    the result, with whatever the subtractor left: a count of 0, for instance.

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

    _retracts = True

    def __init__(self, group: Group) -> None:
        self._group = group

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
        table = FoldTable(store=store, name=name, options=materialized, inherited=IntSerde())
        return self._fold(self._group, Fold(kind="count"), table, at=user_origin())

    def reduce(  # noqa: PLR0913 - two functions, and the keywords that all folds take
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None] | None = None,
        materialized: Materialized[K, V] | None = None,
        *,
        value: type[V] | Serde[V] | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Fold the values of each group in pairs.

        The first value of a group is the first result; the adder is not called for it. Both
        functions may change the result that they get and return it.

        Args:
            adder: Called with the current result and a value that has been added to the group.
            subtractor: Called with the current result and a value that has left the group; it must
                undo what the adder did. If it returns None, the row is deleted.
            value: Type or serde of the values; the grouping's if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

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
        fold = Fold(kind="reduce", adders=(adder,), subtractor=subtractor)
        table = FoldTable(
            store=store,
            name=name,
            on_error=on_error,
            options=materialized,
            value=value,
            inherited=self._group.value,
        )
        return self._fold(self._group, fold, table, at=at)

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
        on_error: OnError | None = None,
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        *,
        value: type[R] | Serde[R],
        materialized: Materialized[Any, Any] | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
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
        on_error: OnError | None = None,
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
        on_error: OnError | None = None,
        **fields: Aggregate,
    ) -> KTable[K, Any]:
        """Fold the values of each group into a value of any type.

        Both functions may change the aggregate that they get and return it.

        Args:
            initializer: Called without arguments for the first aggregate of a group: ``list``,
                ``dict``, ``lambda: 0``; not a value such as ``[]``.
            adder: Called with the group, a value that has been added to it, and the current
                aggregate.
            subtractor: Called with the group, a value that has left it, and the current aggregate;
                it must undo what the adder did. If one of the two returns None, the row is deleted,
                and the next value begins a new one.
            value: Type or serde of the aggregates; a serde that keeps Python's types if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.
            fields: Instead of functions: aggregates by name, such as ``total=Sum("amount")``, which
                become the fields of rows; ``value`` is then the type of the rows, `Row` if not
                given. Fields cannot have the names of other arguments.

        Returns:
            The table of aggregates.

        Raises:
            DuplicateNameError: If another step already has this name.
            InitializerError: If the initializer is a value, not a function.
            FunctionError: If a function cannot be called with its arguments.
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
        table = FoldTable(
            store=store, name=name, on_error=on_error, options=materialized, value=value
        )
        if is_said(self, functions, fields, more={"subtractor": subtractor}):
            return self._said(fields, table, at=at)
        check_fold(initializer, adder, at=at)
        _check_subtractor(subtractor, ("key", "value", "aggregate"), verb="aggregate", at=at)
        fold = Fold(
            kind="aggregate", initializer=initializer, adders=(adder,), subtractor=subtractor
        )
        return self._fold(self._group, fold, table, at=at)

    def _fold(self, group: Group, fold: Fold, table: FoldTable, *, at: Origin) -> KTable[K, Any]:
        begun = begin_fold(group, fold, table, at=at, never_expires=_TAKEN_OUT)
        node = TableAggregateNode(**begun.facts, adder=fold.adder, subtractor=fold.subtractor)
        group.registry.add(node)
        return group.registry.handles.table(node.name, begun.key, begun.value)


def _check_subtractor(
    subtractor: object, arguments: tuple[str, ...], *, verb: str, at: Origin
) -> None:
    if subtractor is not None:
        check_function(subtractor, arguments, role="subtractor", verb=verb, at=at)
        return
    wanted = ", ".join(arguments)
    msg = f"{verb} of a regrouped table needs a subtractor"
    raise SubtractorError(
        msg,
        at=at,
        why="when a row changes or is deleted, its old value must be removed from its group",
        fix=f"add a function that undoes what the adder did: lambda {wanted}: ...",
        fields={"verb": verb, "arguments": arguments},
    )
