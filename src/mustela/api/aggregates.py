"""Aggregates that are declared, not programmed: what `aggregate(total=Sum("amount"))` takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, ClassVar, cast

from mustela.api.cells import Cell, Field
from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function
from mustela.api.origin import user_origin

__all__ = [
    "Aggregate",
    "ApproxCountDistinct",
    "Avg",
    "Count",
    "CountDistinct",
    "Latest",
    "Max",
    "MaxBy",
    "Min",
    "MinBy",
    "Quantile",
    "Sum",
    "TopN",
]

Where = Callable[[Any], object] | None
Types = Callable[[Field], Any]
"""Gives the type of a field, ``Any`` if it is not known; for None, the type of the value."""

_FINEST = 0.0001
_COARSEST = 0.5


@dataclass(frozen=True, slots=True)
class Aggregate(ABC):
    """One field of the rows that `aggregate` makes: `Sum`, `Avg`, `TopN` and the others.

    Every aggregate skips values that are None and fields that are None. Its result does not depend
    on the order of the records (except for `Latest`, which goes by their timestamps), nor on how
    they were partitioned and merged.

    Example:
        >>> isinstance(Sum("amount"), Aggregate)
        True
    """

    @abstractmethod
    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """Return what is kept.

        Args:
            retracts: Whether values can be removed again, as the rows of a table can.
        """

    @abstractmethod
    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """Return the result, an expression over the places of the cells."""

    @abstractmethod
    def type_of(self, types: Types) -> Any:
        """Return the type of the result."""

    @property
    def retractable(self) -> bool:
        """Whether values can be removed again.

        Example:
            >>> Sum("amount").retractable, Latest().retractable
            (True, False)
        """
        return True


def _check(kind: Aggregate, given: object, where: object, *, role: str = "field") -> None:
    at = user_origin()
    verb = type(kind).__name__
    if given is not None and not isinstance(given, str):
        check_function(given, ("value",), role=role, verb=verb, at=at)
    if where is not None:
        check_function(where, ("value",), role="where", verb=verb, at=at)


def _or_none(kind: Any) -> Any:
    return kind if kind is Any else kind | None


@dataclass(frozen=True, slots=True)
class _OfField(Aggregate):
    """An aggregate of a field of the values."""

    field: Field = None
    _: KW_ONLY
    where: Where = None

    def __post_init__(self) -> None:
        _check(self, self.field, self.where)


@dataclass(frozen=True, slots=True)
class Count(_OfField):
    """The number of records; with a field, of those in which the field is not None.

    In windows, without a field and without `where`, records without a value count too, as they do
    for `count`.

    Args:
        field: A key of a dict, an attribute, or a function of the value.
        where: Counts only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.aggregates import Count
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=dict).group_by_key()
        >>> small = Count(where=lambda order: order["amount"] < 10)
        >>> orders.aggregate(all=Count(), small=small, store="n").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     order = driver.create_input_topic("orders")
        ...     order.pipe_input("ann", {"amount": 30})
        ...     order.pipe_input("ann", {"amount": 3})
        ...     driver.create_output_topic("counts").read_values_to_list()[-1]
        Row(all=2, small=1)
    """

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """A number."""
        del retracts
        kind = "count" if self.field is None else "number"
        return (Cell(kind=kind, field=self.field, where=self.where),)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """The number."""
        del retracts
        return places[0]

    def type_of(self, types: Types) -> Any:
        """An int."""
        del types
        return int


@dataclass(frozen=True, slots=True)
class Sum(_OfField):
    """The sum of a field; 0 if there are no values.

    In a stream, floats are added as they arrive, so the last digits depend on their order. In a
    table, floats are added exactly and rounded once, so that a value that is removed leaves no
    trace.

    Args:
        field: A key of a dict, an attribute, or a function of the value; the value itself if not
            given.
        where: Adds only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.aggregates import Sum
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=dict).group_by_key()
        >>> orders.aggregate(total=Sum("amount"), store="totals").to_stream().to("totals")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     order = driver.create_input_topic("orders")
        ...     order.pipe_input("ann", {"amount": 30})
        ...     order.pipe_input("ann", {"amount": 3})
        ...     driver.create_output_topic("totals").read_values_to_list()
        [Row(total=30), Row(total=33)]
    """

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """A total."""
        return (_total(self, retracts=retracts),)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """The total."""
        total = places[0]
        return f"exact_total({total})" if retracts else f"0 if {total} is None else {total}"

    def type_of(self, types: Types) -> Any:
        """The field's, if that is a number's."""
        kind = types(self.field)
        return kind if kind in {int, float, Decimal} else Any


def _total(kind: Sum | Avg, *, retracts: bool) -> Cell:
    return Cell(kind="exact total" if retracts else "total", field=kind.field, where=kind.where)


@dataclass(frozen=True, slots=True)
class Avg(_OfField):
    """The mean of a field; None if there are no values.

    Args:
        field: A key of a dict, an attribute, or a function of the value; the value itself if not
            given.
        where: Takes only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.aggregates import Avg
        >>> builder = StreamsBuilder()
        >>> calls = builder.stream("calls", key=str, value=float).group_by_key()
        >>> calls.aggregate(ms=Avg(), store="means").to_stream().to("means")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     call = driver.create_input_topic("calls")
        ...     call.pipe_input("home", 20.0)
        ...     call.pipe_input("home", 30.0)
        ...     driver.create_output_topic("means").read_values_to_list()
        [Row(ms=20.0), Row(ms=25.0)]
    """

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """A total and a number."""
        number = Cell(kind="number", field=self.field, where=self.where)
        return (_total(self, retracts=retracts), number)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """The total by the number."""
        total, number = places
        total = f"exact_total({total})" if retracts else total
        return f"{total} / {number} if {number} else None"

    def type_of(self, types: Types) -> Any:
        """A float, or a Decimal."""
        kind = types(self.field)
        return {int: float | None, float: float | None, Decimal: Decimal | None}.get(kind, Any)


@dataclass(frozen=True, slots=True)
class _Extreme(_OfField):
    """The smallest or the largest value of a field."""

    _kind: ClassVar[str]  # the cell that keeps it, if values are never removed
    _of_all: ClassVar[str]  # its place among all values, if they are

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """The one, or all."""
        return (Cell(kind="all" if retracts else self._kind, field=self.field, where=self.where),)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """The one."""
        return (self._of_all if retracts else "{0}").format(*places)

    def type_of(self, types: Types) -> Any:
        """The field's, or None."""
        return _or_none(types(self.field))


