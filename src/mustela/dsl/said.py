"""From aggregates by name to the fold of an aggregation and the step that makes its rows."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from mustela.api.aggregates import Aggregate, CountDistinct, Latest, MaxBy, TopN, Types
from mustela.api.called import bad_call
from mustela.api.cells import CELL_KINDS, Cell, Field
from mustela.api.errors import BadOptionError, SubtractorError
from mustela.api.names import path_name
from mustela.api.options import Materialized, options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose_serde
from mustela.dsl.folds import Fold, FoldTable, Group
from mustela.dsl.missing import VerbStage
from mustela.dsl.registry import Registry
from mustela.dsl.row_types import WHOLE_TYPES, or_none, row_maker, whole_type
from mustela.errors import Origin
from mustela.serdes.aggregates import Cells, CellsSerde
from mustela.serdes.base import Serde, type_name
from mustela.serdes.json import JsonSerde
from mustela.serdes.primitives import (
    IntSerde,
)
from mustela.serdes.rows import RowSerde
from mustela.serdes.shape import is_class_with_fields
from mustela.topology.fold_cells import itself, tagged_value
from mustela.topology.stateless import FlatMapValuesNode, MergeNode
from mustela.topology.table import TableMapValuesNode
from mustela.topology.timed_values import TimedValuesNode
from mustela.topology.written_fold import Access, written_fold, written_rows

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = [
    "SaidAggregates",
    "SaidVerbs",
    "Source",
    "is_said",
    "said_fold",
    "tagged",
    "with_times",
]

K = TypeVar("K")
KR = TypeVar("KR")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A stream that declares fields of the rows.

    Attributes:
        value: Serde of its values, if it is known.
        fields: The aggregates, by name.
    """

    value: Serde[Any] | None
    fields: Mapping[str, Aggregate]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidAggregates:
    """The outcome of the aggregates of a step.

    Attributes:
        fold: The functions of the aggregation.
        cells: Serde of its store.
        rows: Makes the rows.
        value: Serde of the rows.
        options: The user's options for the store, with its serde.
        is_timed: Whether the fold takes values with their timestamps.
        at: The user's line.
    """

    fold: Fold
    cells: CellsSerde
    rows: Callable[[Cells], Any]
    value: Serde[Any] | None
    options: Materialized[Any, Any]
    is_timed: bool
    at: Origin


def is_said(
    stage: object,
    functions: Mapping[str, object],
    fields: Mapping[str, Any],
    *,
    more: Mapping[str, object] | None = None,
    verb: str = "aggregate",
) -> bool:
    """Say whether an aggregation is declared by fields, not by functions.

    Args:
        stage: What is aggregated.
        functions: The functions that are required if there are no fields, by name.
        fields: Its other keywords.
        more: Functions that are optional.
        verb: The method.

    Raises:
        BadCallError: If a function is missing, or a keyword is not an aggregate.
        BadOptionError: If there are both functions and fields.
    """
    called = f"{type(stage).__name__}.{verb}"
    signature = inspect.signature(getattr(type(stage), verb))
    kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    signature = signature.replace(parameters=kept)
    everything = {**functions, **(more or {})}
    given = {name: function for name, function in everything.items() if function is not None}
    named = {**given, **fields}
    for name, value in fields.items():
        if not isinstance(value, Aggregate):
            reason = f"got an unexpected keyword argument '{name}'"
            raise bad_call(called, signature, (), named, reason=reason)
    if fields and not given:
        return True
    if fields:
        msg = f"{verb} takes functions, or aggregates by name, not both"
        raise BadOptionError(
            msg,
            at=user_origin(),
            why=f"{', '.join(given)} would make one result, and {', '.join(fields)} another",
            fix=f"leave out {', '.join(given)}",
            fields={"option": next(iter(given))},
        )
    for name, function in functions.items():
        if function is None:
            reason = f"missing a required argument: '{name}'"
            raise bad_call(called, signature, (), named, reason=reason)
    return False


