"""How a serde is known from the steps before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mustela.api.errors import MissingSerdeError, OptionConflictError
from mustela.api.options import Consumed, Grouped, Materialized, Produced
from mustela.dsl.builder import StreamsBuilder
from mustela.dsl.kstream import KStream
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde, FloatSerde, IntSerde, StrSerde
from mustela.serdes.resolve import UnknownSerdeError
from mustela.serdes.values import ValueSerde
from mustela.topology.aggregate import AggregateNode
from mustela.topology.sink import SinkNode

Verb = Callable[[KStream[str, int]], KStream[Any, Any]]


def sum_up(_key: str, value: int, total: int) -> int:
    return total + value


def written(builder: StreamsBuilder) -> tuple[Serde[Any] | None, Serde[Any] | None]:
    sink = builder.build().nodes[-1]
    assert isinstance(sink, SinkNode)
    return sink.key, sink.value


@pytest.mark.parametrize(
    ("verb", "key", "value"),
    [
        (lambda s: s.filter(lambda _k, _v: True), True, True),
        (lambda s: s.filter_not(lambda _k, _v: True), True, True),
        (lambda s: s.peek(print), True, True),
        (lambda s: s.map_values(abs), True, False),
        (lambda s: s.map_values_with_key(max), True, False),
        (lambda s: s.flat_map_values(range), True, False),
        (lambda s: s.flat_map_values_with_key(max), True, False),
        (lambda s: s.select_key(max), False, True),
        (lambda s: s.map(max), False, False),
        (lambda s: s.flat_map(max), False, False),
        (lambda s: s.merge(s), True, True),
        (lambda s: s.merge(s.select_key(max)), False, True),
        (lambda s: s.group_by_key().reduce(max).to_stream(), True, True),
        (lambda s: s.group_by_key().count().to_stream(), True, True),
        (lambda s: s.group_by_key().count().to_stream(max), False, True),
        (lambda s: s.group_by_key().aggregate(int, max).to_stream(), True, False),
        (lambda s: s.group_by(max).reduce(max).to_stream(), False, True),
        (lambda s: s.group_by_key().reduce(max).filter(max).to_stream(), True, True),
        (lambda s: s.group_by_key().reduce(max).map_values(abs).to_stream(), True, False),
    ],
)
def test_a_serde_stays_known_where_a_step_cannot_change_the_type(
    verb: Verb, key: bool, value: bool
) -> None:
    """What a step may change must be said again where it is written."""
    builder = StreamsBuilder()
    stream = verb(builder.stream("numbers", key=str, value=int))
    for part, known in (("key", key), ("value", value)):
        other: dict[str, Any] = {"value": int} if part == "key" else {"key": str}
        if known:
            stream.to(f"known-{part}", **other)
            assert written(builder) == (StrSerde(), IntSerde())
        else:
            with pytest.raises(MissingSerdeError) as caught:
                stream.to(f"unknown-{part}", **other)
            assert caught.value.fields["part"] == part
    stream.to("said", key=str, value=int)
    assert written(builder) == (StrSerde(), IntSerde())


def test_a_stream_without_types_is_bytes() -> None:
    """Nothing is decoded that nobody asked for."""
    builder = StreamsBuilder()
    builder.stream("raw").to("copies")
    assert written(builder) == (BytesSerde(), BytesSerde())


def test_a_sink_may_say_another_serde() -> None:
    """What is said at the sink goes before what is known."""
    builder = StreamsBuilder()
    as_double = Produced[Any, Any](value=FloatSerde())
    builder.stream("numbers", key=str, value=int).to("copies", produced=as_double)
    assert written(builder) == (StrSerde(), FloatSerde())


def test_counts_are_kafkas_longs() -> None:
    """A count is read by any consumer of longs."""
    builder = StreamsBuilder()
    builder.stream("lines", key=str, value=str).group_by_key().count(store="counts")
    (store,) = builder.build().nodes[-1].stores
    assert (store.key_serde, store.value_serde) == (StrSerde(), IntSerde())


def test_an_aggregation_takes_what_is_said_before_what_is_known() -> None:
    """Each fold has its own idea of the values of its store."""
    builder = StreamsBuilder()
    grouped = builder.stream("numbers", key=str, value=int).group_by_key()
    grouped.reduce(max, store="inherited")
    grouped.reduce(max, store="said", value=FloatSerde())  # pyright: ignore[reportArgumentType]
    grouped.aggregate(list, lambda _k, v, seen: [*seen, v], store="unknown")
    grouped.aggregate(int, sum_up, store="typed", materialized=Materialized(value=int))
    assert [node.stores[0].value_serde for node in builder.build().nodes[1:]] == [
        IntSerde(),
        FloatSerde(),
        ValueSerde(),
        IntSerde(),
    ]


def test_a_grouping_key_of_unknown_type_takes_the_serde_that_keeps_types() -> None:
    """Grouping works without a word about types."""
    builder = StreamsBuilder()
    builder.stream("lines", key=str, value=str).group_by(lambda _k, line: len(line)).count()
    node = builder.build().nodes[-1]
    assert isinstance(node, AggregateNode)
    assert node.key == node.store.key_serde == ValueSerde(sort_keys=True)


def test_a_grouping_may_say_its_key() -> None:
    """``key=`` of the grouping, or ``Grouped``, is the key of the store."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    lines.group_by(lambda _k, line: len(line), key=int).count(store="a")
    lines.group_by_key(grouped=Grouped(key=StrSerde())).count(store="b")
    stores = [store for node in builder.build() for store in node.stores]
    assert [store.key_serde for store in stores] == [IntSerde(), StrSerde()]


def test_store_and_grouping_agree_on_the_key() -> None:
    """A store's keys are the grouping's keys."""
    grouped = StreamsBuilder().stream("lines", key=str, value=str).group_by_key()
    with pytest.raises(OptionConflictError):
        grouped.count(materialized=Materialized(key=int))  # pyright: ignore[reportArgumentType]


def test_an_unknown_type_names_the_users_line() -> None:
    """The error of the serde room says where it was asked."""
    with pytest.raises(UnknownSerdeError) as caught:
        StreamsBuilder().stream("lines", key=str, value=complex)
    assert caught.value.at is not None
    assert "value=complex" in caught.value.at.code


def test_options_can_be_subscripted() -> None:
    """``Consumed[str, int](...)`` works at run time on every Python."""
    options = Consumed[str, int](key=str, value=int)
    assert StreamsBuilder().stream("lines", consumed=options).name == "lines"
