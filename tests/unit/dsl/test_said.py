"""Aggregates by name: their rows, and what is told where they cannot be."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest
from pyspark import cloudpickle

from mustela import (
    DataError,
    Materialized,
    Row,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    UsageError,
)
from mustela.aggregates import (
    ApproxCountDistinct,
    Avg,
    Count,
    CountDistinct,
    Latest,
    Max,
    MaxBy,
    Quantile,
    Sum,
    TopN,
)
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.serdes.rows import RowMaker, RowSerde
from mustela.streams import KGroupedStream
from mustela.topology.aggregate import AggregateNode


@dataclass
class Order:
    amount: int
    user: str | None = None
    price: Decimal = Decimal(0)


@dataclass
class Totals:
    total: int
    users: int


class Named(NamedTuple):
    total: int
    users: int


class Typed(TypedDict):
    total: int
    users: int


class Packed(msgspec.Struct):
    total: int
    users: int


def orders(value: Any = Order) -> tuple[StreamsBuilder, KGroupedStream[str, Any]]:
    builder = StreamsBuilder()
    return builder, builder.stream("orders", key=str, value=value).group_by_key()


def rows_of(builder: StreamsBuilder, *values: Any, topic: str = "rows") -> list[Any]:
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("orders")
        for n, value in enumerate(values):
            source.pipe_input("k", value, timestamp=n)
        return driver.create_output_topic(topic).read_values_to_list()


@pytest.mark.parametrize("kind", [Totals, Named, Packed])
def test_rows_are_of_the_type_that_is_named(kind: Any) -> None:
    """By keyword or in the store's options; it is the serde of all that follows, too."""
    said: list[dict[str, Any]] = [
        {"value": kind},
        {"materialized": Materialized[Any, Any](value=kind)},
    ]
    for options in said:
        builder, grouped = orders()
        rows = grouped.aggregate(
            total=Sum("amount"), users=CountDistinct("user"), store="s", **options
        )
        rows.to_stream().to("rows")
        found = rows_of(builder, Order(3, "ann"), Order(4, "ann"), Order(5, None))
        assert found == [kind(3, 1), kind(7, 1), kind(12, 1)]


@pytest.mark.parametrize("kind", [dict, Typed])
def test_rows_may_be_dicts(kind: Any) -> None:
    """With the names as keys."""
    builder, grouped = orders()
    rows = grouped.aggregate(total=Sum("amount"), users=CountDistinct("user"), value=kind)
    rows.to_stream().to("rows")
    assert rows_of(builder, Order(3, "ann")) == [{"total": 3, "users": 1}]


def test_rows_without_a_type_know_the_types_of_their_fields() -> None:
    """As far as the stream's type tells them, also after they were written and read."""
    builder, grouped = orders()
    rows = grouped.aggregate(
        price=Sum("price"), best=MaxBy("amount"), top=TopN(1, by="amount"), user=Latest("user")
    )
    rows.to_stream().to("rows")
    (row,) = rows_of(builder, Order(3, "ann", Decimal("1.10")))
    best = Order(3, "ann", Decimal("1.10"))
    assert (row.price, row.best, row.top, row.user) == (Decimal("1.10"), best, [best], "ann")
    assert isinstance(row, Row)
    assert repr(row).startswith("Row(price=Decimal('1.10'), best=Order(")
    assert pickle.loads(pickle.dumps(row)) == row


def test_names_are_never_code() -> None:
    """Whatever a field is called in the values or in the rows."""
    odd = ["class", "a b", "x'] or exit() #", "ä", "None", "s[0]"]
    builder, grouped = orders(dict)
    fields: dict[str, Any] = {name: Sum(name) for name in odd}
    grouped.aggregate(**fields, value=dict).to_stream().to("rows")
    values = {name: n for n, name in enumerate(odd)}
    assert rows_of(builder, values, values) == [values, {name: 2 * n for name, n in values.items()}]
    builder, grouped = orders(Any)
    grouped.aggregate(one=Max("class"), other=Max("a b")).to_stream().to("rows")
    assert tuple(rows_of(builder, {"class": 1, "a b": 2})[0].__struct_fields__) == ("one", "other")


def test_a_field_that_json_would_change_is_told() -> None:
    """With a type that gives it back: nothing becomes another type in silence."""
    serde = RowSerde(RowMaker(("total", "seen"), (int, Any)))
    fine = serde.deserialize(
        serde.serialize(RowMaker(("total", "seen"), (int, Any))(1, [{"a": 1}]))
    )
    assert fine == RowMaker(("total", "seen"), (int, Any))(1, [{"a": 1}])
    with pytest.raises(DataError, match=r"'seen' holds a decimal\.Decimal") as caught:
        serde.serialize(RowMaker(("total", "seen"), (int, Any))(1, [Decimal(1)]))
    assert "value=Totals" in str(caught.value)


