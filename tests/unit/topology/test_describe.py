"""The text form of a topology, and what belongs together in it."""

from __future__ import annotations

from mustela.dsl.builder import StreamsBuilder
from mustela.topology.describe import describe, sub_topologies


def test_parts_without_common_records_are_apart() -> None:
    """Two programs in one builder are two sub-topologies, in the order they were written."""
    builder = StreamsBuilder()
    builder.stream("b").to("b2", name="b-out")
    builder.stream("a").to("a2", name="a-out")
    parts = sub_topologies(builder.build().nodes)
    assert [[node.name for node in part] for part in parts] == [["b", "b-out"], ["a", "a-out"]]


def test_a_merge_makes_one_part_of_two() -> None:
    """What meets later belongs together from the start."""
    builder = StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    builder.stream("other")
    left.merge(right)
    assert [len(part) for part in sub_topologies(builder.build().nodes)] == [3, 1]


def test_nothing_is_described_as_none() -> None:
    """An empty builder is not an error."""
    assert describe(StreamsBuilder().build()) == "Topologies:\n   none\n"


def test_a_topic_chosen_by_a_function_shows_the_function() -> None:
    """There is no topic to print."""
    builder = StreamsBuilder()

    class Route:
        def __call__(self, key: bytes, value: bytes, context: object) -> str:
            return "topic"

    builder.stream("a").to(Route(), name="out")
    assert "Sink: out (extractor class: " in describe(builder.build())
    assert "Route)" in describe(builder.build())
