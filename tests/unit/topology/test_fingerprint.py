"""What changes the hash of a topology's shape, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mustela.api.options import Consumed, Materialized
from mustela.dsl.builder import StreamsBuilder

Write = Callable[[StreamsBuilder], Any]


def fingerprint(write: Write) -> str:
    builder = StreamsBuilder()
    write(builder)
    return builder.build().fingerprint


def base(builder: StreamsBuilder) -> None:
    lines = builder.stream("lines", key=str, value=str)
    lines.map_values(len).group_by_key().count(store="counts")


def other_body(builder: StreamsBuilder) -> None:
    lines = builder.stream("lines", key=str, value=str)
    lines.map_values(lambda line: len(line) + 1).group_by_key().count(store="counts")


def count_with(**options: Any) -> Write:
    def write(builder: StreamsBuilder) -> None:
        lines = builder.stream("lines", key=str, value=str)
        lines.map_values(len).group_by_key().count(**options)

    return write


def other_serde(builder: StreamsBuilder) -> None:
    lines = builder.stream("lines", key=str, value=bytes)
    lines.map_values(len).group_by_key().count(store="counts")


def other_reset(builder: StreamsBuilder) -> None:
    reset = Consumed[str, str](auto_offset_reset="latest")
    lines = builder.stream("lines", key=str, value=str, consumed=reset)
    lines.map_values(len).group_by_key().count(store="counts")


def other_verb(builder: StreamsBuilder) -> None:
    lines = builder.stream("lines", key=str, value=str)
    lines.map_values_with_key(max, name="lines.map_values").group_by_key().count(store="counts")


def negated(builder: StreamsBuilder) -> None:
    builder.stream("lines", key=str, value=str).filter_not(max, name="f")


def not_negated(builder: StreamsBuilder) -> None:
    builder.stream("lines", key=str, value=str).filter(max, name="f")


def test_a_mended_function_keeps_its_state() -> None:
    """Bodies and lines do not count."""
    assert fingerprint(base) == fingerprint(other_body)
    assert fingerprint(base) == fingerprint(count_with(store="counts"))


@pytest.mark.parametrize(
    "write",
    [
        count_with(store="other"),
        count_with(store="counts", name="counts"),
        count_with(materialized=Materialized(store="counts", logged=False)),
        count_with(materialized=Materialized(store="counts", topic_config={"segment.ms": "1"})),
        other_serde,
        other_reset,
        other_verb,
    ],
)
def test_another_shape_is_another_hash(write: Write) -> None:
    """Names, serdes, stores and options count."""
    assert fingerprint(write) != fingerprint(base)


def test_options_of_a_step_count() -> None:
    """The same name does not make the same step."""
    assert fingerprint(negated) != fingerprint(not_negated)


def test_the_order_of_independent_steps_does_not_count() -> None:
    """Moving lines about in a program changes nothing."""

    def forwards(builder: StreamsBuilder) -> None:
        builder.stream("a")
        builder.stream("b")

    def backwards(builder: StreamsBuilder) -> None:
        builder.stream("b")
        builder.stream("a")

    assert fingerprint(forwards) == fingerprint(backwards)


def test_the_hash_stays_the_same_over_releases() -> None:
    """Epoch records hold it: a change of this value needs another FINGERPRINT_FORMAT."""
    assert fingerprint(base) == "4cd563408ce4f1b79cbd413f04fc0815"