def test_rows_of_other_fields_are_other_rows() -> None:
    """They are not equal, nor are their serdes."""
    one, other = RowMaker(("a",), (int,)), RowMaker(("b",), (int,))
    assert one(1) != other(1)
    assert one(1) == RowMaker(("a",), (int,))(1)
    assert RowSerde(one) != RowSerde(other)
    assert pickle.loads(pickle.dumps(RowSerde(one))) == RowSerde(one)


def test_queries_of_the_store_show_rows() -> None:
    """Not what is kept to make them; and nobody else can write there."""
    builder, grouped = orders()
    grouped.aggregate(mean=Avg("amount"), p50=Quantile(0.5, "amount"), store="means")
    minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    grouped.windowed_by(minutes).aggregate(mean=Avg("amount"), store="by-minute")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("orders").pipe_input("k", Order(4), timestamp=0)
        row: Any = driver.get_key_value_store("means").get("k")
        assert row.mean == 4.0
        assert [r.mean for _, r in driver.get_window_store("by-minute").all()] == [4.0]
        with pytest.raises(DataError, match="only its own step may write"):
            driver.get_key_value_store("means").put("k", row)


def test_what_is_kept_twice_is_kept_once() -> None:
    """A sum and a mean of a field share the total; quantiles share their buckets."""
    builder, grouped = orders()
    grouped.aggregate(
        total=Sum("amount"),
        mean=Avg("amount"),
        p50=Quantile(0.5, "amount"),
        p99=Quantile(0.99, "amount"),
        large=Count(where=is_large),
        store="s",
    )
    kept = aggregate_of(builder).store.value_serde.name
    assert kept == "aggregate:1:total amount,number amount,buckets 0.01 amount,count where"


def aggregate_of(builder: StreamsBuilder) -> Any:
    """Return the first aggregation."""
    return next(n for n in builder.build().nodes if isinstance(n, AggregateNode))


def is_large(order: Any) -> bool:
    return order.amount > 10


def verbs(grouped: Any) -> list[Any]:
    """Return every aggregate in a plain table, in windows, and by a verb of its own."""
    minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    every = {
        "a": Sum("amount"),
        "b": Avg("amount"),
        "c": MaxBy("amount"),
        "d": TopN(3, by="amount"),
        "e": CountDistinct("user"),
        "f": ApproxCountDistinct("user"),
        "g": Latest(),
        "h": Count(where=is_large),
        "i": Quantile(0.9, "amount"),
        "j": Max("amount"),
    }
    return [
        grouped.aggregate(**every, store="s1"),
        grouped.windowed_by(minutes).aggregate(**every, store="s2"),
        grouped.count_distinct("user", store="s3"),
        grouped.latest_by("amount", store="s4"),
        grouped.top_n(3, by="amount", store="s5"),
        grouped.cogroup(**every).aggregate(store="s6"),
    ]


def test_every_aggregate_is_combined_before_the_shuffle() -> None:
    """Of a stream and of its windows, so that a frequent key costs no more than a rare one."""
    builder, grouped = orders()
    verbs(grouped)
    physical = plan(builder.build(), options=PlanOptions(event_time="watermark"))
    roles = [step.role for stage in physical.stages for step in stage.steps]
    assert roles.count("combine") == 6
    assert roles.count("merge") == 6


def test_all_records_together_are_combined_before_the_shuffle() -> None:
    """Those without a key too; what travels is a row of each task, not each record."""
    builder = StreamsBuilder()
    stream = builder.stream("orders", key=str, value=int)
    stream.group_all().aggregate(total=Sum(), last=Latest(), store="s").to_stream().to("rows")
    minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    stream.group_all(name="again").windowed_by(minutes).count(store="w").to_stream().to("counts")
    physical = plan(builder.build(), options=PlanOptions(event_time="watermark"))
    roles = [step.role for stage in physical.stages for step in stage.steps]
    assert roles.count("combine") == roles.count("merge") == 2
    with TopologyTestDriver(builder.build(), key_groups=8, lanes=3) as driver:
        source = driver.create_input_topic("orders")
        for n, key in enumerate(["a", None, "b", "a"]):
            source.pipe_input(key, n, timestamp=n)
        rows = driver.create_output_topic("rows").read_key_values_to_map()
        counts = driver.create_output_topic("counts").read_key_values_to_map()
    assert [(key, row.total, row.last) for key, row in rows.items()] == [("all", 6, 3)]
    assert [(w.key, n) for w, n in counts.items()] == [("all", 4)]


