"""Cases as data: what Kafka Streams does, and how to compare with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.script import Produced, Sent, Written

__all__ = ["Case", "compare", "load_cases"]

_FILE = Path(__file__).parent / "cases" / "kafka_streams.json"
_Key = tuple[Any, Any, int | None]


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: Its name, which picks the topology.
        inputs: What is sent.
        expected: What Kafka Streams writes, by topic.
        ordering: How to compare.
        checkpoints: Inputs after which the output so far must be exactly what is expected so far.
    """

    name: str
    inputs: tuple[Sent, ...]
    expected: tuple[Written, ...]
    ordering: str
    checkpoints: tuple[int, ...]


def load_cases() -> list[Case]:
    """Read all cases."""
    return [_case(data) for data in json.loads(_FILE.read_text(encoding="utf-8"))]


def _case(data: Mapping[str, Any]) -> Case:
    return Case(
        name=data["name"],
        inputs=tuple(
            Sent(i["topic"], i["key"], i["value"], i["timestamp_ms"] or 0) for i in data["inputs"]
        ),
        expected=tuple(
            Written(e["topic"], e["key"], e["value"], e["timestamp_ms"], e["after_input"])
            for e in data["expected"]
        ),
        ordering=data["ordering"],
        checkpoints=tuple(data["checkpoints"]),
    )


def compare(case: Case, produced: Produced) -> None:
    """Compare what was written with what Kafka Streams writes.

    Raises:
        AssertionError: If they differ.
    """
    check = _ORDERINGS[case.ordering]
    for topic in sorted({record.topic for record in case.expected}):
        for checkpoint in case.checkpoints:
            wanted = _until(case.expected, topic, checkpoint)
            got = _until(produced.records, topic, checkpoint)
            check(_faded(got, wanted), _plain(wanted))


def _until(records: Sequence[Written], topic: str, checkpoint: int) -> list[Written]:
    return [r for r in records if r.topic == topic and r.after_input <= checkpoint]


def _plain(records: Sequence[Written]) -> list[_Key]:
    return [(r.key, r.value, r.timestamp) for r in records]


def _faded(got: Sequence[Written], wanted: Sequence[Written]) -> list[_Key]:
    """Leave timestamps away where the case asserts none."""
    if all(record.timestamp is None for record in wanted):
        return [(r.key, r.value, None) for r in got]
    return _plain(got)


def _exact(got: list[_Key], wanted: list[_Key]) -> None:
    assert got == wanted


def _exact_prefix(got: list[_Key], wanted: list[_Key]) -> None:
    assert got[: len(wanted)] == wanted


def _last_per_key(got: list[_Key], wanted: list[_Key]) -> None:
    assert {row[0]: row for row in got} == {row[0]: row for row in wanted}


def _key_values(got: list[_Key], wanted: list[_Key]) -> None:
    assert sorted(row[:2] for row in got) == sorted(row[:2] for row in wanted)


_ORDERINGS: dict[str, Callable[[list[_Key], list[_Key]], None]] = {
    "exact": _exact,
    "exact_prefix": _exact_prefix,
    "last_per_key": _last_per_key,
    "kv_list": _key_values,
}