@dataclass(frozen=True, slots=True)
class Min(_Extreme):
    """The smallest value of a field; None if there are no values.

    For a table, every value of a group is kept.

    Args:
        field: A key of a dict, an attribute, or a function of the value; the value itself if not
            given.
        where: Takes only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.aggregates import Min
        >>> bids = StreamsBuilder().stream("bids", key=str, value=int).group_by_key()
        >>> lowest = bids.aggregate(lowest=Min(), store="lowest")
    """

    _kind = "least"
    _of_all = "{0}[0][0] if {0} else None"


@dataclass(frozen=True, slots=True)
class Max(_Extreme):
    """The largest value of a field; None if there are no values.

    For a table, every value of a group is kept.

    Args:
        field: A key of a dict, an attribute, or a function of the value; the value itself if not
            given.
        where: Takes only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.aggregates import Max
        >>> bids = StreamsBuilder().stream("bids", key=str, value=int).group_by_key()
        >>> highest = bids.aggregate(highest=Max(), store="highest")
    """

    _kind = "greatest"
    _of_all = "{0}[-1][0] if {0} else None"


@dataclass(frozen=True, slots=True)
class _ExtremeBy(Aggregate):
    """A whole value, chosen by a field."""

    _kind: ClassVar[str]  # the cell of the value, if none are removed
    _of_all: ClassVar[str]  # the value among all, if some are

    by: Field
    _: KW_ONLY
    where: Where = None

    def __post_init__(self) -> None:
        _check(self, self.by, self.where, role="by")

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """The value, or all."""
        return (Cell(kind="all by" if retracts else self._kind, field=self.by, where=self.where),)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """The value."""
        return (self._of_all if retracts else "{0} and {0}[1]").format(*places)

    def type_of(self, types: Types) -> Any:
        """The value's, or None."""
        return _or_none(types(None))


@dataclass(frozen=True, slots=True)
class MinBy(_ExtremeBy):
    """The value whose field is the smallest; None if there are no values.

    If several fields are equal, the value whose bytes sort first is taken. For a table, every value
    of a group is kept.

    Args:
        by: A key of a dict, an attribute, or a function of the value.
        where: Takes only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.aggregates import MinBy
        >>> offers = StreamsBuilder().stream("offers", key=str, value=dict).group_by_key()
        >>> cheapest = offers.aggregate(cheapest=MinBy("price"), store="cheapest")
    """

    _kind = "least by"
    _of_all = "{0}[0][1] if {0} else None"


