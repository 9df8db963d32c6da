"""What leaves for Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.errors import InvariantError
from mustela.kernel.core.failures import ProcessingError, SerializationError
from mustela.kernel.core.output import SinkRows
from mustela.model import RecordContext
from mustela.planner.expressions import expression_of
from mustela.topology.sink import SinkNode
from tests.unit.kernel.stages import INT, STR, batch, runner


def rows_of(node: SinkNode, rows: Any, **options: Any) -> tuple[list[SinkRows], Any]:
    stage = runner(node, **options)
    source = batch(rows, [10 + n for n in range(len(rows))])
    stage.run({"in": source})
    output = stage.take_output()
    return output.rows, output


def test_rows_are_encoded_bytes() -> None:
    """Key, value and time of each record; nulls stay null."""
    node = SinkNode(name="out", topic="t", key=STR, value=INT)
    (rows,), _ = rows_of(node, [("a", 1), (None, None)])
    assert rows == SinkRows(
        step="out",
        topic="t",
        keys=[b"a", None],
        values=[(1).to_bytes(8, "big"), None],
        timestamps=[10, 11],
    )


def test_without_serdes_rows_are_bytes_already() -> None:
    """And anything else is refused."""
    node = SinkNode(name="out", topic="t")
    (rows,), _ = rows_of(node, [(b"a", b"1")])
    assert (rows.keys, rows.values) == ([b"a"], [b"1"])
    with pytest.raises(SerializationError, match="holds bytes"):
        rows_of(node, [("a", b"1")])


def test_a_function_may_name_the_topic() -> None:
    """It sees key, value and where the record came from."""
    seen: list[RecordContext] = []

    def topic(key: str, value: int, context: RecordContext) -> str:
        seen.append(context)
        return f"{key}-{value}"

    node = SinkNode(name="out", topic=topic, key=STR, value=INT)
    (rows,), _ = rows_of(node, [("a", 1), ("b", 2)])
    assert rows.topic == ["a-1", "b-2"]
    assert (seen[1].topic, seen[1].offset, seen[1].timestamp) == ("in", 1, 11)


TOPICS: dict[Any, Any] = {1: "one", 2: "two", 7: 7, 8: ""}


@pytest.mark.parametrize(
    "topic",
    [
        lambda key, value, _context: f"{key}-{TOPICS.get(value, 'other')}",
        lambda _key, value, _context: TOPICS.get(value),
        lambda _key, value, _context: TOPICS[value],
        lambda key, _value, context: f"{key}-{context.offset}",
        lambda key, _value, _context: key,
    ],
)
@pytest.mark.parametrize("values", [[1, 2], [1, 2, 3], [7, 1], [8, 2], [1, None]])
def test_an_expression_names_the_topics_that_calls_would_name(topic: Any, values: Any) -> None:
    """Bad names and errors are those of their rows, too."""
    expression = expression_of(topic)
    assert expression is not None
    found: list[Any] = []
    for function in (topic, expression):
        node = SinkNode(name="out", topic=function, key=STR, value=INT)
        rows = [("k", value) for value in values]
        written, output = rows_of(node, rows, processing_handler="dead_letter")
        letters = output.dead_letters.keys, output.dead_letters.headers
        found.append(([(one.topic, one.values) for one in written], letters))
    assert found[0] == found[1]


@pytest.mark.parametrize("result", ["", None, 5])
def test_a_topic_must_be_a_name(result: Any) -> None:
    """Anything else fails its record."""
    node = SinkNode(name="out", topic=lambda k, v, c: result if v == 2 else "t", key=STR, value=INT)
    with pytest.raises(ProcessingError, match="must return a topic's name"):
        rows_of(node, [("a", 1), ("b", 2)])
    (rows,), _ = rows_of(node, [("a", 1), ("b", 2), ("c", 3)], processing_handler="continue")
    assert (rows.topic, rows.keys) == (["t", "t"], [b"a", b"c"])


def test_a_partitioner_chooses_or_leaves_the_choice() -> None:
    """It is told the topic and its number of partitions."""
    node = SinkNode(
        name="out",
        topic="t",
        key=STR,
        value=INT,
        partitioner=lambda topic, key, value, count: None if value == 0 else value % count,
    )
    options = {"topic_partitions": {"t": 3}}
    (rows,), _ = rows_of(node, [("a", 0), ("b", 5)], **options)
    assert rows.partitions == [None, 2]


@pytest.mark.parametrize("choice", [3, -1, "x"])
def test_a_partition_must_exist(choice: Any) -> None:
    """Anything else fails its record."""
    node = SinkNode(name="out", topic="t", key=STR, value=INT, partitioner=lambda *_: choice)
    with pytest.raises(ProcessingError, match=r"3 partitions|must return a partition, not str"):
        rows_of(node, [("a", 1)], topic_partitions={"t": 3})


def test_a_row_that_cannot_be_encoded_meets_the_handler_alone() -> None:
    """Once, whether key or value fails, or both; columns stay in step."""
    node = SinkNode(
        name="out",
        topic=lambda k, v, c: f"t{c.offset}",
        key=STR,
        value=INT,
        partitioner=lambda topic, *_: int(topic[1:]),
    )
    counts = {f"t{n}": 9 for n in range(5)}
    source = [("a", 1), (5, 2), ("c", "x"), (7, "y"), ("e", 5)]
    (rows,), output = rows_of(
        node, source, production_handler="dead_letter", topic_partitions=counts
    )
    assert rows.keys == [b"a", b"e"]
    assert rows.topic == ["t0", "t4"]
    assert rows.partitions == [0, 4]
    assert rows.timestamps == [10, 14]
    assert len(output.dead_letters) == 3
    assert output.counters["dead_letters:out"] == 3
    with pytest.raises(SerializationError) as caught:
        rows_of(SinkNode(name="out", topic="t", key=STR, value=INT), source)
    assert caught.value.fields["offset"] == 1


def test_nothing_leaves_when_no_row_is_left() -> None:
    """No empty columns."""
    node = SinkNode(name="out", topic="t", key=STR, value=INT)
    rows, _ = rows_of(node, [("a", "x")], production_handler="continue")
    assert rows == []


def test_the_number_of_partitions_comes_from_the_engine() -> None:
    """A missing one is our own mistake: no handler is asked."""
    node = SinkNode(name="out", topic="t", key=STR, value=INT, partitioner=lambda *_: 0)
    with pytest.raises(InvariantError, match=r"number of partitions .* is not known"):
        rows_of(node, [("a", 1)], processing_handler="continue")


@pytest.mark.parametrize("kind", [set, frozenset, list, tuple])
def test_a_partitioner_may_name_several_partitions_or_none(kind: Any) -> None:
    """Each of them gets the record; one that goes nowhere is counted."""
    choices = {"a": kind([2, 0]), "b": kind([]), "c": None, "d": 1}
    node = SinkNode(
        name="out", topic="t", key=STR, value=INT, partitioner=lambda _t, key, _v, _n: choices[key]
    )
    rows = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    (columns,), output = rows_of(node, rows, topic_partitions={"t": 3})
    assert columns.keys == [b"a", b"a", b"c", b"d"]
    assert columns.partitions == [0, 2, None, 1]
    assert columns.timestamps == [10, 10, 12, 13]
    assert output.counters["dropped_by_partitioner:out"] == 1


def test_none_is_no_partition_among_several() -> None:
    """Kafka's own choice is a choice of one."""
    choice: Any = [None]
    node = SinkNode(name="out", topic="t", key=STR, value=INT, partitioner=lambda *_: choice)
    with pytest.raises(ProcessingError, match="None among the partitions"):
        rows_of(node, [("a", 1)], topic_partitions={"t": 3})
