"""Branches, travel by key, tables made of streams, lines of text: as a user sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from mustela import (
    Branched,
    Grouped,
    KStream,
    Materialized,
    Printed,
    Produced,
    Repartitioned,
    StreamsBuilder,
    TopologyTestDriver,
)
from mustela.api.errors import (
    BadOptionError,
    DuplicateNameError,
    FunctionError,
    OptionConflictError,
    OtherBuilderError,
    SplitEndedError,
    UnfinishedSplitError,
)
from mustela.topology.graph import TopologyGraph
from mustela.topology.routing import RepartitionNode

Pairs = list[tuple[Any, Any]]

WAYS: list[dict[str, Any]] = [
    {},
    {"crash_after_every_record": True, "key_groups": 8, "lanes": 3},
    {"key_groups": 8, "lanes": 3, "settings": {"emit": "every", "event_time": "watermark"}},
]


def run(
    topology: TopologyGraph,
    inputs: dict[str, Pairs],
    topics: list[str],
    *,
    grouped: bool,
    **way: Any,
) -> dict[str, Pairs]:
    with TopologyTestDriver(topology, **way) as driver:
        for topic, pairs in inputs.items():
            piped = driver.create_input_topic(topic, start=0, auto_advance=1)
            if grouped:
                with driver.epoch():
                    piped.pipe_key_value_list(pairs)
            else:
                piped.pipe_key_value_list(pairs)
        return {
            topic: driver.create_output_topic(topic).read_key_values_to_list() for topic in topics
        }


def even(_key: Any, value: Any) -> bool:
    return value % 2 == 0


def by_three(_key: Any, value: Any) -> bool:
    return value % 3 == 0


@pytest.mark.parametrize("way", WAYS)
@given(values=st.lists(st.integers(-20, 20), max_size=12), grouped=st.booleans())
def test_a_record_goes_to_the_first_branch_that_takes_it(
    way: dict[str, Any], values: list[int], grouped: bool
) -> None:
    """And to no other; what no branch takes goes to the default branch."""
    builder = StreamsBuilder()
    branches = builder.stream("in", key=str, value=int).split().branch(even).branch(by_three)
    for name, stream in branches.default_branch(name="rest").items():
        stream.to(name)
    pairs = [(str(n), value) for n, value in enumerate(values)]
    got = run(builder.build(), {"in": pairs}, ["even", "by_three", "rest"], grouped=grouped, **way)
    assert got["even"] == [p for p in pairs if p[1] % 2 == 0]
    assert got["by_three"] == [p for p in pairs if p[1] % 2 and p[1] % 3 == 0]
    assert got["rest"] == [p for p in pairs if p[1] % 2 and p[1] % 3]


def test_without_a_default_branch_records_that_none_takes_are_dropped() -> None:
    """As Kafka Streams does with noDefaultBranch()."""
    builder = StreamsBuilder()
    split = builder.stream("in", key=str, value=int).split().branch(even)
    split.no_default_branch()["even"].to("out")
    assert run(builder.build(), {"in": [("a", 1), ("b", 2)]}, ["out"], grouped=True) == {
        "out": [("b", 2)]
    }


def test_a_later_predicate_sees_only_what_is_left() -> None:
    """So a guard in front saves a branch behind it from what it cannot look at."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    split = stream.split().branch(lambda _key, value: value is None, name="none")
    split.branch(lambda _key, value: value > 1, name="many").default_branch()["default"].to("out")
    pairs: Pairs = [("a", None), ("b", 1), ("c", 2)]
    assert run(builder.build(), {"in": pairs}, ["out"], grouped=True)["out"] == [("b", 1)]