def said_fold(
    sources: Sequence[Source],
    *,
    value: object,
    materialized: Materialized[Any, Any] | None,
    at: Origin,
    retracts: bool = False,
    bare: bool = False,
) -> SaidAggregates:
    """Return the outcome of aggregates.

    Args:
        sources: The streams and their fields; several make a cogroup.
        value: Type or serde of the rows, if the user gave one.
        materialized: The user's options.
        at: The user's line.
        retracts: Whether values are removed again.
        bare: Whether there is only one aggregate, without a row around it.

    Raises:
        SubtractorError: If values that must be removed cannot be.
        BadOptionError: If the rows' type does not have these fields, or the values lack a field.
    """
    cells: dict[Cell, int] = {}
    names: list[str] = []
    results: list[str] = []
    types: list[Any] = []
    for number, source in enumerate(sources):
        known = _known_types(source.value)
        for name, one in source.fields.items():
            if retracts and not one.retractable:
                raise _not_retractable(name, one, at)
            mine = [replace(cell, source=number) for cell in one.cells(retracts=retracts)]
            for cell in mine:
                _check_field(cell.field, source.value, at)
                cells.setdefault(cell, len(cells))
            names.append(name)
            results.append(one.result([f"s[{cells[cell]}]" for cell in mine], retracts=retracts))
            types.append(one.type_of(known))
    options = options_or(materialized, Materialized[Any, Any](), at=at)
    if bare:
        row = _bare(types[0], sources[0].value, value, options, at)
    else:
        row = _row(tuple(names), tuple(types), value, options, at)
    rows = written_rows(results, row.make, row.names, at=at)
    accesses: list[Access] = [_access(source.value) for source in sources]
    written = written_fold(list(cells), at=at, sources=accesses, retracts=retracts)
    return SaidAggregates(
        fold=Fold(
            kind="aggregate",
            initializer=written.initializer,
            adders=(written.adder,),
            merger=written.merger,
            subtractor=written.subtractor,
        ),
        cells=CellsSerde(
            tuple(cell.layout for cell in cells),
            tuple(cell.holding for cell in cells),
            _serde_of_whole(sources),
            rows,
        ),
        rows=rows,
        value=row.serde,
        options=replace(options, value=None),
        is_timed=any(CELL_KINDS[cell.kind].timed for cell in cells),
        at=at,
    )


