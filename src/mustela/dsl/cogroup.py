"""Several grouped streams that are folded into one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mustela.api.aggregates import Aggregate
from mustela.api.errors import BadOptionError, JoinKeysError, OtherBuilderError
from mustela.api.functions import check_function, check_initializer
from mustela.api.handlers import OnError
from mustela.api.names import path_name
from mustela.api.options import Materialized
from mustela.api.origin import user_origin
from mustela.api.windows import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    window_spec,
)
from mustela.dsl.folds import Fold, FoldTable, Group, begin_fold, check_merger
from mustela.dsl.missing import VerbStage
from mustela.dsl.said import SaidAggregates, Source, is_said, said_fold, tagged
from mustela.dsl.windowed import WindowedGroup, add_window_aggregate
from mustela.errors import Origin
from mustela.model import Windowed
from mustela.serdes.base import Serde
from mustela.topology.cogroup import CogroupNode

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = [
    "CogroupedKStream",
    "Cogrouping",
    "SessionWindowedCogroupedKStream",
    "TimeWindowedCogroupedKStream",
]

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")
A = TypeVar("A")

Adder = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cogroup(Group):
    """Grouped streams, each with the function that adds its records.

    Attributes:
        adders: For each of them (key, value, aggregate) -> aggregate.
        sources: Instead of functions: for each of them the fields that it declares.
        first: The first of them.
    """

    adders: tuple[Adder, ...]
    sources: tuple[Source, ...]
    first: Group

    def said(self, table: FoldTable, *, at: Origin) -> tuple[SaidAggregates, str]:
        """Return the rows that the fields make, and the step that brings the streams together."""
        said = said_fold(self.sources, value=table.value, materialized=table.options, at=at)
        parent = self.parents[0]
        if len(self.parents) > 1:
            parent = tagged(self.registry, self.parents, self.key, table.store or table.name, at)
        return said, parent


class Cogrouping(VerbStage, Generic[K, V]):
    """What `KGroupedStream` can do together with other streams: cogroup."""

    _group: Group

    @overload
    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(self, **fields: Aggregate) -> CogroupedKStream[K, Any]: ...
    def cogroup(self, aggregator: Any = None, **fields: Aggregate) -> CogroupedKStream[K, Any]:
        """Begin to fold several grouped streams into one table.

        Args:
            aggregator: Called with key, value and the current aggregate for each record of this
                stream. It may change the aggregate and return it. If it returns None, the row is
                deleted, and the next record begins a new one.
            fields: Instead of a function: aggregates by name, such as ``sold=Sum("number")``, which
                are the fields of the rows that come from this stream.

        Returns:
            The streams so far: only this one. Add others with `CogroupedKStream.cogroup`.

        Raises:
            FunctionError: If the aggregator cannot be called with these arguments.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> sold = builder.stream("sold", key=str, value=int).group_by_key()
            >>> returned = builder.stream("returned", key=str, value=int).group_by_key()
            >>> net = (
            ...     sold.cogroup(lambda _item, number, total: total + number)
            ...     .cogroup(returned, lambda _item, number, total: total - number)
            ...     .aggregate(int, value=int, store="net")
            ... )
            >>> net.to_stream().to("net")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("sold").pipe_input("apple", 5)
            ...     driver.create_input_topic("returned").pipe_input("apple", 2)
            ...     driver.create_output_topic("net").read_values_to_list()
            [5, 3]
        """
        adders = _adders(self, aggregator, fields, at=user_origin())
        group = self._group
        return group.registry.handles.cogrouped(
            Cogroup(
                registry=group.registry,
                path=path_name(group.path, "cogroup"),
                parents=group.parents,
                adders=adders,
                key=group.key,
                value=None,
                sources=(Source(value=group.value, fields=fields),) if fields else (),
                first=group,
            )
        )


class CogroupedKStream(VerbStage, Generic[K, A]):
    """Grouped streams of one key, each with its aggregator; made by `KGroupedStream.cogroup`.

    Records of all streams are folded into the same table, in merged order: the one with the lowest
    timestamp first. Records whose key or value is None are left out.

    Example:
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> orders = builder.stream("orders", key=str, value=float).group_by_key()
        >>> both = clicks.cogroup(lambda _user, page, seen: [*seen, page])
        >>> both = both.cogroup(orders, lambda _user, total, seen: [*seen, total])
        >>> histories = both.aggregate(list, store="histories")
    """

    def __init__(self, cogroup: Cogroup) -> None:
        self._cogroup = cogroup

    def _stage_name(self) -> str:
        return self._cogroup.path

    @overload
    def cogroup(
        self, grouped: Cogrouping[K, V2], aggregator: Callable[[K, V2, A], A | None]
    ) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(
        self, grouped: Cogrouping[K, V2], **fields: Aggregate
    ) -> CogroupedKStream[K, Any]: ...
    def cogroup(
        self,
        grouped: Cogrouping[K, V2],
        aggregator: Any = None,
        **fields: Aggregate,
    ) -> CogroupedKStream[K, Any]:
        """Add another grouped stream.

        Args:
            grouped: The stream, with keys of the same type.
            aggregator: Called with key, value and the current aggregate for each of its records.
            fields: Instead of a function, as for the first stream: aggregates by name.

        Returns:
            The streams so far, with this one; this object does not change.

        Raises:
            FunctionError: If the aggregator cannot be called with these arguments.
            JoinKeysError: If the streams encode their keys differently.
            OtherBuilderError: If the stream was made by another builder.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> sold = builder.stream("sold", key=str, value=int).group_by_key()
            >>> returned = builder.stream("returned", key=str, value=int).group_by_key()
            >>> net = sold.cogroup(lambda _item, number, total: total + number)
            >>> net = net.cogroup(returned, lambda _item, number, total: total - number)
        """
        at = user_origin()
        mine = self._cogroup
        if not isinstance(grouped, Cogrouping):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"cogroup takes a grouped stream, not a {type(grouped).__name__}"
            raise BadOptionError(
                msg,
                at=at,
                why="records are folded by key, so a grouping has to say what the key is",
                fix="group it first: stream.group_by_key() or stream.group_by(...)",
                fields={"option": "grouped"},
            )
        adders = _adders(self, aggregator, fields, at=at)
        _check_alike(mine, fields, at=at)
        other = grouped._group  # pyright: ignore[reportPrivateUsage] - a part of this cogroup
        _check_together(mine, other, at=at)
        more = Source(value=other.value, fields=fields)
        return mine.registry.handles.cogrouped(
            replace(
                mine,
                parents=(*mine.parents, *other.parents),
                adders=(*mine.adders, *adders),
                sources=(*mine.sources, more) if fields else (),
                key=mine.key or other.key,
            )
        )

    def aggregate(
        self,
        initializer: Callable[[], A] | None = None,
        materialized: Materialized[K, A] | None = None,
        *,
        value: type[A] | Serde[A] | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]:
        """Fold the records of all streams into a table.

        Args:
            initializer: Called without arguments for the first aggregate of a key. Leave it out if
                the streams declare aggregates by name.
            value: Type or serde of the aggregates; a serde that keeps Python's types if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of aggregates.

        Raises:
            DuplicateNameError: If another step already has this name.
            InitializerError: If the initializer is a value, not a function.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> sold = builder.stream("sold", key=str, value=int).group_by_key()
            >>> total = sold.cogroup(lambda _item, number, total: total + number)
            >>> totals = total.aggregate(lambda: 0, value=int, store="totals")
        """
        at = user_origin()
        mine = self._cogroup
        table = FoldTable(
            store=store, name=name, on_error=on_error, options=materialized, value=value
        )
        if _check_bare(self, mine, {"initializer": initializer}):
            said, parent = mine.said(table, at=at)
            whole = mine.registry.handles.grouped(parent, mine.path, mine.first.key, None)
            return whole._add_said(said, table)  # pyright: ignore[reportPrivateUsage]
        check_initializer(initializer, verb="aggregate", at=at)
        fold = Fold(kind="aggregate", initializer=initializer, adders=mine.adders)
        begun = begin_fold(mine, fold, table, at=at)
        node = CogroupNode(**begun.facts, adders=fold.adders)
        mine.registry.add(node)
        return mine.registry.handles.table(node.name, begun.key, begun.value)

    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows
    ) -> TimeWindowedCogroupedKStream[K, A]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, A]: ...
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | SessionWindows
    ) -> TimeWindowedCogroupedKStream[K, A] | SessionWindowedCogroupedKStream[K, A]:
        """Group the records by time too, so that each window has its own result.

        Args:
            windows: The windows for the records.

        Returns:
            The records in windows, which can be aggregated.

        Raises:
            BadOptionError: If ``windows`` are not windows, or have their own ``windows_for``.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TimeWindows
            >>> builder = StreamsBuilder()
            >>> sold = builder.stream("sold", key=str, value=int).group_by_key()
            >>> total = sold.cogroup(lambda _item, number, total: total + number)
            >>> days = TimeWindows(size=timedelta(days=1), grace=timedelta(0))
            >>> by_day = total.windowed_by(days).aggregate(int, value=int, store="by-day")
        """
        at = user_origin()
        mine = self._cogroup
        group = WindowedGroup.of(mine, window_spec(windows, at=at))
        return mine.registry.handles.windowed_cogroup(group, mine)


class _WindowedCogroup(VerbStage, Generic[K, A]):
    """Grouped streams in windows."""

    def __init__(self, group: WindowedGroup, cogroup: Cogroup) -> None:
        self._group = group
        self._cogroup = cogroup

    def _stage_name(self) -> str:
        return self._group.path

    def _aggregate(
        self,
        functions: Mapping[str, Any],
        table: FoldTable,
        *,
        at: Origin,
    ) -> KTable[Windowed[K], A]:
        mine = self._cogroup
        if _check_bare(self, mine, functions):
            said, parent = mine.said(table, at=at)
            whole = replace(self._group, parents=(parent,))
            return mine.registry.handles.windowed(whole)._add_said(said, table)  # pyright: ignore[reportPrivateUsage]
        initializer, merger = functions["initializer"], functions.get("merger")
        if merger is not None:
            check_merger(merger, at=at)
        check_initializer(initializer, verb="aggregate", at=at)
        fold = Fold(kind="aggregate", initializer=initializer, adders=mine.adders, merger=merger)
        return add_window_aggregate(self._group, fold, table, at=at)


class TimeWindowedCogroupedKStream(_WindowedCogroup[K, A]):
    """Grouped streams in windows of time; made by `CogroupedKStream.windowed_by`.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import StreamsBuilder, TimeWindows, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> sold = builder.stream("sold", key=str, value=int).group_by_key()
        >>> returned = builder.stream("returned", key=str, value=int).group_by_key()
        >>> net = sold.cogroup(lambda _item, number, total: total + number)
        >>> net = net.cogroup(returned, lambda _item, number, total: total - number)
        >>> seconds = net.windowed_by(TimeWindows(size=timedelta(seconds=1), grace=timedelta(0)))
        >>> seconds.aggregate(int, value=int, store="net").to_stream().to("net")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("sold").pipe_input("apple", 5, timestamp=100)
        ...     driver.create_input_topic("returned").pipe_input("apple", 2, timestamp=200)
        ...     driver.create_output_topic("net").read_key_values_to_map()
        {Windowed(key='apple', start=0, end=1000): 3}
    """

    def aggregate(
        self,
        initializer: Callable[[], A] | None = None,
        materialized: Materialized[K, A] | None = None,
        *,
        value: type[A] | Serde[A] | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """Fold the records of all streams into a table by key and window.

        Args:
            initializer: Called without arguments for the first aggregate of a window. Leave it out
                if the streams declare aggregates by name.
            value: Type or serde of the aggregates; a serde that keeps Python's types if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store. Its ``retention`` is how long a window is kept.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of aggregates, by key and window.

        Raises:
            DuplicateNameError: If another step already has this name.
            InitializerError: If the initializer is a value, not a function.
            RetentionError: If windows would be dropped while they still take records.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import SlidingWindows, StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> sold = builder.stream("sold", key=str, value=int).group_by_key()
            >>> total = sold.cogroup(lambda _item, number, total: total + number)
            >>> hour = SlidingWindows(time_difference=timedelta(hours=1), grace=timedelta(0))
            >>> last_hour = total.windowed_by(hour).aggregate(int, value=int, store="last-hour")
        """
        table = FoldTable(
            store=store, name=name, on_error=on_error, options=materialized, value=value
        )
        return self._aggregate({"initializer": initializer}, table, at=user_origin())


class SessionWindowedCogroupedKStream(_WindowedCogroup[K, A]):
    """Grouped streams in sessions; made by `CogroupedKStream.windowed_by`.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import SessionWindows, StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> orders = builder.stream("orders", key=str, value=float).group_by_key()
        >>> seen = clicks.cogroup(lambda _user, _page, count: count + 1)
        >>> seen = seen.cogroup(orders, lambda _user, _total, count: count + 10)
        >>> gap = SessionWindows(inactivity_gap=timedelta(minutes=30), grace=timedelta(0))
        >>> visits = seen.windowed_by(gap).aggregate(int, lambda _u, one, other: one + other)
    """

    def aggregate(  # noqa: PLR0913 - two functions, and the keywords that all folds take
        self,
        initializer: Callable[[], A] | None = None,
        merger: Callable[[K, A, A], A] | None = None,
        materialized: Materialized[K, A] | None = None,
        *,
        value: type[A] | Serde[A] | None = None,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """Fold the records of all streams into a table by key and session.

        Args:
            initializer: Called without arguments for each record.
            merger: Called with key, the current aggregate and that of a session to which the record
                belongs. Leave out both functions if the streams declare aggregates by name.
            value: Type or serde of the aggregates; a serde that keeps Python's types if not given.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store. Its ``retention`` is how long a session is kept.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table of aggregates, by key and session.

        Raises:
            DuplicateNameError: If another step already has this name.
            InitializerError: If the initializer is a value, not a function.
            FunctionError: If the merger cannot be called with a key and two aggregates.
            RetentionError: If sessions would be dropped while they still take records.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import SessionWindows, StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
            >>> counted = clicks.cogroup(lambda _user, _page, count: count + 1)
            >>> gap = SessionWindows(inactivity_gap=timedelta(minutes=30), grace=timedelta(0))
            >>> visits = counted.windowed_by(gap)
            >>> lengths = visits.aggregate(int, lambda _u, one, other: one + other, value=int)
        """
        functions = {"initializer": initializer, "merger": merger}
        table = FoldTable(
            store=store, name=name, on_error=on_error, options=materialized, value=value
        )
        return self._aggregate(functions, table, at=user_origin())


def _adders(
    stage: object, aggregator: Adder | None, fields: Mapping[str, Aggregate], *, at: Origin
) -> tuple[Adder, ...]:
    """Return the function that the user gave, or none if fields are declared."""
    if is_said(stage, {"aggregator": aggregator}, fields, verb="cogroup"):
        return ()
    arguments = ("key", "value", "aggregate")
    check_function(aggregator, arguments, role="aggregator", verb="cogroup", at=at)
    assert aggregator is not None
    return (aggregator,)


def _check_alike(mine: Cogroup, fields: Mapping[str, Aggregate], *, at: Origin) -> None:
    """Check that either all streams declare fields or all have functions, and no field twice."""
    if bool(mine.sources) != bool(fields):
        msg = "a cogroup takes functions, or aggregates by name, not both"
        raise BadOptionError(
            msg,
            at=at,
            why="functions make one result from all streams; aggregates by name make a row",
            fix="name the fields of each stream: .cogroup(other, total=Sum(...))",
            fields={"option": "aggregator"},
        )
    taken = {name for source in mine.sources for name in source.fields}
    for name in fields:
        if name in taken:
            msg = f"two streams of a cogroup declare the field {name!r}"
            raise BadOptionError(
                msg,
                at=at,
                why="each field of a row has its own name",
                fix=f"give one of them another name: other_{name}=",
                fields={"option": name},
            )


def _check_bare(
    stage: object, mine: Cogroup, functions: Mapping[str, object], *, verb: str = "aggregate"
) -> bool:
    """Say whether a cogroup is declared by fields, which take no functions."""
    fields = {name: one for source in mine.sources for name, one in source.fields.items()}
    return is_said(stage, functions, fields, verb=verb)


def _check_together(mine: Cogroup, grouped: Group, *, at: Origin) -> None:
    (parent,), key = grouped.parents, grouped.key
    if grouped.registry is not mine.registry:
        msg = f"{mine.parents[0]!r} and {parent!r} come from different builders"
        raise OtherBuilderError(
            msg,
            at=at,
            why="a topology is written with one builder, and what it cogroups is part of it",
            fix="make both with the same StreamsBuilder",
            fields={"left": mine.parents[0], "right": parent},
        )
    if mine.key is not None and key is not None and mine.key != key:
        msg = f"{mine.parents[0]!r} and {parent!r} cannot be cogrouped: their keys differ"
        raise JoinKeysError(
            msg,
            evidence={"first": f"key {mine.key.name}", "other": f"key {key.name}"},
            at=at,
            why='records are folded by the bytes of their keys, and 7 and "7" are different bytes',
            fix=f"group {parent!r} by keys of the first one's type: group_by(..., key=...)",
            fields={"left": mine.key.name, "right": key.name},
        )