def test_a_record_on_which_a_predicate_fails_meets_the_handler_alone() -> None:
    """It is in no branch, not even the default one; the others are untouched."""
    builder = StreamsBuilder()
    split = builder.stream("in", key=str, value=int).split()
    split = split.branch(lambda _key, value: 6 // value > 2, name="small")
    for name, stream in split.default_branch().items():
        stream.to(name)
    pairs: Pairs = [("a", 1), ("b", 0), ("c", 6)]
    settings = {"settings": {"processing_handler": "continue"}}
    got = run(builder.build(), {"in": pairs}, ["small", "default"], grouped=True, **settings)
    assert got == {"small": [("a", 1)], "default": [("c", 6)]}


def test_branches_do_not_see_each_others_changes() -> None:
    """A function that changes its argument changes its own branch's record alone."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=list)
    split = stream.split().branch(lambda key, _value: key == "a", name="a")

    def grow(value: list[int]) -> list[int]:
        value.append(0)
        return value

    branches = split.default_branch()
    branches["a"].map_values(grow).to("a", value=list)
    branches["default"].to("rest")
    stream.to("all")
    got = run(builder.build(), {"in": [("a", [1]), ("b", [2])]}, ["a", "rest", "all"], grouped=True)
    assert got == {"a": [("a", [1, 0])], "rest": [("b", [2])], "all": [("a", [1]), ("b", [2])]}


def test_what_is_in_the_result_of_a_split() -> None:
    """A function's stream stands for the branch; a consumer's branch, and None, do not stand.

    branches-are-named: Kafka Streams counts branches, and puts the name of the split before theirs.
    """
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    taken: list[KStream[str, int]] = []
    split = stream.split(name="by")
    split.branch(even, function=lambda branch: branch.filter(by_three, name="six"))
    split.branch(by_three, branched=Branched(consumer=taken.append))
    split.branch(lambda _k, v: v == 1, name="one", function=lambda _branch: None)
    result = split.default_branch()
    assert {name: branch.name for name, branch in result.items()} == {
        "even": "six",
        "default": "by.default",
    }
    assert [branch.name for branch in taken] == ["by.by_three"]
    names = [node.name for node in builder.build()]
    assert names == ["in", "by", "by.even", "six", "by.by_three", "by.one", "by.default"]


def test_branches_are_found_as_kafka_streams_names_them() -> None:
    """The split's name stands before theirs; one without a name has its number, the default 0."""
    stream = StreamsBuilder().stream("in", key=str, value=int)
    split = stream.split(name="by-").branch(even).branch(by_three, name="three")
    found = split.branch(lambda _k, v: v == 1, name="one", consumer=print).default_branch()
    assert list(found) == ["even", "three", "default"]
    assert found["by-1"] is found["even"]
    assert found["by-three"] is found["three"]
    assert found["by-0"] is found["default"]
    for missing in ("by-one", "by-even", "by-2", "three-by"):
        with pytest.raises(KeyError, match=missing):
            found[missing]
    assert "by-0" not in found
    unnamed = stream.split().branch(even).no_default_branch()
    assert unnamed["1"] is unnamed["even"]
    assert (
        stream.split(name="x").branch(even, name="y").default_branch(name="z")["xz"].name == "x.z"
    )


def test_a_split_that_is_wrong_is_refused_at_its_line() -> None:
    """Two branches of a name, no end, two ends, both a function and a consumer."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    split = stream.split().branch(even)
    with pytest.raises(DuplicateNameError) as caught:
        split.branch(by_three, name="even")
    assert caught.value.at is not None
    assert "split.branch(by_three" in caught.value.at.code
    with pytest.raises(UnfinishedSplitError, match="no_default_branch"):
        builder.build()
    split.no_default_branch()
    for again in (split.default_branch, split.no_default_branch, lambda: split.branch(by_three)):
        with pytest.raises(SplitEndedError):
            again()
    with pytest.raises(BadOptionError, match="function and a consumer"):
        stream.split(name="other").branch(
            even, function=lambda branch: branch, consumer=lambda _branch: None
        )
    with pytest.raises(OptionConflictError):
        stream.split(name="third").branch(even, name="a", branched=Branched(name="b"))
    wrong: Any = lambda value: value  # noqa: E731
    with pytest.raises(FunctionError):
        stream.split(name="fourth").branch(wrong)
    number: Any = len
    fifth = stream.split(name="fifth").branch(even, function=lambda branch: number(branch.name))
    with pytest.raises(BadOptionError, match="function of branch") as caught:
        fifth.default_branch()
    assert caught.value.at is not None
    assert "branch(even" in caught.value.at.code


@pytest.mark.parametrize("way", WAYS)
def test_repartitioned_records_keep_time_headers_and_order(way: dict[str, Any]) -> None:
    """Only the lane changes, and what has no key is lost."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=int, value=str).select_key(lambda _key, value: value or None)
    stream.repartition(key=str, name="by-value").to("out")
    with TopologyTestDriver(builder.build(), **way) as driver:
        topic = driver.create_input_topic("in")
        with driver.epoch():
            for n, value in enumerate(["b", "a", "", "a", "b"]):
                topic.pipe_input(n, value, timestamp=n, headers=(("n", str(n).encode()),))
        records = driver.create_output_topic("out").read_records_to_list()
    got = [(r.key, r.value, r.timestamp, r.headers[0][1]) for r in records]
    by_key = {key: [row for row in got if row[0] == key] for key in ("a", "b", None)}
    assert by_key == {
        "a": [("a", "a", 1, b"1"), ("a", "a", 3, b"3")],
        "b": [("b", "b", 0, b"0"), ("b", "b", 4, b"4")],
        None: [],
    }


def test_records_travel_once_where_a_grouping_follows_a_repartition() -> None:
    """The grouping finds the records in the lane of their key."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=int, value=str).select_key(lambda key, _value: str(key))
    spread = stream.repartition(repartitioned=Repartitioned(key=str, name="new-key"))
    spread.group_by_key().count(store="counts").to_stream().to("out")
    from mustela.planner.planner import plan

    stages = plan(builder.build()).stages
    assert [len(stage.exchanges) for stage in stages] == [1, 0]
    pairs: Pairs = [(1, "A"), (2, "B"), (1, "C")]
    got = run(builder.build(), {"in": pairs}, ["out"], grouped=False)
    assert got["out"] == [("1", 1), ("2", 1), ("1", 2)]


def test_a_partitioner_of_a_repartition_may_drop_and_repeat() -> None:
    """It is called once for each record, with the step's name and the number it was given.

    repartition-writes-no-topic: Kafka Streams would send the records to the partitions it names.
    """
    calls: list[tuple[Any, ...]] = []

    def choose(topic: str, key: str, value: int, count: int) -> Any:
        calls.append((topic, key, value, count))
        return [None, 1, set[int](), {0, 2}][value]

    builder = StreamsBuilder()
    options = Repartitioned[str, int](name="spread", partitions=3, partitioner=choose)
    builder.stream("in", key=str, value=int).repartition(repartitioned=options).to("out")
    pairs: Pairs = [("a", 0), ("a", 1), ("a", 2), ("a", 3)]
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.create_input_topic("in").pipe_key_value_list(pairs)
        got = driver.create_output_topic("out").read_values_to_list()
        assert driver.metrics["dropped_by_partitioner:spread"] == 1
    assert got == [0, 1, 3, 3]
    assert calls == [("spread", "a", n, 3) for n in range(4)]


def test_the_options_of_a_repartition_are_checked() -> None:
    """With the user's line."""
    stream = StreamsBuilder().stream("in", key=str, value=int)
    wrong: Any = lambda key: key  # noqa: E731
    with pytest.raises(FunctionError):
        stream.repartition(partitioner=wrong)
    with pytest.raises(BadOptionError, match="number of partitions"):
        stream.repartition(repartitioned=Repartitioned(partitions=0))
    with pytest.raises(OptionConflictError):
        stream.repartition(name="a", repartitioned=Repartitioned(name="b"))


@pytest.mark.parametrize("way", WAYS)
@given(
    values=st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 3)), max_size=10),
    grouped=st.booleans(),
)
def test_a_stream_is_taken_as_a_table(way: dict[str, Any], values: Pairs, grouped: bool) -> None:
    """The store holds the newest value of each key; null deletes."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=int, value=int).select_key(lambda key, _value: "ab"[key])
    stream.to_table(key=str, store="last").to_stream().to("out")
    final = dict(values)
    with TopologyTestDriver(builder.build(), **way) as driver:
        topic = driver.create_input_topic("in")
        pairs = [("ab".index(key), value) for key, value in values]
        if grouped:
            with driver.epoch():
                topic.pipe_key_value_list(pairs)
        else:
            topic.pipe_key_value_list(pairs)
        store = driver.get_key_value_store("last")
        assert {key: store.get(key) for key in final} == final
        assert driver.create_output_topic("out").read_key_values_to_map().items() <= final.items()


def test_a_table_of_a_stream_has_a_store_only_if_it_is_named() -> None:
    """As a table of a topic."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    assert stream.to_table().queryable_store_name is None
    assert stream.to_table(name="a").queryable_store_name == "a"
    assert stream.to_table(store="b").queryable_store_name == "b"
    options = Materialized[str, int](store="c")
    assert stream.to_table(materialized=options).queryable_store_name == "c"
    assert sorted(store.name for node in builder.build() for store in node.stores) == list("abc")


