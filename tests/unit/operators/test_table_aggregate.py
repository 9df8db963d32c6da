"""Re-grouped tables against a model in plain Python, however epochs are cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import StreamsBuilder, TopologyTestDriver, UsageError
from mustela.api.errors import FunctionError, SubtractorError
from mustela.topology.graph import TopologyGraph
from tests.epochs import by_key
from tests.unit.operators.table_models import Given, GroupModel, Out, TableModel, in_order, run

WAYS = [
    {},
    {"key_groups": 8, "lanes": 3},
    {"key_groups": 4, "lanes": 2, "crash_after_every_record": True},
]
EVERY = {"emit": "every"}

VALUES = st.one_of(
    st.none(), st.tuples(st.sampled_from(["x", "y", "none", "skip"]), st.integers(0, 4)).map(list)
)
RECORDS = st.builds(
    Given,
    topic=st.just("t"),
    key=st.one_of(st.none(), st.sampled_from("abcd")),
    value=VALUES,
    timestamp=st.integers(0, 40),
)
EPOCHS = st.lists(st.lists(RECORDS, min_size=1, max_size=6), max_size=6)


def mapper(_key: str, value: list[Any]) -> Any:
    """Give group and value; some rows have no group, and some no value."""
    group, number = value
    if group == "skip":
        return None
    if number == 4:
        return group, None
    return (None if group == "none" else group), [number]


def collect(_group: str, value: list[int], total: list[int]) -> list[int]:
    """Change the aggregate in place, as careless functions do."""
    total.extend(value)
    return total


def discard(_group: str, value: list[int], total: list[int]) -> list[int] | None:
    """Change the aggregate in place; the last value deletes the row."""
    total.remove(value[0])
    return total or None


def add(total: list[int], value: list[int]) -> list[int]:
    total[0] += value[0]
    return total


def subtract(total: list[int], value: list[int]) -> list[int]:
    total[0] -= value[0]
    return total


def topology() -> TopologyGraph:
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=list)
    table.to_stream().foreach(lambda _key, value: None if value is None else value.append("spoilt"))
    grouped = table.group_by(mapper, key=str, value=list)
    grouped.count(store="count").to_stream().to("count", value=int)
    grouped.reduce(add, subtract, store="sum").to_stream().to("sum", value=list)
    held = grouped.aggregate(list, collect, discard, store="list", value=list)
    held.to_stream().to("list", value=list)
    sizes = held.group_by(lambda _group, total: (len(total), total[0]), key=int, value=int)
    sizes.reduce(int.__add__, int.__sub__, store="sizes").to_stream().to("sizes", value=int)
    return builder.build()


def models() -> dict[str, GroupModel]:
    return {
        "count": GroupModel(
            mapper, lambda _g, _v, total: (total or 0) + 1, lambda _g, _v, total: total - 1
        ),
        "sum": GroupModel(
            mapper,
            lambda _g, value, total: value if total is None else [total[0] + value[0]],
            lambda _g, value, total: [total[0] - value[0]],
        ),
        "list": GroupModel(
            mapper, lambda _g, value, total: [*(total or []), *value], without_first
        ),
    }


def without_first(_group: str, value: list[int], total: list[int]) -> list[int] | None:
    rest = list(total)
    rest.remove(value[0])
    return rest or None


def expected(records: Sequence[Given]) -> dict[str, list[Out]]:
    """Say what comes out with ``emit = every``, record by record."""
    table, found, all_models = TableModel(), defaultdict[str, list[Out]](list), models()
    sizes = GroupModel(
        lambda _g, total: (len(total), total[0]),
        lambda _g, value, total: value if total is None else total + value,
        lambda _g, value, total: total - value,
    )
    for record in records:
        for change in table.put(record):
            for name, model in all_models.items():
                changes = list(model.put(change))
                found[name] += [Out(c.key, c.new, c.timestamp) for c in changes]
                if name == "list":
                    more = [c for one in changes for c in sizes.put(one)]
                    found["sizes"] += [Out(c.key, c.new, c.timestamp) for c in more]
    return found


def final(rows: Sequence[Out]) -> dict[Any, tuple[Any, int]]:
    last = {row.key: (row.value, row.timestamp) for row in rows}
    return {key: row for key, row in last.items() if row[0] is not None}


OUTPUTS = ("count", "sum", "list", "sizes")


@given(EPOCHS)
def test_each_update_is_that_of_kafka_streams(epochs: list[list[Given]]) -> None:
    """With emit = every and one key group the result is the model's, in its order."""
    found = run(topology(), epochs, *OUTPUTS, settings=EVERY)
    wanted = expected(in_order(epochs))
    # A step behind a re-grouping sees two changes of one record by group, not by step.
    for name in ("count", "sum", "list"):
        assert found[name] == wanted[name]
    assert final(found["sizes"]) == final(wanted["sizes"])


