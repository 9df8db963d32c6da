"""Cases as data: what Kafka Streams does, and how to compare with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.script import Produced, Sent, Written

__all__ = ["ORDERINGS", "Case", "Row", "WindowKey", "compare", "load_cases", "plain_key"]

_FILE = Path(__file__).parent / "cases" / "kafka_streams.json"


class WindowKey(NamedTuple):
    """A windowed key, whatever class the library has for it."""

    key: Any
    start: int
    end: int


class Row(NamedTuple):
    """What is compared of a record; the time is None where the case asserts none."""

    key: Any
    value: Any
    timestamp: int | None


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: Its name, which picks the topology.
        inputs: What is sent.
        expected: What Kafka Streams writes, or what Mustela writes instead.
        ordering: How to compare, by topic; the entry ``""`` holds for all others.
        checkpoints: Inputs after which the output so far must be exactly what is expected so far.
        one_key_group: Whether all keys must share one stream time, as they do in one partition.
        divergence: The id of the difference, where Mustela rightly writes something else.
    """

    name: str
    inputs: tuple[Sent, ...]
    expected: tuple[Written, ...]
    ordering: Mapping[str, str]
    checkpoints: tuple[int, ...]
    one_key_group: bool
    divergence: str | None = None


def load_cases() -> list[Case]:
    """Read all cases."""
    return [_case(data) for data in json.loads(_FILE.read_text(encoding="utf-8"))]


def _case(data: Mapping[str, Any]) -> Case:
    ordering = data["ordering"]
    return Case(
        name=data["name"],
        inputs=tuple(
            Sent(topic, key, value, time or 0) for topic, key, value, time in data["inputs"]
        ),
        expected=tuple(
            Written(topic, _key(key), value, time, after)
            for topic, key, value, time, after in data.get("instead", data["expected"])
        ),
        ordering=ordering if isinstance(ordering, dict) else {"": ordering},
        checkpoints=tuple(data["checkpoints"]),
        one_key_group=data["one_key_group"],
        divergence=data.get("divergence"),
    )


def _key(key: Any) -> Any:
    if isinstance(key, dict):
        return WindowKey(key["key"], key["window_start"], key["window_end"])
    return key


def plain_key(key: Any) -> Any:
    """Return a windowed key as one of plain numbers, any other key as it is."""
    if type(key).__name__ == "Windowed":
        return WindowKey(key.key, key.start, key.end)
    return key


def compare(case: Case, produced: Produced) -> None:
    """Compare what was written with what Kafka Streams writes.

    At each checkpoint everything written so far is compared, topic by topic.

    Raises:
        AssertionError: If they differ.
    """
    topics = {record.topic for record in case.expected} | {r.topic for r in produced.records}
    for topic in sorted(topics):
        how = ORDERINGS[case.ordering.get(topic) or case.ordering[""]]
        before = -1
        for checkpoint in case.checkpoints:
            start = before if how.drains else -1
            wanted = _between(case.expected, topic, start, checkpoint)
            got = _between(produced.records, topic, start, checkpoint)
            timed = any(row.timestamp is not None for row in wanted)
            if not timed and wanted:
                got = [row._replace(timestamp=None) for row in got]
            seen, right = how.view(got), how.view(wanted)
            if how.prefix:
                seen = seen[: len(right)]
            assert seen == right, f"{case.name}: {topic} after input {checkpoint}"
            before = checkpoint


def _between(records: Sequence[Written], topic: str, start: int, end: int) -> list[Row]:
    return [
        Row(plain_key(record.key), record.value, record.timestamp)
        for record in records
        if record.topic == topic and start < record.after_input <= end
    ]


@dataclass(frozen=True)
class Ordering:
    """How rows are compared.

    Attributes:
        view: What of the rows must be equal.
        drains: Whether only what came since the checkpoint before is looked at.
        prefix: Whether more may follow.
    """

    view: Callable[[list[Row]], Any]
    drains: bool = False
    prefix: bool = False


def _by_key_then_window(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.key.key, row.key.start))


def _by_printed_key_then_time(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.key, row.timestamp))


def _set_per_window(rows: list[Row]) -> dict[Any, set[Any]]:
    found: dict[Any, set[Any]] = {}
    for row in rows:
        found.setdefault(row.key, set()).add((row.value, row.timestamp))
    return found


def _last_per_key(rows: list[Row]) -> dict[Any, Row]:
    return {row.key: row for row in rows}


def _pairs(rows: list[Row]) -> list[tuple[Any, Any]]:
    return sorted((row.key, row.value) for row in rows)


def _content(rows: list[Row]) -> dict[Any, Any]:
    return {key: row.value for key, row in _last_per_key(rows).items() if row.value is not None}


ORDERINGS: Mapping[str, Ordering] = {
    "exact": Ordering(list),
    "exact_prefix": Ordering(list, prefix=True),
    "sorted_by_key_then_window_start": Ordering(_by_key_then_window),
    "sorted_by_printed_key_then_timestamp": Ordering(_by_printed_key_then_time),
    "set_per_window": Ordering(_set_per_window),
    "kv_list": Ordering(_pairs),
    "values_list": Ordering(lambda rows: [row.value for row in rows]),
    "kv_map_per_checkpoint": Ordering(lambda rows: {r.key: r.value for r in rows}, drains=True),
    "last_per_key": Ordering(_last_per_key),
    "last_per_key_at_checkpoint": Ordering(_last_per_key, drains=True),
    "store_content": Ordering(_content),
}
"""The ways to compare, by the name that a case gives."""
