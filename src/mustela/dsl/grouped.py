"""A stream whose records are grouped by key: what can be folded into a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mustela.api.aggregates import Aggregate
from mustela.api.functions import check_function, check_initializer, function_name
from mustela.api.given_types import read_fold
from mustela.api.options import Materialized, options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose_serde
from mustela.api.windows import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    window_spec,
)
from mustela.dsl.cogroup import Cogrouping
from mustela.dsl.materialize import store_spec
from mustela.dsl.registry import Registry
from mustela.dsl.said import SaidAggregates, SaidTable, SaidVerbs, add_rows, is_said, with_times
from mustela.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream, WindowedGroup
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.primitives import IntSerde
from mustela.serdes.rows import Row
from mustela.topology.aggregate import AggregateKind, AggregateNode

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = ["KGroupedStream"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    """What an aggregation does with the records of a key."""

    kind: AggregateKind
    initializer: Callable[[], Any] | None = None
    adder: Callable[..., Any] | None = None
    merger: Callable[[Any, Any, Any], Any] | None = None
    associative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """What the user said of the result, and the serde of its values if nothing is said."""

    store: str | None
    name: str | None
    options: Materialized[Any, Any] | None
    value: type[Any] | Serde[Any] | None = None
    inherited: Serde[Any] | None = None


class KGroupedStream(Cogrouping[K, V], SaidVerbs[K, V], Generic[K, V]):
    """Records grouped by key; made by `KStream.group_by` and `KStream.group_by_key`.

    Records whose key or value is None are left out of every aggregation.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> sales = builder.stream("sales", key=str, value=int).group_by_key()
        >>> sales.reduce(int.__add__, store="totals").to_stream().to("totals")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     sale = driver.create_input_topic("sales")
        ...     sale.pipe_input("apple", 2)
        ...     sale.pipe_input("apple", 3)
        ...     driver.create_output_topic("totals").read_values_to_list()
        [2, 5]
    """

    def __init__(
        self,
        registry: Registry,
        parent: str,
        path: str,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
    ) -> None:
        self._registry = registry
        self._parent = parent
        self._path = path
        self._key = key
        self._value = value

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, int]:
        """Count the records of each key.

        The store and the result hold Kafka's 8-byte long. Counting begins before records travel
        to the lane of their key, so a frequent key costs no more than a rare one.

        Args:
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.

        Returns:
            The table of counts.

        Raises:
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> clicks = builder.stream("clicks", key=str, value=str)
            >>> clicks.group_by_key().count(store="clicks").to_stream().to("counts")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     click = driver.create_input_topic("clicks")
            ...     click.pipe_input("ann", "home")
            ...     click.pipe_input("ann", "shop")
            ...     driver.create_output_topic("counts").read_values_to_list()
            [1, 2]
        """
        table = _Table(store=store, name=name, options=materialized, inherited=IntSerde())
        return self._add(_Fold(kind="count"), table, at=user_origin())

    def reduce(
        self,
        adder: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        associative: bool = False,
        value: type[V] | Serde[V] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Fold the values of each key two by two, in the order of the records.

        The first value of a key is the first result; the adder is not called for it.

        Args:
            adder: Called with the result so far and the next value. If it returns None, the row
                is deleted, and the next value starts anew.
            associative: Whether values may be folded in any grouping and any order, as for sums
                and maxima: ``f(f(a, b), c) == f(a, f(b, c))`` and ``f(a, b) == f(b, a)``. Then
                folding begins before records travel to the lane of their key: much cheaper.
            value: Type or serde of the values; the stream's if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.

        Returns:
            The table of results.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the adder cannot be called with two values.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> bids = builder.stream("bids", key=str, value=int).group_by_key()
            >>> bids.reduce(max, associative=True, store="best").to_stream().to("best")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     bid = driver.create_input_topic("bids")
            ...     bid.pipe_input("vase", 40)
            ...     bid.pipe_input("vase", 55)
            ...     driver.create_output_topic("best").read_values_to_list()
            [40, 55]
        """
        at = user_origin()
        check_function(adder, ("aggregate", "value"), role="adder", verb="reduce", at=at)
        fold = _Fold(kind="reduce", adder=adder, associative=associative)
        table = _Table(
            store=store, name=name, options=materialized, value=value, inherited=self._value
        )
        return self._add(fold, table, at=at)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        merger: Callable[[K, A, A], A] | None = None,
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
    def aggregate(  # noqa: PLR0913 - two functions, and the keywords that all folds take
        self,
        initializer: Any = None,
        adder: Any = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        merger: Any = None,
        value: type[Any] | Serde[Any] | None = None,
        store: str | None = None,
        name: str | None = None,
        **fields: Aggregate,
    ) -> KTable[K, Any]:
        """Fold the records of each key into a value of any type, in the order of the records.

        The adder may change the aggregate it gets and return it.

        Args:
            initializer: Called without arguments for the first aggregate of a key: ``list``,
                ``dict``, ``lambda: 0``; not a value such as ``[]``.
            adder: Called with key, value and the aggregate so far. If it returns None, the row
                is deleted, and the next record starts anew.
            merger: Called with key and two aggregates, of which each holds some of the records.
                With it folding begins before records travel to the lane of their key.
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

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> visits = builder.stream("visits", key=str, value=str).group_by_key()
            >>> pages = visits.aggregate(list, lambda _user, page, seen: [*seen, page], store="p")
            >>> pages.to_stream().to("pages", value=list)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     visit = driver.create_input_topic("visits")
            ...     visit.pipe_input("ann", "home")
            ...     visit.pipe_input("ann", "shop")
            ...     driver.create_output_topic("pages").read_values_to_list()
            [['home'], ['home', 'shop']]
        """
        at = user_origin()
        functions = {"initializer": initializer, "adder": adder}
        if is_said(self, functions, fields, more={"merger": merger}):
            said_table = SaidTable(store=store, name=name, options=materialized, value=value)
            return self._said(fields, said_table, at=at)
        check_initializer(initializer, verb="aggregate", at=at, adder=adder)
        check_function(adder, ("key", "value", "aggregate"), role="adder", verb="aggregate", at=at)
        if merger is not None:
            check_function(merger, ("key", "left", "right"), role="merger", verb="aggregate", at=at)
        fold = _Fold(kind="aggregate", initializer=initializer, adder=adder, merger=merger)
        table = _Table(store=store, name=name, options=materialized, value=value)
        return self._add(fold, table, at=at)

    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows
    ) -> TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | SessionWindows
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Group the records by time too, so that each window has a result of its own.

        Args:
            windows: Which windows a record belongs to.

        Returns:
            The records in windows, which can be counted, reduced or aggregated.

        Raises:
            BadOptionError: If ``windows`` are none, or have a ``windows_for`` of their own.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TimeWindows
            >>> clicks = StreamsBuilder().stream("clicks", key=str, value=str).group_by_key()
            >>> hours = TimeWindows(size=timedelta(hours=1), grace=timedelta(minutes=1))
            >>> counts = clicks.windowed_by(hours).count(store="clicks-by-hour")
        """
        at = user_origin()
        group = WindowedGroup(
            registry=self._registry,
            parents=(self._parent,),
            path=self._path,
            key=self._key,
            value=self._value,
            windows=window_spec(windows, at=at),
        )
        return self._registry.handles.windowed(group)

    def _said_of(self) -> tuple[Serde[Any] | None, bool]:
        return self._value, False

    def _of_step(self, parent: str, path: str) -> KGroupedStream[K, Any]:
        return self._registry.handles.grouped(parent, path, self._key, None)

    def _add_said(
        self, said: SaidAggregates, *, store: str | None, name: str | None
    ) -> KTable[K, Any]:
        written = said.fold
        fold = _Fold(
            kind="aggregate",
            initializer=written.initializer,
            adder=written.adder,
            merger=written.merger,
        )
        table = _Table(store=store, name=name, options=said.options, value=said.cells)
        parent = self._parent
        if said.is_timed:
            parent = with_times(self._registry, parent, said.at)
        return add_rows(self._registry, self._add(fold, table, at=said.at, parent=parent), said)

    def _add(
        self, fold: _Fold, table: _Table, *, at: Origin, parent: str | None = None
    ) -> KTable[K, Any]:
        options = options_or(table.options, Materialized[Any, Any](), at=at)
        place = self._registry.place(
            fold.kind,
            parents=(parent or self._parent,),
            path=self._path,
            at=at,
            name=table.name,
            apart=table.store or options.store_name or function_name(fold.adder),
        )
        key = choose_serde("key", self._key, options.key, holder="Materialized", at=at)
        value = choose_serde("value", table.value, options.value, holder="Materialized", at=at)
        value = value or table.inherited or read_fold(fold.adder, fold.initializer)
        spec, explicit = store_spec(place, options, store=table.store, key=key, value=value)
        node = AggregateNode(
            **place,
            kind=fold.kind,
            store=spec,
            explicit_store=explicit,
            key=spec.key_serde,
            initializer=fold.initializer,
            adder=fold.adder,
            merger=fold.merger,
            associative=fold.associative,
        )
        self._registry.add(node)
        return self._registry.handles.table(node.name, key, value)
