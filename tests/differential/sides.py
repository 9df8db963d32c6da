"""What an example writes, on either side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mustela import Record, TopologyTestDriver
from mustela.kernel.windows.suppress import BufferFullError
from mustela.testing.topics import TestOutputTopic
from tests.differential.contents import Contents, answered, contents
from tests.differential.draw import Example, Input, NamedHeaders
from tests.differential.kafka_streams import KafkaStreams
from tests.differential.steps import build

__all__ = [
    "SETTINGS",
    "Row",
    "Written",
    "as_record",
    "as_row",
    "both_of_mustela",
    "of_kafka_streams",
    "of_mustela",
    "on_disk",
    "sinks_of",
]

SETTINGS = {"event_time": "stream-time", "emit": "every"}
"""Kafka Streams' time, and each update of a table."""


class Row(NamedTuple):
    """A record that was written."""

    key: Any
    value: Any
    time: int
    headers: NamedHeaders


Written = list[list[list[Row]]]
"""Rows by input and sink; fewer inputs than there were where a full buffer stopped it."""


def of_kafka_streams(example: Example, kafka_streams: KafkaStreams) -> tuple[Written, Contents]:
    """Return what Kafka Streams writes and keeps."""
    answer = kafka_streams.ask(
        steps=list(example.steps),
        inputs=list(example.inputs),
        on_disk=on_disk(example),
        asked=example.asked._asdict(),
        counted=any(step.get("max_bytes") is not None for step in example.steps),
    )
    sinks = sum(step["op"] == "to" for step in example.steps)
    written: Written = []
    for output in answer["outputs"]:
        rows: list[list[Row]] = [[] for _ in range(sinks)]
        for sink, key, value, time, headers in output:
            rows[sink].append(Row(key, value, time, tuple(map(tuple, headers))))
        written.append(rows)
    stores = answer.get("stores", {}).items()
    return written, {name: answered(store.items()) for name, store in stores}


def on_disk(example: Example) -> bool:
    """Tell whether Kafka Streams keeps the stores of an example on disk.

    It emits no closed session that is kept in memory, and in memory a null value moves the time of
    a join's store; its own default is the disk.
    """
    return any(
        name in {"session_final", "self_join"} or name.startswith("stream_join")
        for name in example.operators
    )


def of_mustela(example: Example, **options: Any) -> Written:
    """Return what Mustela writes, with Kafka Streams' time and each update of a table."""
    return both_of_mustela(example, (), **options)[0]


def both_of_mustela(
    example: Example, stores: Iterable[str], **options: Any
) -> tuple[Written, Contents]:
    """Return what Mustela writes and what it keeps in some stores."""
    topology = build(example.steps)
    written: Written = []
    with TopologyTestDriver(topology, settings=SETTINGS, initial_wall_clock=0, **options) as driver:
        sinks = sinks_of(example, driver)
        for given in example.inputs:
            try:
                driver.create_input_topic(given.topic).pipe_input(as_record(given))
            except BufferFullError:
                return written, {}
            written.append([[as_row(found) for found in s.read_records_to_list()] for s in sinks])
        return written, contents(driver, stores, example.asked)


def sinks_of(example: Example, driver: TopologyTestDriver) -> list[TestOutputTopic[Any, Any]]:
    """Return the topics that an example writes."""
    topics = [step["topic"] for step in example.steps if step["op"] == "to"]
    return [driver.create_output_topic(topic) for topic in topics]


def as_record(given: Input) -> Record[Any, Any]:
    """Return a drawn record as Mustela is given it."""
    headers = tuple(
        (name, None if value is None else value.encode()) for name, value in given.headers
    )
    return Record(given.key, given.value, given.timestamp, headers)


def as_row(record: Record[Any, Any]) -> Row:
    """Return a record that Mustela wrote."""
    headers = tuple(
        (name, None if value is None else value.decode()) for name, value in record.headers
    )
    return Row(record.key, record.value, record.timestamp, headers)
