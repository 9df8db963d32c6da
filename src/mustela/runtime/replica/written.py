"""What an epoch has written, as Kafka still holds it: rows of topics, and changes of stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.log import read_between, read_chunks
from mustela.model import Headers, TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.runtime.record.history_row import HistoryRow

__all__ = ["Written", "WrittenRow", "changes_between", "rows_of_epoch"]

_STEP = 1_000
_COMPACT = "compact"


class WrittenRow(NamedTuple):
    """A row of an output topic.

    Attributes:
        topic: The topic.
        key: Its key.
        value: Its value.
        timestamp: Milliseconds.
        headers: Its headers, without that of the epoch.
        partition: The partition.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    partition: int


@dataclass(slots=True, kw_only=True)
class Written:
    """What an epoch has written.

    Attributes:
        rows: Rows of topics.
        changes: By store and key, the last value that it gave the key; None if it deleted it.
        unknown: Of what that is not known, as ``topic NAME`` or ``store NAME``, and why.
    """

    rows: list[WrittenRow] = field(default_factory=list[WrittenRow])
    changes: dict[tuple[str, bytes], bytes | None] = field(
        default_factory=dict[tuple[str, bytes], "bytes | None"]
    )
    unknown: dict[str, str] = field(default_factory=dict[str, str])


class _Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


def rows_of_epoch(
    admin: KafkaAdmin,
    consumer: Mapping[str, Any],
    topics: Iterable[str],
    row: HistoryRow,
    header: str,
) -> Written:
    """Return the rows of an epoch in topics; they are looked for from the ends of the topics on.

    Args:
        admin: Says where topics end.
        consumer: Client properties.
        topics: The topics.
        row: The epoch.
        header: The name of the header with the number of the epoch.
    """
    found = Written()
    known = admin.describe(topics)
    policies = {
        topic: str(config.get("cleanup.policy", ""))
        for topic, config in admin.configs(known).items()
    }
    for topic, described in known.items():
        why = "it is compacted" if _COMPACT in policies.get(topic, "") else ""
        if why or not header:
            found.unknown[f"topic {topic}"] = why or "its rows have no header with the epoch"
            continue
        places = [TopicPartition(topic, number) for number in range(described.partitions)]
        firsts, ends = admin.earliest_offsets(places), admin.end_offsets(places)
        rows: list[WrittenRow] = []
        for place in places:
            own, is_whole = _back(
                consumer, place, (firsts[place], ends[place]), (header, row.epoch)
            )
            rows += own
            if not is_whole:
                found.unknown[f"topic {topic}"] = "it no longer holds rows of that age"
        if f"topic {topic}" not in found.unknown:
            found.rows += rows
    return found


def _back(
    consumer: Mapping[str, Any],
    place: TopicPartition,
    bounds: tuple[int, int],
    mark: tuple[str, int],
) -> tuple[list[WrittenRow], bool]:
    """Return the rows of an epoch in a partition, and whether it certainly holds all of them."""
    first, stop = bounds
    header, epoch = mark
    step, found = _STEP, list[WrittenRow]()
    while stop > first:
        start = max(first, stop - step)
        older, own = False, list[WrittenRow]()
        for one in _rows(consumer, place, start, stop):
            number = _number(one.headers, header)
            older = older or (number is not None and number < epoch)
            if number == epoch:
                headers = tuple(pair for pair in one.headers if pair[0] != header)
                own.append(
                    WrittenRow(
                        place.topic, one.key, one.value, one.timestamp, headers, place.partition
                    )
                )
        found = own + found
        if older:
            return found, True
        stop, step = start, step * 4
    return found, first == 0


def _rows(
    consumer: Mapping[str, Any], place: TopicPartition, start: int, stop: int
) -> Iterator[_Row]:
    for chunk in read_chunks(consumer, place.topic, place.partition, start, stop):
        headers = chunk.headers or [()] * len(chunk)
        columns = zip(chunk.keys, chunk.values, chunk.timestamps, headers, strict=True)
        yield from (_Row(*one) for one in columns)


def _number(headers: Headers, name: str) -> int | None:
    """Return the number of the epoch in a header; the last one counts.

    Example:
        >>> _number((("mustela.epoch", b"11"), ("mustela.epoch", b"12")), "mustela.epoch")
        12
        >>> _number((("mustela.epoch", b"soon"),), "mustela.epoch") is None
        True
    """
    value = next((value for key, value in reversed(headers) if key == name), None)
    return int(value) if value is not None and value.isdigit() else None


def changes_between(
    consumer: Mapping[str, Any],
    application_id: str,
    logs: Mapping[str, str],
    row: HistoryRow,
    after: Mapping[str, Sequence[int]],
) -> dict[tuple[str, bytes], bytes | None]:
    """Return what an epoch has written to changelogs.

    Args:
        consumer: Client properties.
        application_id: The application.
        logs: The name of its changelog for each store.
        row: The epoch; it has the ends of changelogs before it.
        after: The ends after it.
    """
    found: dict[tuple[str, bytes], bytes | None] = {}
    for store, log in logs.items():
        topic = changelog_topic(application_id, log)
        ends = after.get(log, ())
        starts = row.changelog_ends.get(log, [0] * len(ends))
        for group, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if start < end:
                for key, value in read_between(consumer, topic, group, start, end):
                    found[store, key] = value
    return found