def test_what_workers_run_is_not_of_the_dsl() -> None:
    """Functions that the library writes itself stand in a room that workers load anyway."""
    builder, grouped = orders()
    verbs(grouped)
    grouped.cogroup(a=Sum("amount")).cogroup(grouped, b=Sum("amount")).aggregate(store="s7")
    for node in builder.build().nodes:
        for function in (getattr(node, name, None) for name in ("mapper", "adder", "merger")):
            assert b"mustela.dsl" not in cloudpickle.dumps(function)


def test_written_functions_travel_to_workers() -> None:
    """With the functions of the user that they call."""
    builder, grouped = orders()
    verbs(grouped)
    node = aggregate_of(builder)
    adder = cloudpickle.loads(cloudpickle.dumps(node.adder))
    cells = adder("k", (Order(30, "ann"), 5), node.initializer())
    assert cells[0] == 30
    assert [5, Order(30, "ann")] in cells


def test_a_value_without_the_field_is_reported_at_the_users_line() -> None:
    """As a function's failure is: with the step and the line where the aggregate is said."""
    builder, grouped = orders(dict)
    grouped.aggregate(total=Sum("amount"), store="s")  # here
    with (
        pytest.raises(DataError, match="'amount'") as caught,
        TopologyTestDriver(builder.build()) as driver,
    ):
        driver.create_input_topic("orders").pipe_input("k", {"amuont": 3})
    assert "# here" in str(caught.value)


def test_a_function_that_fails_is_reported_at_its_own_line() -> None:
    """Not at that of the aggregation."""
    builder, grouped = orders(dict)
    field = lambda order: order["amuont"]  # noqa: E731 - there
    grouped.aggregate(total=Sum(field), store="s")
    with (
        pytest.raises(DataError) as caught,
        TopologyTestDriver(builder.build()) as driver,
    ):
        driver.create_input_topic("orders").pipe_input("k", {"amount": 3})
    assert "- there" in str(caught.value)


NOT_ONE: Any = 3


def of_two(one: Any, other: Any) -> Any:
    return one + other


OF_TWO: Any = of_two


def table_of_orders() -> Any:
    builder = StreamsBuilder()
    return builder.table("orders", key=str, value=Order).group_by(
        lambda key, order: (key, order), key=str, value=Order
    )


@pytest.mark.parametrize(
    ("call", "code", "told"),
    [
        (lambda g: g.aggregate(total=3), "TOPOLOGY_BAD_CALL", "has no total="),
        (lambda g: g.aggregate(), "TOPOLOGY_BAD_CALL", "needs initializer="),
        (lambda g: g.aggregate(int, total=Sum()), "TOPOLOGY_BAD_OPTION", "not both"),
        (
            lambda g: g.aggregate(total=Sum("amuont")),
            "TOPOLOGY_BAD_OPTION",
            "fix:   write 'amount'",
        ),
        (
            lambda g: g.aggregate(sum=Sum("amount"), value=Totals),
            "TOPOLOGY_BAD_OPTION",
            "cannot be Totals",
        ),
        (lambda g: g.top_n(0), "TOPOLOGY_BAD_OPTION", "from 1 to 10,000"),
        (lambda g: g.aggregate(p=Quantile(95)), "TOPOLOGY_BAD_OPTION", "from 0 to 1"),
        (
            lambda g: g.aggregate(p=Quantile(0.5, accuracy=0)),
            "TOPOLOGY_BAD_OPTION",
            "from 0.0001 to 0.5",
        ),
        (lambda g: g.aggregate(n=Count(where=NOT_ONE)), "TOPOLOGY_FUNCTION", "needs a function"),
        (lambda g: g.aggregate(n=Sum(OF_TWO)), "TOPOLOGY_FUNCTION", "(value)"),
        (
            lambda g: g.cogroup(n=Sum("amount")).cogroup(g, lambda k, v, a: a),
            "TOPOLOGY_BAD_OPTION",
            "not both",
        ),
        (
            lambda g: g.cogroup(n=Count()).cogroup(g, n=Count()),
            "TOPOLOGY_BAD_OPTION",
            "other_n=",
        ),
        (
            lambda g: g.cogroup(n=Count()).aggregate(int),
            "TOPOLOGY_BAD_OPTION",
            "not both",
        ),
        (
            lambda _: table_of_orders().aggregate(last=Latest()),
            "TOPOLOGY_SUBTRACTOR",
            "cannot be used on a table",
        ),
        (
            lambda _: table_of_orders().latest_by(),
            "TOPOLOGY_SUBTRACTOR",
            "cannot be used on a table",
        ),
        (
            lambda _: table_of_orders().aggregate(n=ApproxCountDistinct("user")),
            "TOPOLOGY_SUBTRACTOR",
            "use CountDistinct",
        ),
    ],
)
def test_what_cannot_be_is_told_at_the_users_line(
    call: Callable[[Any], object], code: str, told: str
) -> None:
    """When the topology is built, with what to write instead."""
    _, grouped = orders()
    with pytest.raises(UsageError) as caught:
        call(grouped)
    assert caught.value.code == code
    assert told in str(caught.value)
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