@dataclass(frozen=True, slots=True)
class MaxBy(_ExtremeBy):
    """The value whose field is the largest; None if there are no values.

    If several fields are equal, the value whose bytes sort first is taken. For a table, every value
    of a group is kept.

    Args:
        by: A key of a dict, an attribute, or a function of the value.
        where: Takes only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.aggregates import MaxBy
        >>> builder = StreamsBuilder()
        >>> bids = builder.stream("bids", key=str, value=dict).group_by_key()
        >>> bids.aggregate(best=MaxBy("price"), store="best").to_stream().to("best")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     bid = driver.create_input_topic("bids")
        ...     bid.pipe_input("vase", {"price": 40, "by": "ann"})
        ...     bid.pipe_input("vase", {"price": 30, "by": "bob"})
        ...     driver.create_output_topic("best").read_values_to_list()[-1].best["by"]
        'ann'
    """

    _kind = "greatest by"
    _of_all = "best_last({0})"


@dataclass(frozen=True, slots=True)
class TopN(Aggregate):
    """The values whose fields are the largest, in descending order.

    If several fields are equal, values whose bytes sort first are taken first. For a table, every
    value of a group is kept.

    Args:
        number: How many values to keep, from 1 to 10,000.
        by: A key of a dict, an attribute, or a function of the value; the value itself if not
            given.
        smallest: Take the values whose fields are the smallest, in ascending order.
        where: Takes only values for which this is true.

    Raises:
        BadOptionError: If the number is not a whole number from 1 to 10,000.
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.aggregates import TopN
        >>> builder = StreamsBuilder()
        >>> scores = builder.stream("scores", key=str, value=int).group_by_key()
        >>> scores.aggregate(top=TopN(2), store="top").to_stream().to("top")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     score = driver.create_input_topic("scores")
        ...     for points in (10, 30, 20):
        ...         score.pipe_input("ann", points)
        ...     driver.create_output_topic("top").read_values_to_list()[-1]
        Row(top=[30, 20])
    """

    number: int
    _: KW_ONLY
    by: Field = None
    smallest: bool = False
    where: Where = None

    def __post_init__(self) -> None:
        number = cast("object", self.number)
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 10_000:
            msg = f"TopN cannot keep {number!r} values"
            fix = "give a number from 1 to 10,000: TopN(10, by=...)"
            raise BadOptionError(msg, at=user_origin(), fix=fix, fields={"option": "number"})
        _check(self, self.by, self.where, role="by")

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """The values, or all."""
        if retracts:
            return (Cell(kind="all by", field=self.by, where=self.where),)
        kind = "lowest" if self.smallest else "top"
        return (Cell(kind=kind, field=self.by, where=self.where, number=self.number),)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """The values."""
        one = places[0]
        if retracts and not self.smallest:
            return f"best_of({one}, {self.number})"
        return f"[entry[1] for entry in {one}[:{self.number}]]"

    def type_of(self, types: Types) -> Any:
        """A list of values."""
        kind = types(None)
        return list if kind is Any else list[kind]


@dataclass(frozen=True, slots=True)
class CountDistinct(_OfField):
    """The number of different values of a field; each is kept.

    For many different values, see `ApproxCountDistinct`.

    Args:
        field: A key of a dict, an attribute, or a function of the value; the value itself if not
            given. Its values must be hashable.
        where: Takes only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.aggregates import CountDistinct
        >>> clicks = StreamsBuilder().stream("clicks", key=str, value=dict).group_by_key()
        >>> users = clicks.aggregate(users=CountDistinct("user"), store="users")
    """

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """The values; for a table, with how often each occurs."""
        kind = "counts" if retracts else "distinct"
        return (Cell(kind=kind, field=self.field, where=self.where),)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """How many there are."""
        del retracts
        return f"len({places[0]})"

    def type_of(self, types: Types) -> Any:
        """An int."""
        del types
        return int


