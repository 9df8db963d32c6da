"""What an example writes, on either side."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from mustela import TopologyTestDriver, ValueAndTimestamp
from tests.differential.draw import Example
from tests.differential.functions import text
from tests.differential.kafka_streams import KafkaStreams
from tests.differential.steps import build

__all__ = ["Kept", "Row", "Written", "both_of_mustela", "of_kafka_streams", "of_mustela"]

Row = tuple[Any, Any, int]
"""Key, value and time."""
Written = list[list[list[Row]]]
"""Rows by input and sink."""


Kept = dict[str, list[Row]]
"""What the named stores of keys and values hold at the end, by key; time -1 where none is kept."""


def of_kafka_streams(example: Example, kafka_streams: KafkaStreams) -> tuple[Written, Kept]:
    """Return what Kafka Streams writes and keeps."""
    # Kafka Streams emits no closed session that is kept in memory, and in memory a null value moves
    # the time of a join's store; its own default is the disk.
    on_disk = any(
        name in {"session_final", "self_join"} or name.startswith("stream_join")
        for name in example.operators
    )
    answer = kafka_streams.ask(
        steps=list(example.steps), inputs=list(example.inputs), on_disk=on_disk
    )
    sinks = sum(step["op"] == "to" for step in example.steps)
    written: Written = []
    for output in answer["outputs"]:
        rows: list[list[Row]] = [[] for _ in range(sinks)]
        for sink, key, value, time in output:
            rows[sink].append((key, value, time))
        written.append(rows)
    stores = answer["stores"].items()
    return written, {name: sorted(map(_row, rows)) for name, rows in stores}


def _row(row: list[Any]) -> Row:
    key, value, time = row
    return key, value, time


def of_mustela(example: Example, **options: Any) -> Written:
    """Return what Mustela writes, with Kafka Streams' time and each update of a table."""
    return both_of_mustela(example, (), **options)[0]


def both_of_mustela(
    example: Example, stores: Collection[str], **options: Any
) -> tuple[Written, Kept]:
    """Return what Mustela writes and what it keeps in some stores."""
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
        return written, {name: sorted(_kept(driver, name)) for name in stores}


def _kept(driver: TopologyTestDriver, name: str) -> Iterator[Row]:
    store: Any = driver.get_state_store(name)
    for key, value in store.all():
        timed = isinstance(value, ValueAndTimestamp)
        yield text(key), str(value.value if timed else value), value.timestamp if timed else -1