def test_values_that_are_numbers_have_no_fields() -> None:
    """The value itself is what is added."""
    _, grouped = orders(int)
    with pytest.raises(UsageError, match="values are int, which has no field 'amount'"):
        grouped.aggregate(total=Sum("amount"))


@pytest.mark.parametrize("options", [{}, {"crash_after_every_record": True, "key_groups": 4}])
def test_sessions_and_cogroups_in_windows_have_rows(options: Any) -> None:
    """Where sessions meet, one row is made of two."""
    builder, grouped = orders()
    other = builder.stream("other", key=str, value=int).group_by_key()
    gap = SessionWindows(inactivity_gap=timedelta(milliseconds=10), grace=timedelta(seconds=9))
    both = grouped.cogroup(total=Sum("amount"), users=CountDistinct("user")).cogroup(
        other, last=Latest(), most=Max()
    )
    both.windowed_by(gap).aggregate(store="s").to_stream().to("rows")
    with TopologyTestDriver(builder.build(), **options) as driver:
        one, two = driver.create_input_topic("orders"), driver.create_input_topic("other")
        one.pipe_input("k", Order(1, "ann"), timestamp=0)
        two.pipe_input("k", 7, timestamp=15)
        two.pipe_input("k", None, timestamp=17)
        one.pipe_input("k", Order(2, "bob"), timestamp=9)
        rows = driver.create_output_topic("rows").read_key_values_to_map()
    last = {(w.start, w.end): row for w, row in rows.items() if row is not None}
    assert last.keys() == {(0, 15)}
    row = last[0, 15]
    assert (row.total, row.users, row.last, row.most) == (3, 2, 7, 7)


def test_windows_become_rows() -> None:
    """With the key inside; a session that was merged into another is told with no value."""
    builder, grouped = orders(int)
    gap = SessionWindows(inactivity_gap=timedelta(milliseconds=10), grace=timedelta(0))
    counts = grouped.windowed_by(gap).count(store="s")
    flat = counts.to_stream(flat=True)
    flat.to("rows")
    flat.group_by_key().count(store="again").to_stream().to("again")
    sums = grouped.windowed_by(gap).aggregate(total=Sum(), store="t")
    sums.to_stream(flat=True, name="flat-sums").to("sums")
    with TopologyTestDriver(builder.build(), crash_after_every_record=True) as driver:
        driver.create_input_topic("orders").pipe_input("k", 1, timestamp=0)
        driver.create_input_topic("orders").pipe_input("k", 2, timestamp=5)
        rows = driver.create_output_topic("rows").read_key_values_to_list()
        totals = driver.create_output_topic("sums").read_values_to_list()
        again = driver.create_output_topic("again").read_key_values_to_map()
    told = [(key, (row.key, row.start, row.end, row.value)) for key, row in rows]
    assert told == [
        ("k", ("k", 0, 0, 1)),
        ("k", ("k", 0, 0, None)),
        ("k", ("k", 0, 5, 2)),
    ]
    assert totals[-1].value.total == 3
    assert again == {"k": 3}


def test_only_windows_become_rows() -> None:
    """And either a mapper or the key inside is the new key."""
    _, grouped = orders(int)
    with pytest.raises(UsageError) as caught:
        grouped.count().to_stream(flat=True)  # type: ignore[call-overload, misc]  # pyright: ignore
    assert caught.value.code == "TOPOLOGY_NOT_WINDOWED"
    assert "windowed_by" in str(caught.value)
    minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    table: Any = grouped.windowed_by(minutes).count(store="s")
    with pytest.raises(UsageError, match="cannot have both flat= and a mapper"):
        table.to_stream(max, flat=True)


def test_equal_topologies_have_equal_fingerprints_and_other_aggregates_another() -> None:
    """A store that holds something else is noticed when the program starts again."""

    def meaning(**fields: Any) -> object:
        builder, grouped = orders()
        grouped.aggregate(**fields, store="s")
        (found,) = plan(builder.build()).meanings.values()
        return found

    assert meaning(total=Sum("amount")) == meaning(renamed=Sum("amount"))
    assert meaning(total=Sum("amount")) != meaning(total=Max("amount"))
    assert meaning(top=TopN(2, by="amount")) != meaning(top=TopN(3, by="amount"))
