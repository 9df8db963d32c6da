"""Joins by foreign key against a model in plain Python, however epochs are cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from mustela import Materialized, Processor, Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.kernel.joins.foreign_key import subscription_key, subscription_prefix
from mustela.planner.planner import plan
from mustela.topology.foreign_key import ForeignKeyMatchNode
from mustela.topology.graph import TopologyGraph
from tests.epochs import by_key
from tests.unit.operators.table_models import Given, JoinModel, Out, TableModel, in_order, run

Kind = Literal["inner", "left"]

WAYS = [
    {},
    {"key_groups": 8, "lanes": 3},
    {"key_groups": 4, "lanes": 2, "crash_after_every_record": True},
]
EVERY = {"emit": "every"}
RECENT = Stores.lru_map("recent", 100)
KINDS: st.SearchStrategy[Kind] = st.sampled_from(["inner", "left"])
KEPT = st.sampled_from([None, "rights"])
"""The store of the right table; the join keeps the right rows itself where there is none."""

FOREIGN = st.sampled_from(["x", "y", "xy", ""])
LEFT = st.builds(
    Given,
    topic=st.just("left"),
    key=st.one_of(st.none(), st.sampled_from(["a", "b", "ab", "c"])),
    value=st.one_of(
        st.none(), st.tuples(st.one_of(st.none(), FOREIGN), st.integers(0, 3)).map(list)
    ),
    timestamp=st.integers(0, 40),
)
RIGHT = st.builds(
    Given,
    topic=st.just("right"),
    key=FOREIGN,
    value=st.one_of(st.none(), st.integers(0, 3).map(lambda number: [number])),
    timestamp=st.integers(0, 40),
)
EMITS = st.sampled_from(["barrier", "every"])
EPOCHS = st.lists(st.lists(st.one_of(LEFT, RIGHT), min_size=1, max_size=7), max_size=7)


def joiner(left: list[Any], right: list[Any] | None) -> list[Any]:
    """Change both values in place, as careless functions do."""
    left.append(right and right[0])
    if right is not None:
        right.append("spoilt")
    return left


def topology(
    kind: Kind, *, store: str | None = None, with_key: bool = False, kept: str | None = None
) -> TopologyGraph:
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=list)
    right = builder.table("right", key=str, value=list, store=kept)
    keys: dict[str, Any] = (
        {"foreign_key_with_key": foreign_key}
        if with_key
        else {"foreign_key": lambda value: value[0]}
    )
    join = left.join if kind == "inner" else left.left_join
    joined = join(right, joiner, value=list, store=store, **keys)
    joined.to_stream().to("out", value=list)
    by_number = joined.group_by(lambda key, value: (value[1], key), key=int, value=str)
    by_number.count(store="sizes").to_stream().to("sizes", value=int)
    return builder.build()


def foreign_key(key: str, value: list[Any]) -> str | None:
    found: str | None = value[0]
    return "y" if key == "c" else found


def model(kind: Kind, *, with_key: bool = False) -> JoinModel:
    return JoinModel(
        kind,
        foreign_key if with_key else lambda _key, value: value[0],
        lambda left, right: [*left, right and right[0]],
    )


def expected(join: JoinModel, records: Sequence[Given]) -> list[Out]:
    """Say what comes out with ``emit = every``, record by record."""
    tables = {"left": TableModel(), "right": TableModel()}
    found: list[Out] = []
    for record in records:
        for change in tables[record.topic].put(record):
            put = join.put_left if record.topic == "left" else join.put_right
            found += put(change)
    return found


def final(rows: Sequence[Out]) -> dict[Any, Any]:
    last = {row.key: row.value for row in rows}
    return {key: value for key, value in last.items() if value is not None}


def nested_loop(join: JoinModel, kind: Kind) -> dict[Any, Any]:
    """Join the final tables in the plainest way."""
    rights = {key: value for key, (value, _) in join.right.items()}
    return {
        key: [*left, rights.get(mine) and rights[mine][0]]
        for key, (left, mine, _) in join.left.items()
        if kind == "left" or mine in rights
    }


def plain(kind: Kind, *, with_key: bool = False, kept: str | None = None) -> TopologyGraph:
    """A join without a store: it tells deletions of rows that were not there, too.

    A step behind it that asks for old values would give it a store, which knows better.
    """
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=list)
    right = builder.table("right", key=str, value=list, store=kept)
    join = left.join if kind == "inner" else left.left_join
    if with_key:
        joined = join(right, joiner, value=list, foreign_key_with_key=foreign_key)
    else:
        joined = join(right, joiner, value=list, foreign_key=lambda value: value[0])
    joined.to_stream().to("out", value=list)
    return builder.build()


@given(kind=KINDS, with_key=st.booleans(), kept=KEPT, epochs=EPOCHS)
def test_each_result_is_that_of_kafka_streams(
    kind: Kind, with_key: bool, kept: str | None, epochs: list[list[Given]]
) -> None:
    """With emit = every each change gives what it gives in Kafka Streams, in the same order."""
    found = run(plain(kind, with_key=with_key, kept=kept), epochs, "out", settings=EVERY)
    assert found["out"] == expected(model(kind, with_key=with_key), in_order(epochs))


@given(kind=KINDS, way=st.sampled_from(WAYS[1:]), kept=KEPT, epochs=EPOCHS)
def test_lanes_and_crashes_change_nothing(
    kind: Kind, way: dict[str, Any], kept: str | None, epochs: list[list[Given]]
) -> None:
    """The results of each left row are the same for any number of lanes, and over crashes."""
    found = run(plain(kind, kept=kept), epochs, "out", settings=EVERY, **way)
    assert by_key(found["out"]) == by_key(expected(model(kind), in_order(epochs)))


@given(
    kind=KINDS,
    way=st.sampled_from(WAYS),
    store=st.sampled_from([None, "joined"]),
    kept=KEPT,
    epochs=EPOCHS,
)
def test_the_result_is_a_nested_loop_over_the_final_tables(
    kind: Kind,
    way: dict[str, Any],
    store: str | None,
    kept: str | None,
    epochs: list[list[Given]],
) -> None:
    """However epochs are cut, and whatever is kept, the barrier ends with the same rows."""
    found = run(topology(kind, store=store, kept=kept), epochs, "out", "sizes", **way)
    join = model(kind)
    expected(join, in_order(epochs))
    rows = nested_loop(join, kind)
    assert final(found["out"]) == rows
    sizes = defaultdict[int, int](int)
    for value in rows.values():
        sizes[value[1]] += 1
    assert {key: count for key, count in final(found["sizes"]).items() if count} == sizes


@given(epochs=EPOCHS)
def test_one_result_for_each_left_row_and_epoch(epochs: list[list[Given]]) -> None:
    """At the barrier a left row has at most one result for each epoch."""
    with TopologyTestDriver(plain("left"), initial_wall_clock=0) as driver:
        for epoch in epochs:
            with driver.epoch():
                for record in epoch:
                    topic = driver.create_input_topic(record.topic)
                    topic.pipe_input(record.key, record.value, timestamp=record.timestamp)
            keys = [row.key for row in driver.create_output_topic("out").read_records_to_list()]
            assert len(keys) == len(set(keys))


@given(kind=KINDS, way=st.sampled_from(WAYS[:2]), emit=EMITS, epochs=EPOCHS)
def test_right_rows_are_the_same_wherever_they_are_kept(
    kind: Kind, way: dict[str, Any], emit: str, epochs: list[list[Given]]
) -> None:
    """In the right table's own store they are looked up as they were at that moment."""
    settings = {"emit": emit}
    off = {**settings, "topology": {"rules_off": ["materialize_lookup"]}}
    shared = run(plain(kind, kept="rights"), epochs, "out", settings=settings, **way)
    copied = run(plain(kind, kept="rights"), epochs, "out", settings=off, **way)
    assert shared == copied