@given(way=st.sampled_from(WAYS[1:]), epochs=EPOCHS)
def test_lanes_and_crashes_change_nothing(way: dict[str, Any], epochs: list[list[Given]]) -> None:
    """Each group's updates are the same for any number of lanes, and over crashes."""
    found = run(topology(), epochs, *OUTPUTS, settings=EVERY, **way)
    wanted = expected(in_order(epochs))
    for name in ("count", "sum", "list"):
        assert by_key(found[name]) == by_key(wanted[name])


@given(way=st.sampled_from(WAYS), epochs=EPOCHS)
def test_the_barrier_ends_with_the_same_groups(
    way: dict[str, Any], epochs: list[list[Given]]
) -> None:
    """However epochs are cut, the result is a recomputation from the table's rows."""
    found = run(topology(), epochs, *OUTPUTS, **way)
    table = TableModel()
    for record in in_order(epochs):
        list(table.put(record))
    groups: dict[str, list[int]] = defaultdict(list)
    for key, value in table.rows.items():
        place = mapper(key, value)
        if place is not None and None not in place:
            groups[place[0]].append(place[1][0])
    counts = {key: row[0] for key, row in final(found["count"]).items() if row[0]}
    sums = {key: row[0][0] for key, row in final(found["sum"]).items() if key in groups}
    lists = {key: sorted(row[0]) for key, row in final(found["list"]).items()}
    assert counts == {group: len(numbers) for group, numbers in groups.items()}
    assert sums == {group: sum(numbers) for group, numbers in groups.items()}
    assert lists == {group: sorted(numbers) for group, numbers in groups.items()}


@given(EPOCHS)
def test_a_record_per_epoch_makes_no_difference_of_the_settings(
    epochs: list[list[Given]],
) -> None:
    """With one record per epoch the barrier gives each update but those from null to null."""
    single = [[record] for epoch in epochs for record in epoch]
    barrier, every = run(topology(), single, *OUTPUTS), expected([r for [r] in single])
    for name in ("count", "sum", "list"):
        assert barrier[name] == without_nothing(every[name])


def without_nothing(rows: Sequence[Out]) -> list[Out]:
    """Leave out deletions of what is not there."""
    there: dict[Any, Any] = {}
    kept: list[Out] = []
    for row in rows:
        if row.value is not None or there.get(row.key) is not None:
            kept.append(row)
        there[row.key] = row.value
    return kept


def test_one_change_where_the_group_stays() -> None:
    """A row that stays in its group makes one update; one that moves, two, the old group first."""
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=str)
    table.group_by(lambda key, town: (town, key), key=str).count().to_stream().to("out", value=int)
    records = [Given("t", "a", "Rome", 5), Given("t", "a", "Rome", 3), Given("t", "a", "Oslo", 7)]
    found = run(builder.build(), [[record] for record in records], "out")["out"]
    assert found == [
        Out("Rome", 1, 5),
        Out("Rome", 1, 5),
        Out("Rome", 0, 7),
        Out("Oslo", 1, 7),
    ]


