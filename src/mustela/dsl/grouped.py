"""A stream whose records are grouped by key, ready to be folded into a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mustela.api.aggregates import Aggregate
from mustela.api.functions import check_function
from mustela.api.handlers import OnError
from mustela.api.options import Materialized
from mustela.api.origin import user_origin
from mustela.api.windows import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    window_spec,
)
from mustela.dsl.cogroup import Cogrouping
from mustela.dsl.folds import Fold, FoldTable, Group, begin_fold, check_fold
from mustela.dsl.said import SaidVerbs, is_said
from mustela.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream, WindowedGroup
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.primitives import IntSerde
from mustela.serdes.rows import Row
from mustela.topology.aggregate import AggregateNode

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = ["KGroupedStream"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


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

    def __init__(self, group: Group) -> None:
        self._group = group

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[K, int]:
        """Count the records of each key.

        The store and the result hold Kafka's 8-byte long. Counting begins before records travel to
        the lane of their key, so a frequent key costs no more than a rare one.

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
        table = FoldTable(store=store, name=name, options=materialized, inherited=IntSerde())
        return self._fold(self._group, Fold(kind="count"), table, at=user_origin())

    def reduce(  # noqa: PLR0913 - a function, and the keywords that all folds take
        self,
        adder: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        *,
        associative: bool = False,
        value: type[V] | Serde[V] | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Fold the values of each key in pairs, in the order of the records.

        The first value of a key is the first result; the adder is not called for it.

        Args:
            adder: Called with the current result and the next value. If it returns None, the row is
                deleted, and the next value begins a new one.
            associative: Whether values may be folded in any grouping and any order, as for sums and
                maxima: ``f(f(a, b), c) == f(a, f(b, c))`` and ``f(a, b) == f(b, a)``. Then folding
                begins before records travel to the lane of their key, which is much cheaper.
            value: Type or serde of the values; the stream's if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.
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
        fold = Fold(kind="reduce", adders=(adder,), associative=associative)
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
        adder: Callable[[K, V, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        merger: Callable[[K, A, A], A] | None = None,
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
        on_error: OnError | None = None,
        **fields: Aggregate,
    ) -> KTable[K, Any]:
        """Fold the records of each key into a value of any type, in the order of the records.

        The adder may change the aggregate it gets and return it.

        Args:
            initializer: Called without arguments for the first aggregate of a key: ``list``,
                ``dict``, ``lambda: 0``; not a value such as ``[]``.
            adder: Called with key, value and the current aggregate. If it returns None, the row is
                deleted, and the next record begins a new one.
            merger: Called with key and two aggregates, each of some of the records. With it,
                folding begins before records travel to the lane of their key.
            value: Type or serde of the aggregates; a serde that keeps Python's types if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.
            materialized: Options of the store.
            fields: Instead of functions: aggregates by name, such as ``total=Sum("amount")``, which
                become the fields of rows; ``value`` is then the type of the rows, `Row` if not
                given. Fields cannot have the names of other arguments.

        Returns:
            The table of aggregates.

        Raises:
            DuplicateNameError: If another step already has this name.
            InitializerError: If the initializer is a value, not a function.
            FunctionError: If a function cannot be called with its arguments.

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
        table = FoldTable(
            store=store, name=name, on_error=on_error, options=materialized, value=value
        )
        if is_said(self, functions, fields, more={"merger": merger}):
            return self._said(fields, table, at=at)
        check_fold(initializer, adder, merger, at=at)
        fold = Fold(kind="aggregate", initializer=initializer, adders=(adder,), merger=merger)
        return self._fold(self._group, fold, table, at=at)

    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows
    ) -> TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | SessionWindows
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Group the records by time too, so that each window has its own result.

        Args:
            windows: The windows for the records.

        Returns:
            The records in windows, which can be counted, reduced or aggregated.

        Raises:
            BadOptionError: If ``windows`` are not windows, or have their own ``windows_for``.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TimeWindows
            >>> clicks = StreamsBuilder().stream("clicks", key=str, value=str).group_by_key()
            >>> hours = TimeWindows(size=timedelta(hours=1), grace=timedelta(minutes=1))
            >>> counts = clicks.windowed_by(hours).count(store="clicks-by-hour")
        """
        at = user_origin()
        group = WindowedGroup.of(self._group, window_spec(windows, at=at))
        return group.registry.handles.windowed(group)

    def _fold(self, group: Group, fold: Fold, table: FoldTable, *, at: Origin) -> KTable[K, Any]:
        begun = begin_fold(group, fold, table, at=at)
        node = AggregateNode(
            **begun.facts, adder=fold.adder, merger=fold.merger, associative=fold.associative
        )
        group.registry.add(node)
        return group.registry.handles.table(node.name, begun.key, begun.value)