def test_only_a_store_that_holds_the_right_rows_as_they_are_is_looked_up() -> None:
    """A view, a store that forgets rows and one that a processor writes too do not do."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=list)
    rights = {
        "kept": builder.table("kept", key=str, value=list, store="kept"),
        "bare": builder.table("bare", key=str, value=list),
        "recent": builder.table(
            "recent", key=str, value=list, materialized=Materialized(supplier=RECENT)
        ),
        "viewed": builder.table("viewed", key=str, value=list, store="viewed").filter(
            lambda _key, value: bool(value)
        ),
        "shared": builder.table("shared", key=str, value=list, store="shared"),
    }
    builder.stream("pokes", key=str, value=list).process(Poke, stores=["shared"], name="poke")
    for name, right in rights.items():
        join = left.join(right, joiner, foreign_key=lambda v: v[0], value=list, name=f"of-{name}")
        join.to_stream().to(f"out-{name}", value=list)
    found = {
        step.node.name.split("-")[1]: step.node.table
        for stage in plan(builder.build()).stages
        for step in stage.steps
        if isinstance(step.node, ForeignKeyMatchNode)
    }
    assert {name for name, table in found.items() if table is not None} == {"kept"}


class Poke(Processor[str, Any, str, Any]):
    """Could write a store behind its table's back."""

    def process(self, record: Record[str, Any]) -> None:
        """Do nothing."""


