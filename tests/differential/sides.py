"""What an example writes, on either side."""

from __future__ import annotations

from typing import Any

from mustela import TopologyTestDriver
from tests.differential.draw import Example
from tests.differential.kafka_streams import KafkaStreams
from tests.differential.steps import build

__all__ = ["Row", "Written", "of_kafka_streams", "of_mustela"]

Row = tuple[Any, Any, int]
"""Key, value and time."""
Written = list[list[list[Row]]]
"""Rows by input and sink."""


def of_kafka_streams(example: Example, kafka_streams: KafkaStreams) -> Written:
    """Return what Kafka Streams writes."""
    # Kafka Streams emits no closed session that is kept in memory, and in memory a null value moves
    # the time of a join's store; its own default is the disk.
    on_disk = any(
        name in {"session_final", "self_join"} or name.startswith("stream_join")
        for name in example.operators
    )
    answers = kafka_streams.ask(
        steps=list(example.steps), inputs=list(example.inputs), on_disk=on_disk
    )
    sinks = sum(step["op"] == "to" for step in example.steps)
    written: Written = []
    for answer in answers:
        rows: list[list[Row]] = [[] for _ in range(sinks)]
        for sink, key, value, time in answer:
            rows[sink].append((key, value, time))
        written.append(rows)
    return written


def of_mustela(example: Example, **options: Any) -> Written:
    """Return what Mustela writes, with Kafka Streams' time and each update of a table."""
    settings = {"event_time": "stream-time", "emit": "every"}
    topology = build(example.steps)
    written: Written = []
    with TopologyTestDriver(topology, settings=settings, initial_wall_clock=0, **options) as driver:
        sinks = [
            driver.create_output_topic(step["topic"])
            for step in example.steps
            if step["op"] == "to"
        ]
        for record in example.inputs:
            topic = driver.create_input_topic(record.topic)
            topic.pipe_input(record.key, record.value, timestamp=record.timestamp)
            written.append(
                [[(r.key, r.value, r.timestamp) for r in s.read_records_to_list()] for s in sinks]
            )
    return written
