"""Sending and watching records by hand: for the command line and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, cast

from confluent_kafka import KafkaError, Message, TopicPartition

from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.client import ClientErrors, consumer_client, servers_of
from mustela.connectors.kafka.errors import ErrorKind, fault, kind_of
from mustela.connectors.kafka.plain import PlainSink
from mustela.model import Headers

__all__ = ["TailOptions", "TailedRecord", "send", "tail"]

POLL_S = 0.1
BATCH = 1_000
_RATHER_WAIT = {"fetch.wait.max.ms": 200, "queued.min.messages": 1_000}


class TailedRecord(NamedTuple):
    """A record as it is in the log."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions:
    """Where to begin and when to stop.

    Attributes:
        from_beginning: Begin with the first record, not behind the last.
        until_end: Stop where the topic ended when the call began.
        limit: Stop after so many records.
        idle: Stop after so many seconds without a record.
        committed: Leave out records of open and aborted transactions.
        timeout: Seconds for each request.
    """

    from_beginning: bool = True
    until_end: bool = False
    limit: int | None = None
    idle: float | None = None
    committed: bool = True
    timeout: float = 30.0


def send(
    properties: Mapping[str, Any],
    topic: str,
    rows: Iterable[tuple[bytes | None, bytes | None]],
    *,
    partition: int | None = None,
    timestamps: list[int] | None = None,
    headers: list[Headers] | None = None,
) -> int:
    """Send keys and values to a topic and wait until the broker has them.

    Returns:
        The number of rows.

    Raises:
        MissingTopicError: If there is no such topic.
        EnvironmentFault: If they could not be sent.
    """
    admin = KafkaAdmin(properties)
    admin.partitions(topic)
    admin.close()
    pairs = list(rows)
    sink = PlainSink(properties)
    try:
        sink.produce_columns(
            topic,
            [key for key, _ in pairs],
            [value for _, value in pairs],
            timestamps,
            headers,
            partition,
        )
        sink.flush()
    finally:
        sink.close()
    return len(pairs)


def tail(
    properties: Mapping[str, Any], topic: str, options: TailOptions | None = None
) -> Iterator[TailedRecord]:
    """Yield the records of all partitions of a topic as they come.

    Args:
        properties: Client properties.
        topic: The topic.
        options: Where to begin and when to stop.

    Raises:
        MissingTopicError: If there is no such topic.
        EnvironmentFault: If it cannot be read.
    """
    chosen = options or TailOptions()
    starts, ends = _bounds(properties, topic, chosen)
    if chosen.until_end:
        starts = {part: offset for part, offset in starts.items() if offset < ends[part]}
    if not starts:
        return
    errors = ClientErrors()
    level = "read_committed" if chosen.committed else "read_uncommitted"
    consumer = consumer_client({**_RATHER_WAIT, **properties}, {"isolation.level": level}, errors)
    doing, servers = f"read topic '{topic}'", servers_of(properties)
    open_parts = set(starts)
    last = perf_counter()
    count = 0
    try:
        consumer.assign([TopicPartition(topic, part, at) for part, at in starts.items()])
        while open_parts:
            messages = consumer.consume(BATCH, POLL_S)
            last = _heard(messages, errors, (doing, servers), last, chosen.timeout)
            for message in messages:
                partition, offset = message.partition() or 0, message.offset() or 0
                if _is_record(message, doing, servers):
                    if chosen.until_end and offset >= ends[partition]:
                        open_parts.discard(partition)
                        continue
                    yield _tailed(message, partition, offset)
                    count += 1
                    if count == chosen.limit:
                        return
                    offset += 1
                if chosen.until_end and offset >= ends[partition]:
                    open_parts.discard(partition)
            if chosen.idle is not None and perf_counter() - last >= chosen.idle:
                return
    finally:
        consumer.close()


def _heard(
    messages: list[Message],
    errors: ClientErrors,
    what: tuple[str, str],
    last: float,
    timeout: float,
) -> float:
    """Return when the last record came; raise where no broker answers for too long."""
    now = perf_counter()
    if any(message.error() is None for message in messages):
        errors.heard()
        return now
    errors.raise_refused(*what)
    down = errors.why(*what, now - last)
    if down is not None and now - last > timeout:
        raise down
    return last


def _is_record(message: Message, doing: str, servers: str) -> bool:
    """Tell a record from an event; an end of partition is one, with the offset it stands at."""
    error = message.error()
    if error is None:
        return True
    at_end = error.code() == KafkaError._PARTITION_EOF  # pyright: ignore[reportPrivateUsage]
    if not at_end and kind_of(error) not in (ErrorKind.RETRYABLE, ErrorKind.BROKER_GONE):
        raise fault(error, doing, servers=servers)
    return False


def _tailed(message: Message, partition: int, offset: int) -> TailedRecord:
    return TailedRecord(
        message.topic() or "",
        partition,
        offset,
        message.key(),
        message.value(),
        message.timestamp()[1],
        cast("Headers", tuple(message.headers() or ())),
    )


def _bounds(
    properties: Mapping[str, Any], topic: str, options: TailOptions
) -> tuple[dict[int, int], dict[int, int]]:
    admin = KafkaAdmin(properties, timeout=options.timeout)
    try:
        places = [(topic, part) for part in range(admin.partitions(topic, refresh=True))]
        ends = {place.partition: at for place, at in admin.end_offsets(places).items()}
        if not options.from_beginning:
            return dict(ends), ends
        first = admin.earliest_offsets(places)
        return {place.partition: at for place, at in first.items()}, ends
    finally:
        admin.close()
