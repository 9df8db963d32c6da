"""Grouped streams in windows, ready to be folded into a table by key and window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from mustela.api.aggregates import Aggregate
from mustela.api.errors import BadOptionError, RetentionError
from mustela.api.functions import check_function
from mustela.api.handlers import OnError
from mustela.api.names import path_name
from mustela.api.options import Materialized
from mustela.api.origin import user_origin
from mustela.api.spans import milliseconds
from mustela.api.window_specs import (
    SessionWindowSpec,
    SlidingWindowSpec,
    UnlimitedWindowSpec,
    WindowEmit,
    WindowSpec,
)
from mustela.api.windows import EmitStrategy
from mustela.dsl.folds import Fold, FoldTable, Group, begin_fold, check_fold, check_merger
from mustela.dsl.said import SaidVerbs, is_said
from mustela.errors import Origin
from mustela.model import Windowed
from mustela.serdes.base import Serde
from mustela.serdes.primitives import IntSerde
from mustela.serdes.rows import Row
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.window_aggregate import WindowAggregateNode

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = [
    "SessionWindowedKStream",
    "TimeWindowedKStream",
    "WindowedGroup",
    "add_window_aggregate",
    "windowed_serde",
]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedGroup(Group):
    """Grouped records in windows.

    Attributes:
        windows: The windows for the records.
        emit: When changes are sent on.
    """

    windows: WindowSpec
    emit: WindowEmit = "update"

    @classmethod
    def of(cls, group: Group, windows: WindowSpec) -> WindowedGroup:
        """Return a group with windows."""
        return cls(
            registry=group.registry,
            parents=group.parents,
            path=group.path,
            key=group.key,
            value=group.value,
            windows=windows,
        )


def windowed_serde(windows: WindowSpec, key: Serde[Any] | None) -> Serde[Any]:
    """Return the serde of windowed keys in Kafka's layout, given that of the keys inside."""
    inner = key or ValueSerde(sort_keys=True)
    if isinstance(windows, SessionWindowSpec):
        return SessionWindowedSerde(inner)
    if isinstance(windows, UnlimitedWindowSpec):
        return WindowedSerde(inner, window_size=None)
    return WindowedSerde(inner, window_size=timedelta(milliseconds=windows.key_size_ms))


def add_window_aggregate(
    group: WindowedGroup, fold: Fold, table: FoldTable, *, at: Origin
) -> KTable[Any, Any]:
    """Add a windowed aggregation to the topology.

    Args:
        group: What is aggregated.
        fold: How it is aggregated.
        table: The user's options for the result.
        at: The user's line.

    Raises:
        OptionConflictError: If an option is given twice and the two differ.
        DuplicateNameError: If the step's name is taken.
        RetentionError: If the store would forget windows that are still open.
    """
    kind = "session" if isinstance(group.windows, SessionWindowSpec) else "window"
    called = replace(group, path=path_name(group.path, "windowed_by"))
    begun = begin_fold(called, fold, table, at=at, kinds=(kind,))
    facts, retention = begun.facts, begun.options.retention
    facts["store"] = _windowed_store(facts["store"], kind, group.windows, retention, at=at)
    node = WindowAggregateNode(
        **facts,
        windows=group.windows,
        window_key=windowed_serde(group.windows, begun.key),
        adders=fold.adders,
        merger=fold.merger,
        associative=fold.associative,
        emit=group.emit,
    )
    group.registry.add(node)
    return group.registry.handles.table(node.name, node.window_key, begun.value)


def _windowed_store(
    spec: StoreSpec,
    kind: str,
    windows: WindowSpec,
    retention: timedelta | None,
    *,
    at: Origin,
) -> StoreSpec:
    """Return a store's specification with its kind and how long it keeps a window."""
    least = windows.retention_ms
    kept = least if spec.retention_ms is None else spec.retention_ms
    if retention is not None:
        kept = milliseconds("Materialized", "retention", retention, at=at)
    if kept is not None and (least is None or kept < least):
        raise _too_short(spec.name, windows, timedelta(milliseconds=kept), at)
    size = None if isinstance(windows, SessionWindowSpec) else windows.key_size_ms
    if spec.window_ms not in {None, size} or spec.duplicates:
        msg = f"store {spec.name!r} does not fit these windows"
        raise BadOptionError(
            msg,
            evidence={"store": spec.window_ms, "windows": size, "duplicates": spec.duplicates},
            at=at,
            why="an aggregation has one value for each window, and its windows have one length",
            fix="give the supplier the windows' size, and no retain_duplicates",
            fields={"store": spec.name},
        )
    sliding = isinstance(windows, SlidingWindowSpec)
    return replace(spec, kind=kind, retention_ms=kept, window_ms=size, indexed=sliding)