def test_records_without_a_key_are_in_no_table() -> None:
    """They are dropped and counted."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_table(store="s").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in").pipe_key_value_list([(None, 1), ("a", 2)])
        assert driver.create_output_topic("out").read_key_values_to_list() == [("a", 2)]
        assert driver.metrics["dropped_null_key:in"] == 1


def test_records_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """To standard output or a file, with a label and a text of one's own.

    printed-lines-are-added: Kafka Streams empties the file first.
    """
    (tmp_path / "out.txt").write_text("before\n")
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.print()
    stream.print(Printed.to_sys_out().with_label("x"), name="again")
    stream.print(
        Printed.to_file(tmp_path / "out.txt").with_key_value_mapper(lambda k, v: f"{k}={v}"),
        name="file",
    )
    run(builder.build(), {"in": [("a", 1), ("b", None)]}, [], grouped=True)
    assert capsys.readouterr().out == "[in]: a, 1\n[in]: b, None\n[x]: a, 1\n[x]: b, None\n"
    assert (tmp_path / "out.txt").read_text() == "before\n[in]: a=1\n[in]: b=None\n"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Printed.to_file(""),
        lambda: Printed.to_file(cast("Any", None)),
        lambda: Printed[Any, Any](path=""),
        lambda: Printed.to_sys_out().with_label(cast("Any", 7)),
    ],
)
def test_what_is_printed_has_a_path_and_a_label_of_text(make: Callable[[], Any]) -> None:
    """Whoever says it."""
    stream = StreamsBuilder().stream("in", key=str, value=int)
    with pytest.raises(BadOptionError):
        stream.print(make())


def test_many_streams_are_merged_at_once() -> None:
    """What needs order behind them sees them in order of time."""
    builder = StreamsBuilder()
    streams = [builder.stream(topic, key=str, value=int) for topic in "abc"]
    streams[0].merge(*streams[1:], name="all").repartition().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            for n, topic in enumerate("cab"):
                driver.create_input_topic(topic).pipe_input(topic, n, timestamp=n)
        got = driver.create_output_topic("out").read_values_to_list()
    assert got == [0, 1, 2]


@pytest.mark.parametrize(
    "merge", [lambda s: s.merge(), lambda s: s.merge(7), lambda s: s.merge(s, "in")]
)
def test_only_streams_are_merged(merge: Callable[[Any], Any]) -> None:
    """At least one."""
    with pytest.raises(BadOptionError):
        merge(StreamsBuilder().stream("in", key=str, value=int))


def test_streams_of_two_builders_are_not_merged() -> None:
    """Whichever of them it is."""
    builder = StreamsBuilder()
    first, second = builder.stream("a"), builder.stream("b")
    with pytest.raises(OtherBuilderError) as caught:
        first.merge(second, StreamsBuilder().stream("c"))
    assert caught.value.fields == {"left": "a", "right": "c"}


def test_the_node_of_a_repartition_holds_what_was_said() -> None:
    """By keyword and by options alike."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.repartition(key=str, name="a")
    node = builder.build()["a"]
    assert isinstance(node, RepartitionNode)
    assert (node.key and node.key.name, node.value and node.value.name) == ("str", "int")
    assert node.explicit_name


def test_options_may_hold_the_serdes_of_values() -> None:
    """Those of a repartition, a grouping and a sink, each with its name."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).map_values(int, name="number")
    spread = stream.repartition(repartitioned=Repartitioned(value=int, name="spread"))
    grouped = spread.group_by_key(grouped=Grouped(value=int, name="by-key"))
    grouped.reduce(max, store="most").to_stream().to("out", produced=Produced(name="written"))
    topology = builder.build()
    assert [node.name for node in topology][2:] == [
        *("spread", "by-key.reduce", "by-key.reduce.to_stream", "written")
    ]
    got = run(topology, {"in": [("a", "1"), ("a", "3"), ("a", "2")]}, ["out"], grouped=True)
    assert got == {"out": [("a", 3)]}