def test_groups_are_told_apart_by_their_bytes() -> None:
    """1, True and 1.0 are equal in Python, and three groups."""
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=list)
    table.group_by(lambda _key, value: (value[0], 1)).count(store="count")
    changes = [[Given("t", "a", [1], 0)], [Given("t", "a", [True], 0)], [Given("t", "a", [1.0], 0)]]
    with TopologyTestDriver(builder.build()) as driver:
        for [record] in changes:
            driver.create_input_topic("t").pipe_input(record.key, record.value)
        counts = driver.get_key_value_store("count")
        assert [(repr(key), value) for key, value in counts.all()] == [
            ("1", 0),
            ("True", 0),
            ("1.0", 1),
        ]


def test_a_table_without_a_store_is_given_one() -> None:
    """Old values need a store: the source keeps it, a filter and a mapping before it do not."""
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=int)
    odd = table.filter(lambda _key, value: value % 2 == 1).map_values(lambda value: value * 10)
    odd.group_by(lambda _key, value: (value, value), key=int).count(store="count")
    stores = {node.name: [store.name for store in node.stores] for node in builder.build()}
    assert stores["t"] == ["t"]
    assert [name for name, kept in stores.items() if kept] == [
        "t",
        "t.filter.map_values.group_by.count",
    ]


def test_a_failing_function_leaves_the_row_out() -> None:
    """A change on which a function raises is dropped, and the aggregate is as before it."""
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=int)

    def careful(_group: str, value: int, total: list[int]) -> list[int]:
        total.append(value)
        if value == 13:
            msg = "unlucky"
            raise ValueError(msg)
        return total

    grouped = table.group_by(lambda _key, value: ("gg"[1 // value :][:1], value), key=str)
    held = grouped.aggregate(list, careful, lambda _g, _v, total: total[:-1], value=list)
    held.to_stream().to("out", value=list)
    records = [Given("t", "a", 1, 0), Given("t", "b", 13, 0), Given("t", "c", 0, 0)]
    options = {"processing_handler": "continue"}
    for emit in ("every", "barrier"):
        found = run(
            builder.build(), [records[:1], records[1:]], "out", settings={**options, "emit": emit}
        )
        assert found["out"] == [Out("g", [1], 0)]


@pytest.mark.parametrize(
    ("wrong", "error", "fix"),
    [
        (lambda g: g.reduce(lambda a, b: a), SubtractorError, "lambda aggregate, value: ..."),
        (
            lambda g: g.aggregate(int, lambda _k, _v, t: t),
            SubtractorError,
            "lambda key, value, aggregate: ...",
        ),
        (lambda g: g.reduce(lambda a, b: a, lambda a: a), FunctionError, "let it take 2"),
        (lambda g: g.reduce(lambda a: a, lambda a, b: a), FunctionError, "let it take 2"),
        (
            lambda g: g.aggregate(int, lambda _k, _v, t: t, lambda v, t: t),
            FunctionError,
            "let it take 3",
        ),
        (lambda g: g.aggregate(0, lambda _k, _v, t: t, lambda _k, _v, t: t), FunctionError, "int"),
    ],
)
def test_what_is_wrong_is_said_with_the_line_and_the_fix(
    wrong: Any, error: type[UsageError], fix: str
) -> None:
    """Wrong functions fail when the topology is written."""
    table = StreamsBuilder().table("t", key=str, value=int)
    grouped = table.group_by(lambda _key, value: (value, value))
    with pytest.raises(error) as caught:
        wrong(grouped)
    assert fix in str(caught.value.fix)
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


def test_a_mapper_of_the_wrong_arity_is_refused() -> None:
    """The mapper takes key and value."""
    table = StreamsBuilder().table("t", key=str, value=int)
    with pytest.raises(FunctionError) as caught:
        table.group_by(lambda value: (value, value))  # type: ignore[arg-type,misc]
    assert "group_by cannot call its mapper" in str(caught.value)
