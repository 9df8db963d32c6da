"""Sources, and what a builder makes of them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from mustela.api.errors import (
    BadOptionError,
    OtherBuilderError,
    SourceConflictError,
    StreamAndTableError,
)
from mustela.api.options import Consumed, Materialized, Produced
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import UsageError
from mustela.topology.source import SourceNode, TableSourceNode
from mustela.topology.stateless import MapValuesNode


def test_a_topic_that_is_read_twice_alike_is_one_source() -> None:
    """Its records are read once."""
    builder = StreamsBuilder()
    first = builder.stream("lines", key=str, value=str)
    second = builder.stream("lines", key=str, value=str)
    assert (first.name, len(builder.build().nodes)) == (second.name, 1)


@pytest.mark.parametrize(
    "again",
    [
        {"key": str, "value": int},
        {"key": str, "value": str, "name": "other"},
        {"key": str, "value": str, "consumed": Consumed(auto_offset_reset="latest")},
    ],
)
def test_a_topic_is_not_read_in_two_ways(again: dict[str, Any]) -> None:
    """The error names what differs."""
    builder = StreamsBuilder()
    builder.stream("lines", key=str, value=str)
    with pytest.raises(SourceConflictError) as caught:
        builder.stream("lines", **again)
    assert set(caught.value.fields["differences"]) <= {"value", "name", "auto_offset_reset"}


def test_the_order_of_topics_and_a_name_that_is_not_said_again_make_no_other_source() -> None:
    """What is read is the same; the source keeps its first name."""
    builder = StreamsBuilder()
    first = builder.stream(["a", "b"], key=str, name="both")
    assert builder.stream(["b", "a"], key=str).name == first.name == "both"
    with pytest.raises(SourceConflictError) as caught:
        builder.stream(["b", "a"], key=bytes)
    assert caught.value.fields["differences"] == ("name", "key")


def test_lists_of_topics_do_not_overlap() -> None:
    """A topic belongs to one source."""
    builder = StreamsBuilder()
    builder.stream(["a", "b"])
    with pytest.raises(SourceConflictError) as caught:
        builder.stream(["b", "c"])
    assert caught.value.fields["topic"] == "b"


def test_a_topic_is_a_stream_or_a_table() -> None:
    """Both orders are refused, with the way out."""
    for order in (("stream", "table"), ("table", "stream")):
        builder = StreamsBuilder()
        getattr(builder, order[0])("prices", key=str, value=int)
        with pytest.raises(StreamAndTableError, match="to_stream"):
            getattr(builder, order[1])("prices", key=str, value=int)


@pytest.mark.parametrize("topics", [[], None, 7, ["a", "a"], {"a": 1}])
def test_topics_are_a_name_or_a_list_of_different_names(topics: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(BadOptionError):
        StreamsBuilder().stream(topics)


def test_options_of_another_step_are_refused() -> None:
    """Each option class belongs to its steps."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    wrong: Any = Produced(key=str)
    for call in (
        lambda: builder.stream("other", consumed=wrong),
        lambda: lines.group_by_key(grouped=wrong),
        lambda: lines.group_by_key().count(materialized=wrong),
        lambda: lines.to("copies", produced=Consumed(key=str)),  # type: ignore[arg-type]  # pyright: ignore
    ):
        with pytest.raises(BadOptionError):
            call()


def test_a_wrong_place_to_begin_is_refused() -> None:
    """Kafka's words only."""
    wrong: Any = "earlyest"
    with pytest.raises(BadOptionError, match="earliest, latest, none"):
        StreamsBuilder().stream("lines", consumed=Consumed(auto_offset_reset=wrong))


def test_sources_keep_their_options() -> None:
    """What the user said reaches the node."""
    builder = StreamsBuilder()
    builder.stream(["b", "a"], consumed=Consumed(auto_offset_reset="latest", name="both"))
    builder.table("t", key=str, value=int, materialized=Materialized(store="s", logged=False))
    source, table = builder.build().nodes
    assert isinstance(source, SourceNode)
    assert (source.topics, source.name, source.auto_offset_reset) == (("b", "a"), "both", "latest")
    assert isinstance(table, TableSourceNode)
    assert table.store is not None
    assert (table.store.name, table.store.logged) == ("s", False)


def test_streams_of_two_builders_do_not_meet() -> None:
    """A topology is one builder's."""
    left, right = (StreamsBuilder().stream("lines") for _ in range(2))
    with pytest.raises(OtherBuilderError):
        left.merge(right)


def test_a_built_topology_does_not_change() -> None:
    """``build`` may be called at any time, and again."""
    builder = StreamsBuilder()
    lines = builder.stream("lines")
    before = builder.build()
    lines.to("copies")
    assert len(before.nodes) == 1
    assert len(builder.build().nodes) == 2
    assert builder.build().fingerprint == builder.build().fingerprint


def test_the_users_line_travels_with_the_step() -> None:
    """A failure on an executor can still name it, in a chain over several lines too."""
    builder = StreamsBuilder()
    (
        builder.stream("lines", key=str, value=str)
        .map_values(len)
        .filter(lambda _key, length: length)
    )
    nodes = builder.build().nodes
    assert isinstance(nodes[1], MapValuesNode)
    codes = [node.origin.code for node in nodes if node.origin]
    assert codes == [
        'builder.stream("lines", key=str, value=str)',
        ".map_values(len)",
        ".filter(lambda _key, length: length)",
    ]


def test_errors_survive_pickle() -> None:
    """Spark carries errors between processes."""
    with pytest.raises(UsageError) as caught:
        StreamsBuilder().stream("a b")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert type(again) is type(caught.value)