def _too_short(store: str, windows: WindowSpec, retention: timedelta, at: Origin) -> RetentionError:
    least = windows.retention_ms
    if least is None:
        why, fix = "an unlimited window never ends", "leave out retention="
    else:
        needed = timedelta(milliseconds=least)
        parts = {
            "TimeWindowSpec": "its size plus the grace",
            "SlidingWindowSpec": "twice the time difference plus the grace",
            "SessionWindowSpec": "the gap plus the grace",
        }[type(windows).__name__]
        why = f"a window still takes records for {parts}: {needed}"
        fix = f"write retention={needed!r}, or more, or leave it out"
    return RetentionError(
        f"store {store!r} cannot keep its windows for {retention}: that is too short",
        evidence={"retention": retention, "needed": "for ever" if least is None else least},
        at=at,
        why=why,
        fix=fix,
        fields={"store": store, "retention": retention, "needed_ms": least},
    )


class _WindowedKStream(SaidVerbs[Windowed[K], V], Generic[K, V]):
    """What streams in windows of any kind share."""

    def __init__(self, group: WindowedGroup) -> None:
        self._group = self._windows = group

    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """Choose when the following aggregations send on the result of a window.

        Args:
            strategy: `EmitStrategy.on_window_update` or `EmitStrategy.on_window_close`.

        Returns:
            The same windows; this object does not change.

        Raises:
            BadOptionError: If it is not a strategy, or waits for the close of windows that never
                close.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TimeWindows, TopologyTestDriver
            >>> from mustela.windows import EmitStrategy
            >>> builder = StreamsBuilder()
            >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
            >>> minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
            >>> final = clicks.windowed_by(minutes).emit_strategy(EmitStrategy.on_window_close())
            >>> final.count(store="clicks").to_stream().to("counts")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     click = driver.create_input_topic("clicks")
            ...     click.pipe_input("ann", "home", timestamp=1_000)
            ...     click.pipe_input("ann", "shop", timestamp=2_000)
            ...     click.pipe_input("bob", "home", timestamp=61_000)
            ...     driver.create_output_topic("counts").read_key_values_to_list()
            [(Windowed(key='ann', start=0, end=60000), 2)]
        """
        at = user_origin()
        if not isinstance(cast("object", strategy), EmitStrategy):
            msg = f"emit_strategy needs a strategy, not {strategy!r}"
            fix = "pass EmitStrategy.on_window_update() or EmitStrategy.on_window_close()"
            raise BadOptionError(msg, at=at, fix=fix, fields={"option": "strategy"})
        if strategy.emit == "close" and isinstance(self._windows.windows, UnlimitedWindowSpec):
            msg = "unlimited windows cannot be sent on when they close: they never do"
            raise BadOptionError(
                msg,
                at=at,
                fix="leave out emit_strategy, or use TimeWindows",
                fields={"option": "strategy"},
            )
        return type(self)(replace(self._windows, emit=strategy.emit))

    def count(
        self,
        materialized: Materialized[K, int] | None = None,
        *,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], int]:
        """Count the records of each key in each window.

        Records without a value count too, except in sliding windows, which leave them out.

        Args:
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store. Its ``retention`` is how long a window is kept.

        Returns:
            The table of counts, by key and window.

        Raises:
            DuplicateNameError: If another step already has this name.
            RetentionError: If windows would be dropped while they still take records.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TimeWindows, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
            >>> hours = TimeWindows(size=timedelta(hours=1), grace=timedelta(minutes=5))
            >>> clicks.windowed_by(hours).count(store="clicks").to_stream().to("counts")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     click = driver.create_input_topic("clicks")
            ...     click.pipe_input("ann", "home", timestamp=0)
            ...     click.pipe_input("ann", "shop", timestamp=5)
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
    ) -> KTable[Windowed[K], V]:
        """Fold the values of each key and window in pairs, in the order of the records.

        The first value is the first result; the adder is not called for it. A null value is folded
        like any other, except in sliding windows, which leave it out. When sessions are merged, the
        adder merges their results.

        Args:
            adder: Called with the current result and the next value. If it returns None, the
                window's row is deleted, and the next value begins a new one.
            associative: Whether values may be folded in any grouping and any order. Then folding in
                time windows begins before records travel to the lane of their key.
            value: Type or serde of the values; the stream's if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.
            materialized: Options of the store. Its ``retention`` is how long a window is kept.

        Returns:
            The table of results, by key and window.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the adder cannot be called with two values.
            RetentionError: If windows would be dropped while they still take records.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TimeWindows
            >>> builder = StreamsBuilder()
            >>> bids = builder.stream("bids", key=str, value=int).group_by_key()
            >>> days = TimeWindows(size=timedelta(days=1), grace=timedelta(0))
            >>> best = bids.windowed_by(days).reduce(max, associative=True, store="best")
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

    def _fold(self, group: Group, fold: Fold, table: FoldTable, *, at: Origin) -> KTable[Any, Any]:
        windowed = replace(self._windows, parents=group.parents)
        return add_window_aggregate(windowed, fold, table, at=at)


