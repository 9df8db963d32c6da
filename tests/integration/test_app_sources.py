"""Sources over a real broker: topics found by a pattern, times that a program extracts."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

import pytest

from mustela import AutoOffsetReset, Consumed, Record, StreamsBuilder
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


def test_topics_that_match_a_pattern_are_read_as_they_appear(world: World) -> None:
    """Each record once, over a restart too; their order is kept with the epoch."""
    sink = world.topic("out")
    pattern = re.compile(re.escape(world.name) + r"\.in-.*")

    def build(builder: StreamsBuilder) -> None:
        counted = builder.stream(pattern, key=str, value=str, name="in").group_by_key()
        counted.count(store="counts").to_stream().to(sink, key=str, value=int)

    first = world.topic("in-m", 2)
    world.send(first, [("a", "1"), ("b", "1")])
    app, _ = world.app(build, topics={"refresh": "200ms"})
    with app:
        world.drain(app)
        second = world.topic("in-a")
        world.send(second, [("a", "2")])
        world.until(lambda: len(world.rows(sink)) == 3, "the new topic is read", app)
    record = world.records()[-1]
    assert record.found_topics == [first, second]
    third = world.topic("in-b")
    world.send(third, [("b", "2")])
    world.send(second, [("a", "3")])
    world.run(build)
    assert world.records()[-1].found_topics == [first, second, third]
    counts: dict[Any, list[int]] = {}
    for row in world.rows(sink):
        counts.setdefault(row.key, []).append(int.from_bytes(row.value or b"", "big"))
    assert counts == {b"a": [1, 2, 3], b"b": [1, 2]}


def test_extracted_times_are_those_of_the_results_and_of_the_order(world: World) -> None:
    """A partition whose times depend on one another is read by one task, however long it is."""
    source, sink = world.topic("in"), world.topic("out")

    def extract(record: Record[str, str], partition_time: int) -> int:
        return partition_time + 1 if record.value == "next" else int(record.value)

    def build(builder: StreamsBuilder) -> None:
        consumed = Consumed(key=str, value=str, timestamp_extractor=extract)
        builder.stream(source, consumed=consumed).to(sink, key=str, value=str)

    world.send(source, [("k", "1000"), *(("k", "next") for _ in range(20_000))])
    world.run(build)
    assert [row.timestamp for row in world.rows(sink)] == list(range(1000, 21_001))
    world.send(source, [("k", "next")])
    world.run(build)
    assert world.rows(sink)[-1].timestamp == 21_001


def test_reading_begins_with_records_of_the_last_hour(world: World) -> None:
    """Of each partition; one in which all records are older is read from its end."""
    source, sink = world.topic("in", 2), world.topic("out")
    now = int(time.time() * 1000)
    hours = [now - n * 3_600_000 for n in (3, 2, 0)]
    for value, stamp in zip(["old", "older", "new"], hours, strict=True):
        world.send(source, [("k", value, stamp)], partition=0)
    world.send(source, [("k", "old", hours[0])], partition=1)
    reset = AutoOffsetReset.by_duration(timedelta(hours=1))

    def build(builder: StreamsBuilder) -> None:
        consumed = Consumed(key=str, value=str, auto_offset_reset=reset)
        builder.stream(source, consumed=consumed).to(sink)

    world.run(build)
    assert world.values(sink) == ["new"]


def test_a_function_may_name_the_topic_and_another_the_partition(world: World) -> None:
    """The partitioner is told how many partitions the topic has that was named for the record."""
    source, wide, narrow = world.topic("in"), world.topic("wide", 3), world.topic("narrow")
    prefix = world.name
    world.send(source, [("a", "wide"), ("b", "narrow"), ("c", "wide")])

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=str).to(
            lambda _key, value, _context: f"{prefix}.{value}",
            partitioner=lambda _topic, _key, _value, count: set(range(count)),
        )

    world.run(build)
    assert [(row.partition, row.key) for row in world.rows(wide)] == [
        (partition, key) for partition in range(3) for key in (b"a", b"c")
    ]
    assert [(row.partition, row.key) for row in world.rows(narrow)] == [(0, b"b")]


def test_a_topic_that_a_function_names_wrongly_is_named(world: World) -> None:
    """At once, with the line of the sink; what was to go there is not lost with a handler."""
    source, letters, prefix = world.topic("in"), world.topic("letters"), world.name
    world.send(source, [("a", "nowhere")])

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        stream.to(lambda _key, value, _context: f"{prefix}.{value}")

    error = world.fail(build)
    assert error.code == "TOPIC_MISSING"
    assert "stream.to(" in str(error)
    world.run(build, production_handler="dead_letter", dead_letter_topic=letters)
    (row,) = world.rows(letters)
    assert (row.key, row.value) == (b"a", b"nowhere")
    assert row.headers["mustela.error.class"] == b"UNKNOWN_TOPIC_OR_PART"