class SaidVerbs(VerbStage, Generic[KR, V]):
    """What grouped records and rows can do without a function: aggregates by name."""

    _group: Group
    _retracts: ClassVar[bool] = False  # whether values are removed again

    def _stage_name(self) -> str:
        return self._group.path

    def _fold(self, group: Group, fold: Fold, table: FoldTable, *, at: Origin) -> KTable[Any, Any]:
        """Add an aggregation of this group, or of this group with timestamps."""
        raise NotImplementedError

    def _add_said(self, said: SaidAggregates, table: FoldTable) -> KTable[Any, Any]:
        """Add aggregates by name, and the step that makes rows from their cells."""
        group = with_times(self._group, said.at) if said.is_timed else self._group
        cells = replace(table, options=said.options, value=said.cells)
        made = self._fold(group, said.fold, cells, at=said.at)
        place = group.registry.place("rows", parents=(made.name,), at=said.at)
        group.registry.add(TableMapValuesNode(**place, mapper=said.rows))
        return group.registry.handles.table(place["name"], made.serdes[0], said.value)

    def _said(
        self,
        fields: Mapping[str, Aggregate],
        table: FoldTable,
        *,
        at: Origin,
        bare: bool = False,
    ) -> KTable[Any, Any]:
        said = said_fold(
            [Source(value=self._group.value, fields=fields)],
            value=table.value,
            materialized=table.options,
            at=at,
            retracts=self._retracts,
            bare=bare,
        )
        return self._add_said(said, table)

    def count_distinct(
        self,
        field: Field = None,
        materialized: Materialized[Any, int] | None = None,
        *,
        where: Callable[[V], object] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[KR, int]:
        """Count the different values of a field for each key; each value is kept.

        Args:
            field: A key of a dict, an attribute, or a function of the value; the value itself if
                not given.
            where: Counts only values for which this is true.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.

        Returns:
            The table of counts.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If a function does not take a value.
            BadOptionError: If the values are known not to have such a field.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> clicks = builder.stream("clicks", key=str, value=dict).group_by_key()
            >>> clicks.count_distinct("user", store="users").to_stream().to("users")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     click = driver.create_input_topic("clicks")
            ...     for user in ("ann", "bob", "ann"):
            ...         click.pipe_input("home", {"user": user})
            ...     driver.create_output_topic("users").read_values_to_list()
            [1, 2, 2]
        """
        table = FoldTable(store=store, name=name, options=materialized)
        distinct = CountDistinct(field, where=where)
        return self._said({"count_distinct": distinct}, table, at=user_origin(), bare=True)

    def latest_by(
        self,
        by: Field = None,
        materialized: Materialized[Any, V] | None = None,
        *,
        where: Callable[[V], object] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[KR, V]:
        """Keep the value of each key whose field is the largest, such as a time in the value.

        Args:
            by: A key of a dict, an attribute, or a function of the value; the record's timestamp if
                not given, which a table refuses.
            where: Takes only values for which this is true.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.

        Returns:
            The table of these values.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If a function does not take a value.
            BadOptionError: If the values are known not to have such a field.
            SubtractorError: If a table has no ``by``.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> moves = builder.stream("moves", key=str, value=dict).group_by_key()
            >>> moves.latest_by("seen", store="places").to_stream().to("places")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     move = driver.create_input_topic("moves")
            ...     move.pipe_input("ann", {"seen": 2, "place": "Rome"})
            ...     move.pipe_input("ann", {"seen": 1, "place": "Pisa"})
            ...     driver.create_output_topic("places").read_values_to_list()[-1]["place"]
            'Rome'
        """
        table = FoldTable(store=store, name=name, options=materialized)
        one = Latest(where=where) if by is None else MaxBy(by, where=where)
        return self._said({"latest_by": one}, table, at=user_origin(), bare=True)

    def top_n(
        self,
        number: int,
        materialized: Materialized[Any, list[V]] | None = None,
        *,
        by: Field = None,
        smallest: bool = False,
        store: str | None = None,
        name: str | None = None,
    ) -> KTable[KR, list[V]]:
        """Keep the values of each key whose fields are the largest, in descending order.

        Args:
            number: How many values to keep, from 1 to 10,000.
            by: A key of a dict, an attribute, or a function of the value; the value itself if not
                given.
            smallest: Keep the values whose fields are the smallest, in ascending order.
            store: Name of the store; ``name`` if not given.
            name: Step name; made from the step's place if not given.
            materialized: Options of the store.

        Returns:
            The table of lists.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If a function does not take a value.
            BadOptionError: If the number is out of range, or the values are known not to have the
                field.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> scores = builder.stream("scores", key=str, value=int).group_by_key()
            >>> scores.top_n(2, store="top").to_stream().to("top", value=list)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     score = driver.create_input_topic("scores")
            ...     for points in (10, 30, 20):
            ...         score.pipe_input("ann", points)
            ...     driver.create_output_topic("top").read_values_to_list()[-1]
            [30, 20]
        """
        table = FoldTable(store=store, name=name, options=materialized)
        top = TopN(number, by=by, smallest=smallest)
        return self._said({"top_n": top}, table, at=user_origin(), bare=True)


def with_times(group: Group, at: Origin) -> Group:
    """Return a group of values with their timestamps; the step for it is added once."""
    registry, (parent,) = group.registry, group.parents
    name = path_name(parent, "with_times")
    known = next((node for node in registry.nodes if node.name == name), None)
    if not isinstance(known, TimedValuesNode):
        place = registry.place("with_times", parents=(parent,), at=at)
        registry.add(TimedValuesNode(**place))
    return replace(group, parents=(name,))


def tagged(
    registry: Registry,
    parents: Sequence[str],
    key: Serde[Any] | None,
    apart: str | None,
    at: Origin,
) -> str:
    """Return the step that merges several streams, each value with its stream's number.

    Args:
        registry: The topology while it is being written.
        parents: The streams.
        key: Serde of the keys.
        apart: Distinguishes these steps from those of another cogroup of the same streams.
        at: The user's line.
    """
    numbered: list[str] = []
    for number, parent in enumerate(parents):
        place = registry.place("source", parents=(parent,), at=at, apart=apart)
        registry.add(FlatMapValuesNode(**place, mapper=partial(tagged_value, number)))
        numbered.append(place["name"])
    place = registry.place("sources", parents=tuple(numbered), at=at)
    registry.add(MergeNode(**place, key=key))
    return place["name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowOf:
    """How rows are made.

    Attributes:
        make: Makes one.
        names: The keywords it takes; None if it takes the values in order.
        serde: The serde of the rows.
    """

    make: Callable[..., Any]
    names: tuple[str, ...] | None
    serde: Serde[Any] | None


def _row(
    names: tuple[str, ...],
    types: tuple[Any, ...],
    value: object,
    options: Materialized[Any, Any],
    at: Origin,
) -> _RowOf:
    """Return how rows are made: with the type that the user gave, or one made for them."""
    serde = choose_serde("value", value, options.value, holder="Materialized", at=at)
    if serde is None:
        maker = row_maker(names, types)
        return _RowOf(make=maker, names=None, serde=RowSerde(maker))
    kind: Any = getattr(serde, "type", None)
    if isinstance(serde, JsonSerde) or is_typeddict(kind):
        return _RowOf(make=dict, names=names, serde=serde)
    if kind is None:
        return _RowOf(make=row_maker(names, types), names=None, serde=serde)
    try:
        inspect.signature(kind).bind(**dict.fromkeys(names))
    except (TypeError, ValueError) as error:
        told = getattr(kind, "__name__", str(kind))
        msg = f"rows of {', '.join(names)} cannot be {told}: {error}"
        raise BadOptionError(
            msg,
            at=at,
            why="each row is made from the aggregates, by their names",
            fix=f"give {told} the fields {', '.join(names)}, or leave out value=",
            fields={"option": "value", "names": names},
        ) from None
    return _RowOf(make=kind, names=names, serde=serde)


def _bare(
    kind: Any, of: Serde[Any] | None, value: object, options: Materialized[Any, Any], at: Origin
) -> _RowOf:
    """Return how a single aggregate is used without a row."""
    serde = choose_serde("value", value, options.value, holder="Materialized", at=at)
    if serde is None and kind is int:
        serde = IntSerde()
    elif serde is None and kind == or_none(whole_type(of)):
        serde = of
    return _RowOf(make=itself, names=None, serde=serde)


def _known_types(value: Serde[Any] | None) -> Types:
    whole = whole_type(value)
    hints: Mapping[str, Any] = {}
    if is_class_with_fields(whole):
        try:
            hints = get_type_hints(whole)
        except NameError:
            hints = {}

    def type_of(field: Field) -> Any:
        if field is None:
            return whole
        return _without_none(hints.get(field, Any)) if isinstance(field, str) else Any

    return type_of


def _without_none(kind: Any) -> Any:
    rest = [one for one in get_args(kind) if one is not type(None)]
    is_optional = get_origin(kind) in {Union, UnionType} and len(rest) == 1
    return rest[0] if is_optional else kind


def _access(value: Serde[Any] | None) -> Access:
    """Return how a field of such values is accessed."""
    whole = whole_type(value)
    if isinstance(value, JsonSerde):
        return "key" if whole is dict else "any"
    return (
        "attribute" if isinstance(whole, type) and not is_typeddict(cast("Any", whole)) else "any"
    )


def _serde_of_whole(sources: Sequence[Source]) -> Serde[Any] | None:
    """Return the serde for whole values: None if the one for Python's own types will do."""
    value = sources[0].value
    known = len(sources) > 1 or isinstance(value, JsonSerde) or type(value) in WHOLE_TYPES
    return None if known else value


def _check_field(field: Field, value: Serde[Any] | None, at: Origin) -> None:
    """Check that values have a field, if that is known."""
    known = whole_type(value)
    if not isinstance(field, str) or known is Any or not isinstance(known, type):
        return
    whole = cast("type[Any]", known)
    if issubclass(whole, dict) or is_typeddict(whole):
        return
    names = _field_names(whole)
    if field in names or hasattr(whole, field):
        return
    has = f"it has {', '.join(names)}" if names else "it has no fields"
    msg = f"values are {type_name(whole)}, which has no field {field!r}"
    fix = "leave out the field to take the value itself, or give a function of the value"
    if names:
        close = difflib.get_close_matches(field, names, n=1) or list(names[:1])
        fix = f"write {close[0]!r}, or give a function of the value"
    raise BadOptionError(msg, at=at, why=has, fix=fix, fields={"option": "field", "field": field})


def _field_names(whole: type[Any]) -> tuple[str, ...]:
    try:
        return tuple(get_type_hints(whole)) if whole not in WHOLE_TYPES.values() else ()
    except NameError:
        return tuple(whole.__annotations__)


def _not_retractable(name: str, one: Aggregate, at: Origin) -> SubtractorError:
    kind = type(one).__name__
    instead = "CountDistinct" if kind == "ApproxCountDistinct" else "MaxBy"
    return SubtractorError(
        f"{name}={kind}(...) cannot be used on a table",
        at=at,
        why="when a row changes or is deleted, its old value must be removed again, but that is not"
        " kept",
        fix=f"use {instead}, or aggregate a stream",
        fields={"verb": "aggregate", "arguments": (name,)},
    )