@dataclass(frozen=True, slots=True)
class ApproxCountDistinct(_OfField):
    """An estimate of the number of different values of a field, in at most 4 KB.

    The standard error is 1.6 percent, and much less for up to a few hundred values. It cannot be
    used on a table: a value cannot be removed from the estimate.

    Args:
        field: A key of a dict, an attribute, or a function of the value; the value itself if not
            given.
        where: Takes only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.aggregates import ApproxCountDistinct
        >>> clicks = StreamsBuilder().stream("clicks", key=str, value=dict).group_by_key()
        >>> users = clicks.aggregate(users=ApproxCountDistinct("user"), store="users")
    """

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """The registers of a HyperLogLog."""
        del retracts
        return (Cell(kind="about distinct", field=self.field, where=self.where),)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """Its estimate."""
        del retracts
        return f"distinct_count({places[0]})"

    def type_of(self, types: Types) -> Any:
        """An int."""
        del types
        return int

    @property
    def retractable(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True, slots=True)
class Latest(_OfField):
    """The field of the record with the latest timestamp; None if there are no records.

    Of several records of the same millisecond, the one processed last is taken. It cannot be used
    on a table: when the latest row is removed, the one before it is no longer known.

    Args:
        field: A key of a dict, an attribute, or a function of the value; the value itself if not
            given.
        where: Takes only values for which this is true.

    Raises:
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.aggregates import Latest
        >>> builder = StreamsBuilder()
        >>> moves = builder.stream("moves", key=str, value=str).group_by_key()
        >>> moves.aggregate(place=Latest(), store="places").to_stream().to("places")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     move = driver.create_input_topic("moves")
        ...     move.pipe_input("ann", "Rome", timestamp=2_000)
        ...     move.pipe_input("ann", "Pisa", timestamp=1_000)
        ...     driver.create_output_topic("places").read_values_to_list()
        [Row(place='Rome'), Row(place='Rome')]
    """

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """A time and what came then."""
        del retracts
        return (Cell(kind="last", field=self.field, where=self.where),)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """What came then."""
        del retracts
        return f"{places[0]} and {places[0]}[1]"

    def type_of(self, types: Types) -> Any:
        """The field's, or None."""
        return _or_none(types(self.field))

    @property
    def retractable(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True, slots=True)
class Quantile(Aggregate):
    """An approximate quantile: the value below which a share of a field's values lies.

    The result is off by at most ``accuracy`` times itself. Quantiles of the same field, `where` and
    accuracy share their state: one number for each step of that size between the smallest and the
    largest value, so about 1,000 numbers for values from 1 to 10,000,000 at an accuracy of 1
    percent. Values are converted to floats; those that are not numbers are skipped.

    Args:
        share: Between 0 (the smallest) and 1 (the largest): 0.5 is the median.
        field: A key of a dict, an attribute, or a function of the value; the value itself if not
            given.
        accuracy: Between 0.0001 and 0.5.
        where: Takes only values for which this is true.

    Raises:
        BadOptionError: If the share or the accuracy is out of bounds.
        FunctionError: If a function does not take a value.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.aggregates import Quantile
        >>> builder = StreamsBuilder()
        >>> calls = builder.stream("calls", key=str, value=int).group_by_key()
        >>> calls.aggregate(p95=Quantile(0.95), store="slow").to_stream().to("slow")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     call = driver.create_input_topic("calls")
        ...     for ms in range(1, 101):
        ...         call.pipe_input("home", ms)
        ...     round(driver.create_output_topic("slow").read_values_to_list()[-1].p95)
        95
    """

    share: float
    field: Field = None
    _: KW_ONLY
    accuracy: float = 0.01
    where: Where = None

    def __post_init__(self) -> None:
        _between("share", self.share, 0, 1, example="Quantile(0.95, ...)")
        _between(
            "accuracy", self.accuracy, _FINEST, _COARSEST, example="Quantile(0.95, accuracy=0.01)"
        )
        _check(self, self.field, self.where)

    def cells(self, *, retracts: bool) -> tuple[Cell, ...]:
        """How many values lie in each bucket."""
        del retracts
        cell = Cell(kind="buckets", field=self.field, where=self.where, number=self.accuracy)
        return (cell,)

    def result(self, places: Sequence[str], *, retracts: bool) -> str:
        """The value of the bucket where the share is reached."""
        del retracts
        return f"quantile_of({places[0]}, {self.share!r}, {self.accuracy!r})"

    def type_of(self, types: Types) -> Any:
        """A float, or None."""
        del types
        return float | None


def _between(name: str, given: object, least: float, most: float, *, example: str) -> None:
    if isinstance(given, int | float) and not isinstance(given, bool) and least <= given <= most:
        return
    msg = f"Quantile cannot have {name}={given!r}"
    fix = f"give a number from {least:g} to {most:g}: {example}"
    raise BadOptionError(msg, at=user_origin(), fix=fix, fields={"option": name})
