"""Joins of streams as users write them: what is refused, what is named, what comes out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import Joined, JoinWindows, StreamJoined, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import (
    BadOptionError,
    DuplicateStoreError,
    FunctionError,
    JoinKeysError,
    OtherBuilderError,
)
from mustela.api.stores import Stores
from mustela.dsl.kstream import KStream
from mustela.errors import UsageError
from mustela.planner.explain import explain
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.topology.stream_join import StreamJoinNode

SECOND = timedelta(seconds=1)
NONE = timedelta(0)
NEAR = JoinWindows.of_time_difference(SECOND, grace=timedelta(0))


class Setting:
    """A builder with one of each that can be joined; nobody's type is known, to call wrongly."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.left: Any = self.builder.stream("left", key=str, value=str)
        self.right: Any = self.builder.stream("right", key=str, value=str)
        self.table: Any = self.builder.table("table", key=str, value=str)
        self.rows: Any = self.builder.table("rows", key=str, value=str)
        self.everywhere: Any = self.builder.global_table("global", key=str, value=str)


def pair(left: object, right: object) -> list[object]:
    return [left, right]


WRONG: dict[str, tuple[Callable[[Setting], Any], type[UsageError], str]] = {
    "a stream without windows": (lambda s: s.left.join(s.right, pair), BadOptionError, "windows="),
    "windows of another kind": (
        lambda s: s.left.join(s.right, pair, windows=SECOND),
        BadOptionError,
        "not timedelta",
    ),
    "a stream with a key mapper": (
        lambda s: s.left.join(s.right, pair, windows=NEAR, foreign_key_with_key=lambda k, _v: k),
        BadOptionError,
        "takes no foreign_key_with_key=",
    ),
    "a stream with a table's options": (
        lambda s: s.left.left_join(s.right, pair, windows=NEAR, joined=Joined()),
        BadOptionError,
        "takes no joined=",
    ),
    "a table with windows": (
        lambda s: s.left.join(s.table, pair, windows=NEAR),
        BadOptionError,
        "takes no windows=",
    ),
    "a table with stores": (
        lambda s: s.left.join(s.table, pair, store="s"),
        BadOptionError,
        "takes no store=",
    ),
    "a table with a stream's options": (
        lambda s: s.left.left_join(s.table, pair, stream_joined=StreamJoined()),
        BadOptionError,
        "takes no stream_joined=",
    ),
    "a table with a key mapper": (
        lambda s: s.left.join(s.table, pair, foreign_key_with_key=lambda k, _v: k),
        BadOptionError,
        "takes no foreign_key_with_key=",
    ),
    "an outer join with a table": (
        lambda s: s.left.outer_join(s.table, pair),
        BadOptionError,
        "cannot join 'left' with the table 'table'",
    ),
    "an outer join with a global table": (
        lambda s: s.left.outer_join_with_key(s.everywhere, lambda _k, a, b: (a, b)),
        BadOptionError,
        "cannot join 'left' with the global table",
    ),
    "a global table without a foreign key": (
        lambda s: s.left.join(s.everywhere, pair),
        BadOptionError,
        "needs foreign_key=",
    ),
    "a global table with windows": (
        lambda s: s.left.join(
            s.everywhere, pair, windows=NEAR, foreign_key_with_key=lambda k, _v: k
        ),
        BadOptionError,
        "takes no windows=",
    ),
    "a global table with a table's options": (
        lambda s: s.left.join(
            s.everywhere, pair, joined=Joined(), foreign_key_with_key=lambda k, _v: k
        ),
        BadOptionError,
        "takes no joined=",
    ),
    "something that is no handle": (
        lambda s: s.left.join("right", pair, windows=NEAR),
        BadOptionError,
        "cannot join 'left' with str",
    ),
    "a stream of another builder": (
        lambda s: s.left.join(Setting().right, pair, windows=NEAR),
        OtherBuilderError,
        "builders differ",
    ),
    "a joiner with the key where there is none": (
        lambda s: s.left.join(s.right, lambda _k, _a, _b: 1, windows=NEAR),
        FunctionError,
        "join cannot call its joiner",
    ),
    "a joiner without the key where there is one": (
        lambda s: s.left.left_join_with_key(s.right, pair, windows=NEAR),
        FunctionError,
        "left_join_with_key cannot call its joiner",
    ),
    "keys of two types": (
        lambda s: s.left.join(s.builder.stream("n", key=int, value=str), pair, windows=NEAR),
        JoinKeysError,
        "their keys differ",
    ),
    "options of another class": (
        lambda s: s.left.join(s.right, pair, windows=NEAR, stream_joined=Joined()),
        BadOptionError,
        "Joined",
    ),
    "a store that is not the join's": (
        lambda s: s.left.join(
            s.right,
            pair,
            windows=NEAR,
            stream_joined=StreamJoined(this_store=supplier("x", SECOND)),
        ),
        BadOptionError,
        "cannot keep the records",
    ),
    "two stores of one name": (
        lambda s: s.left.join(
            s.right,
            pair,
            windows=NEAR,
            stream_joined=StreamJoined(
                this_store=supplier("x", 2 * SECOND), other_store=supplier("x", 2 * SECOND)
            ),
        ),
        DuplicateStoreError,
        "both sides",
    ),
}