class TimeWindowedKStream(_WindowedKStream[K, V]):
    """Grouped records in time windows; made by `KGroupedStream.windowed_by`.

    Records without a key are left out. A record that arrives after a window's end plus its grace is
    dropped for that window and counted; it may still belong to a later one.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import StreamsBuilder, TimeWindows, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> sales = builder.stream("sales", key=str, value=int).group_by_key()
        >>> size, advance = timedelta(seconds=10), timedelta(seconds=5)
        >>> hopping = TimeWindows(size=size, advance=advance, grace=timedelta(0))
        >>> sales.windowed_by(hopping).reduce(int.__add__, store="s").to_stream().to("sums")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("sales").pipe_input("apple", 3, timestamp=7_000)
        ...     rows = driver.create_output_topic("sums").read_key_values_to_list()
        >>> [(window.start, window.end, total) for window, total in rows]
        [(0, 10000, 3), (5000, 15000, 3)]
    """

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
    ) -> KTable[Windowed[K], A]: ...
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
    ) -> KTable[Windowed[K], R]: ...
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
    ) -> KTable[Windowed[K], Row]: ...
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
    ) -> KTable[Windowed[K], Any]:
        """Fold the records of each key and window into a value of any type, in their order.

        The adder may change the aggregate it gets and return it.

        Args:
            initializer: Called without arguments for the first aggregate of a window.
            adder: Called with key, value and the current aggregate; the value may be None, except
                in sliding windows. If it returns None, the window's row is deleted.
            merger: Called with key and two aggregates, each of some of the records. With it,
                folding in time windows begins before records travel to their lane.
            value: Type or serde of the aggregates; a serde that keeps Python's types if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.
            materialized: Options of the store. Its ``retention`` is how long a window is kept.
            fields: Instead of functions: aggregates by name, such as ``total=Sum("amount")``, which
                become the fields of rows; ``value`` is then the type of the rows, `Row` if not
                given. Fields cannot have the names of other arguments.

        Returns:
            The table of aggregates, by key and window.

        Raises:
            DuplicateNameError: If another step already has this name.
            InitializerError: If the initializer is a value, not a function.
            FunctionError: If a function cannot be called with its arguments.
            RetentionError: If windows would be dropped while they still take records.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TimeWindows, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> visits = builder.stream("visits", key=str, value=str).group_by_key()
            >>> hours = visits.windowed_by(TimeWindows(size=timedelta(hours=1), grace=timedelta(0)))
            >>> pages = hours.aggregate(list, lambda _user, page, seen: [*seen, page], store="p")
            >>> pages.to_stream().to("pages", value=list)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     visit = driver.create_input_topic("visits")
            ...     visit.pipe_input("ann", "home", timestamp=0)
            ...     visit.pipe_input("ann", "shop", timestamp=1)
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


class SessionWindowedKStream(_WindowedKStream[K, V]):
    """Grouped records in sessions; made by `KGroupedStream.windowed_by`.

    Records without a key are left out. A record that extends a session, or merges two, deletes the
    rows of the earlier sessions and adds a row for the new one. A record whose session would
    already be over is dropped and counted.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import SessionWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> visits = builder.stream("visits", key=str, value=str).group_by_key()
        >>> sessions = SessionWindows(inactivity_gap=timedelta(seconds=5), grace=timedelta(0))
        >>> visits.windowed_by(sessions).count(store="v").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     visit = driver.create_input_topic("visits")
        ...     visit.pipe_input("ann", "home", timestamp=0)
        ...     visit.pipe_input("ann", "shop", timestamp=4_000)
        ...     counts = driver.create_output_topic("counts").read_key_values_to_map()
        ...     {str(session): count for session, count in counts.items()}
        {'[ann@0/0]': None, '[ann@0/4000]': 2}
    """

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        merger: Callable[[K, A, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        value: type[A] | Serde[A] | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]: ...
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
    ) -> KTable[Windowed[K], R]: ...
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
    ) -> KTable[Windowed[K], Row]: ...
    def aggregate(  # noqa: PLR0913 - three functions, and the keywords that all folds take
        self,
        initializer: Any = None,
        adder: Any = None,
        merger: Any = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        value: type[Any] | Serde[Any] | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        **fields: Aggregate,
    ) -> KTable[Windowed[K], Any]:
        """Fold the records of each session into a value of any type.

        For each record the initializer makes an aggregate, the merger adds the session or sessions
        to which the record belongs, and then the adder adds the record. All of them may change the
        aggregates that they get and return one of them.

        Args:
            initializer: Called without arguments for each record.
            adder: Called with key, value and the current aggregate; the value may be None. If it
                returns None, the session's row is deleted.
            merger: Called with key, the current aggregate and that of a session.
            value: Type or serde of the aggregates; a serde that keeps Python's types if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.
            materialized: Options of the store. Its ``retention`` is how long a session is kept.
            fields: Instead of functions: aggregates by name, such as ``total=Sum("amount")``, which
                become the fields of rows; ``value`` is then the type of the rows, `Row` if not
                given. Fields cannot have the names of other arguments.

        Returns:
            The table of aggregates, by key and session.

        Raises:
            DuplicateNameError: If another step already has this name.
            InitializerError: If the initializer is a value, not a function.
            FunctionError: If a function cannot be called with its arguments.
            RetentionError: If sessions would be dropped while they still take records.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import SessionWindows, StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> visits = builder.stream("visits", key=str, value=str).group_by_key()
            >>> gap = SessionWindows(inactivity_gap=timedelta(minutes=5), grace=timedelta(0))
            >>> pages = visits.windowed_by(gap).aggregate(
            ...     list,
            ...     lambda _user, page, seen: [*seen, page],
            ...     lambda _user, left, right: left + right,
            ...     store="pages",
            ... )
            >>> pages.to_stream().to("pages", value=list)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     visit = driver.create_input_topic("visits")
            ...     visit.pipe_input("ann", "home", timestamp=0)
            ...     visit.pipe_input("ann", "shop", timestamp=1)
            ...     driver.create_output_topic("pages").read_values_to_list()
            [['home'], None, ['home', 'shop']]
        """
        at = user_origin()
        functions = {"initializer": initializer, "adder": adder, "merger": merger}
        table = FoldTable(
            store=store, name=name, on_error=on_error, options=materialized, value=value
        )
        if is_said(self, functions, fields):
            return self._said(fields, table, at=at)
        check_merger(merger, at=at)
        check_fold(initializer, adder, merger, at=at)
        fold = Fold(kind="aggregate", initializer=initializer, adders=(adder,), merger=merger)
        return self._fold(self._group, fold, table, at=at)