def self_join(kind: Kind) -> TopologyGraph:
    """People and their managers, who are people too."""
    builder = StreamsBuilder()
    people = builder.table("left", key=str, value=list)
    join = people.join if kind == "inner" else people.left_join
    joined = join(
        people,
        lambda person, manager: [*person, manager and manager[1]],
        foreign_key=lambda person: person[0],
        value=list,
    )
    joined.to_stream().to("out", value=list)
    return builder.build()


PEOPLE = st.lists(
    st.lists(
        st.builds(
            Given,
            topic=st.just("left"),
            key=st.sampled_from("abc"),
            value=st.one_of(
                st.none(),
                st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 2)).map(list),
            ),
            timestamp=st.integers(0, 20),
        ),
        min_size=1,
        max_size=5,
    ),
    max_size=5,
)


@given(kind=KINDS, epochs=PEOPLE)
def test_a_table_joins_itself(kind: Kind, epochs: list[list[Given]]) -> None:
    """Where one record changes both sides, what was said before it is not answered any more."""
    join = JoinModel(kind, lambda _key, v: v[0], lambda one, other: [*one, other and other[1]])
    table, wanted = TableModel(), list[Out]()
    for record in in_order(epochs):
        for change in table.put(record):
            # Kafka Streams drops answers that were made for the row as it was before.
            wanted += join.put_right(change, but=change.key)
            wanted += join.put_left(change)
    found = run(self_join(kind), epochs, "out", settings=EVERY)["out"]
    assert by_key(found) == by_key(wanted)
    assert final(run(self_join(kind), epochs, "out")["out"]) == final(wanted)


def test_a_right_change_reaches_its_subscribers_by_key_and_at_its_own_time() -> None:
    """One result for each left row, in the order of the keys' bytes; the time can go back."""
    records = [Given("left", key, ["x", 0], 50) for key in ("b", "a", "ab")]
    epochs = [*([record] for record in records), [Given("right", "x", [7], 3)]]
    assert run(plain("inner"), epochs, "out")["out"] == [
        Out("a", ["x", 0, 7], 3),
        Out("ab", ["x", 0, 7], 3),
        Out("b", ["x", 0, 7], 3),
    ]


def test_what_the_subscriptions_hold() -> None:
    """The store holds left values by foreign and left key, in Kafka Streams' layout of the key."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=str)
    right = builder.table("right", key=str, value=str)
    left.join(right, lambda one, other: one + other, foreign_key=str.lower, name="pairs")
    with TopologyTestDriver(builder.build(), key_groups=4, lanes=2) as driver:
        topic = driver.create_input_topic("left")
        for key, value in (("1", "X"), ("2", "Y"), ("3", "X"), ("1", None)):
            topic.pipe_input(key, value)
        held = dict(driver.get_key_value_store("pairs-subscription-store").all())
    assert held == {subscription_key(b"x", b"3"): b"X", subscription_key(b"y", b"2"): b"Y"}
    assert subscription_key(b"x", b"3").startswith(subscription_prefix(b"x"))


def test_keys_that_begin_alike_do_not_meet() -> None:
    """The length of a foreign key is part of what is searched."""
    records = [Given("left", "a", ["x", 0], 1), Given("left", "ya", ["xy", 0], 1)]
    epochs = [records, [Given("right", "x", [1], 2)]]
    assert run(plain("inner"), epochs, "out")["out"] == [Out("a", ["x", 0, 1], 2)]


def test_a_failing_function_leaves_the_row_out() -> None:
    """What an extractor or a joiner raises on is dropped alone."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=int)
    right = builder.table("right", key=int, value=int)
    joined = left.join(
        right, lambda one, other: other // (one - 3), foreign_key=lambda v: 6 // v, value=int
    )
    joined.to_stream().to("out", value=int)
    records = [Given("right", n, 60, 0) for n in (1, 2, 3, 6)]
    records += [
        Given("left", key, value, 1) for key, value in zip("abcd", (0, 3, 2, 6), strict=True)
    ]
    found = run(builder.build(), [records], "out", settings={"processing_handler": "continue"})
    assert found["out"] == [Out("c", -60, 1), Out("d", 20, 1)]