def supplier(name: str, span: timedelta) -> Any:
    return Stores.persistent_window_store(name, span, span, retain_duplicates=True)


@pytest.mark.parametrize("case", sorted(WRONG))
def test_a_join_that_cannot_be_is_refused_when_it_is_written(case: str) -> None:
    """With the user's line, and a way out."""
    write, kind, told = WRONG[case]
    with pytest.raises(kind) as caught:
        write(Setting())
    assert told in caught.value.what
    assert caught.value.fix
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


@pytest.mark.parametrize(
    ("before", "after", "grace"),
    [
        (-SECOND, SECOND / 2, NONE),
        (SECOND, -2 * SECOND, NONE),
        (SECOND, SECOND, -SECOND),
        (SECOND, 5, NONE),
        (timedelta(microseconds=-5), SECOND, NONE),
    ],
)
def test_windows_that_cannot_be_are_refused(before: Any, after: Any, grace: Any) -> None:
    """As soon as they are made."""
    with pytest.raises(BadOptionError) as caught:
        JoinWindows(before=before, after=after, grace=grace)
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


@pytest.mark.parametrize("span", [NONE, SECOND])
def test_one_side_of_a_window_may_be_negative(span: timedelta) -> None:
    """Nothing is a legal size too."""
    windows = JoinWindows(before=-span, after=span, grace=NONE)
    assert (windows.spec().before_ms, windows.spec().size_ms) == (-span // SECOND * 1000, 0)


def node_of(stream: KStream[Any, Any], builder: StreamsBuilder) -> StreamJoinNode:
    (node,) = (node for node in builder.build() if node.name == stream.name)
    assert isinstance(node, StreamJoinNode)
    return node


def test_stores_are_named_after_the_step_or_by_the_user() -> None:
    """With Kafka Streams' suffixes; a name that was given is one for production."""
    s = Setting()
    plain = node_of(s.left.join(s.right, pair, windows=NEAR), s.builder)
    assert [store.name for store in plain.stores] == [
        "left.join-this-join-store",
        "left.join-other-join-store",
    ]
    assert not plain.explicit_store
    s = Setting()
    kept = StreamJoined(store="seen", topic_config={"segment.ms": "60000"})
    named = node_of(s.left.outer_join(s.right, pair, windows=NEAR, stream_joined=kept), s.builder)
    assert [store.name for store in named.stores] == [
        "seen-outer-this-join-store",
        "seen-outer-other-join-store",
        "seen-outer-shared-join-store",
    ]
    assert named.explicit_store
    assert {store.topic_config["segment.ms"] for store in named.stores} == {"60000"}
    s = Setting()
    two = StreamJoined(
        this_store=supplier("mine", 2 * SECOND), other_store=supplier("theirs", 2 * SECOND)
    )
    given = node_of(s.left.left_join(s.right, pair, windows=NEAR, stream_joined=two), s.builder)
    assert [store.name for store in given.stores] == [
        "mine",
        "theirs",
        "mine-left-shared-join-store",
    ]
    assert given.explicit_store


def test_the_joiner_may_be_given_the_key() -> None:
    """In every kind of join."""
    s = Setting()

    def told(key: object, left: object, right: object) -> str:
        return f"{key}:{left}:{right}"

    for number, join in enumerate(
        (s.left.join_with_key, s.left.left_join_with_key, s.left.outer_join_with_key)
    ):
        join(s.right, told, windows=NEAR, name=f"j{number}").to(f"out{number}", value=str)
    with TopologyTestDriver(s.builder.build()) as driver:
        driver.create_input_topic("left").pipe_input("k", "a", timestamp=0)
        driver.create_input_topic("right").pipe_input("k", "b", timestamp=5)
        for number in range(3):
            assert driver.create_output_topic(f"out{number}").read_values_to_list() == ["k:a:b"]


def test_what_is_joined_can_be_grouped_where_it_is() -> None:
    """The results of a join are in the lane of their key: nothing travels again."""
    s = Setting()
    joined = s.left.join(s.right, lambda a, b: f"{a}{b}", windows=NEAR, name="j", value=str)
    joined.group_by_key().count(store="n").to_stream().to("out")
    assert len(plan(s.builder.build()).stages) == 2
    with TopologyTestDriver(s.builder.build(), key_groups=8, lanes=2) as driver:
        driver.create_input_topic("left").pipe_key_value_list([("k", "a"), ("k", "b")])
        driver.create_input_topic("right").pipe_input("k", "c")
        assert driver.create_output_topic("out").read_values_to_list() == [2]


def test_keys_that_changed_travel_before_a_join() -> None:
    """However many partitions the topics have."""
    s = Setting()
    by_value = s.left.select_key(lambda _key, value: value)
    by_value.join(s.right, pair, windows=NEAR, name="j").to("out", key=str, value=list)
    with TopologyTestDriver(s.builder.build(), key_groups=8, lanes=3) as driver:
        driver.create_input_topic("left").pipe_input("x", "k", timestamp=0)
        driver.create_input_topic("right").pipe_input("k", "v", timestamp=0)
        out = driver.create_output_topic("out")
        assert out.read_key_values_to_list() == [("k", ["k", "v"])]


def self_join() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.join(stream, pair, windows=NEAR, name="j").to("out", value=list)
    return builder


def test_a_stream_that_is_joined_with_itself_is_kept_once() -> None:
    """By a rule that can be switched off."""
    once = plan(self_join().build())
    assert sorted(once.stores) == ["j-this-join-store"]
    assert "j <- in=>1:" in explain(once)
    off = PlanOptions(rules_off=frozenset({"single_store_self_join"}))
    assert sorted(plan(self_join().build(), options=off).stores) == [
        "j-other-join-store",
        "j-this-join-store",
    ]


JOINS: dict[str, Callable[[Setting], Any]] = {
    "with a stream": lambda s: s.left.join(s.right, pair, NEAR, name="j"),
    "with a stream, left": lambda s: s.left.left_join(s.right, pair, NEAR, name="j"),
    "with a stream, outer": lambda s: s.left.outer_join(s.right, pair, NEAR, name="j"),
    "with a table": lambda s: s.left.join(s.table, pair, name="j"),
    "with a table, left": lambda s: s.left.left_join(s.table, pair, name="j"),
    "with a global table": lambda s: s.left.join(s.everywhere, pair, foreign_key=str, name="j"),
    "with a global table, left": lambda s: s.left.left_join(
        s.everywhere, pair, foreign_key=str, name="j"
    ),
    "of tables": lambda s: s.table.join(s.rows, pair, name="j"),
    "of tables, left": lambda s: s.table.left_join(s.rows, pair, name="j"),
    "of tables, outer": lambda s: s.table.outer_join(s.rows, pair, name="j"),
    "by foreign key": lambda s: s.table.join(s.rows, pair, foreign_key=str, name="j"),
}


@pytest.mark.parametrize("call", JOINS.values(), ids=JOINS)
def test_every_join_knows_the_line_that_asked_for_it(call: Callable[[Setting], Any]) -> None:
    """However many functions of the library lie between: for its step, and for its errors."""
    setting = Setting()
    here = (__file__, call.__code__.co_firstlineno)
    call(setting)
    made = setting.builder.build()["j"].origin
    assert made is not None
    assert (made.file, made.line) == here
    with pytest.raises(UsageError, match="two steps are named 'j'") as caught:
        call(setting)
    assert caught.value.at is not None
    assert (caught.value.at.file, caught.value.at.line) == here