def test_a_foreign_key_of_another_type_is_named() -> None:
    """A foreign key is written as the right table's keys are; what is not like them is an error."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=str)
    right = builder.table("right", key=int, value=str)
    left.join(right, lambda one, other: one + other, foreign_key=lambda v: v).to_stream()
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(Exception) as caught:  # noqa: PT011
        driver.create_input_topic("left").pipe_input("a", "7")
    assert "left.join-subscription" in str(caught.value)
    assert "holds int, got str" in str(caught.value)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("emit", ["barrier", "every"])
@pytest.mark.parametrize("kind", ["inner", "left"])
def test_a_result_joins_the_table_that_it_was_made_of(kind: Kind, emit: str, stored: bool) -> None:
    """What a left row does comes back to its table later: a deletion deletes, as an update does."""

    def join(left: Any, right: Any, name: str, **options: Any) -> Any:
        method = left.join if kind == "inner" else left.left_join
        kept = {"store": name} if stored else {}
        return method(right, lambda a, b: f"({a},{b})", value=str, **kept, **options)

    builder = StreamsBuilder()
    orders = builder.table("orders", key=str, value=str)
    users = builder.table("users", key=str, value=str)
    joined = join(orders, users, "joined", foreign_key=lambda order: order[0])
    join(joined, orders, "again").to_stream().to("out", key=str, value=str)
    settings = {"emit": emit, "event_time": "stream-time"}
    with TopologyTestDriver(
        builder.build(), settings=settings, crash_after_every_record=True
    ) as driver:
        pipe = {name: driver.create_input_topic(name).pipe_input for name in ("orders", "users")}
        out = driver.create_output_topic("out")
        pipe["users"]("a", "Ann", timestamp=0)
        pipe["orders"]("o", "a1", timestamp=1)
        assert out.read_key_values_to_list()[-1] == ("o", "((a1,Ann),a1)")
        pipe["orders"]("o", "a2", timestamp=2)
        updates = out.read_key_values_to_list()
        assert updates[-1] == ("o", "((a2,Ann),a2)")
        # Kafka Streams joins the new row with the old result first.
        assert updates[:-1] == ([("o", "((a1,Ann),a2)")] if emit == "every" else [])
        pipe["orders"]("o", None, timestamp=3)
        assert out.read_key_values_to_list()[-1] == ("o", None)


def test_the_result_is_kept_in_the_store_of_a_supplier() -> None:
    """As it is in a store that is named alone."""
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=str)
    right = builder.table("right", key=str, value=str)
    kept = Materialized(supplier=Stores.in_memory_key_value_store("pairs"))
    told = left.join(right, "{}|{}".format, foreign_key=lambda value: value, materialized=kept)
    assert told.queryable_store_name == "pairs"
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("right").pipe_input("x", "right")
        driver.create_input_topic("left").pipe_input("a", "x")
        assert dict(driver.get_key_value_store("pairs").all()) == {"a": "x|right"}


def test_a_filter_with_a_store_says_no_deletion_of_nothing_to_a_join() -> None:
    """With each update told: a right row that never passed the filter makes no row anew."""
    builder = StreamsBuilder()
    lefts = builder.table("left", key=str, value=str)
    rights = builder.table("right", key=str, value=int).filter(lambda _k, v: v > 5, store="large")
    joined = lefts.left_join(rights, "{}+{}".format, foreign_key=lambda _value: "x", value=str)
    joined.to_stream().to("out")
    with TopologyTestDriver(builder, settings=EVERY) as driver:
        driver.create_input_topic("left").pipe_input("a", "q")
        right = driver.create_input_topic("right")
        for value in (1, 2, 7, 3, 4):
            right.pipe_input("x", value)
        told = driver.create_output_topic("out").read_values_to_list()
    assert told == ["q+None", "q+7", "q+None"]
