"""Joins of every kind tell what Kafka Streams tells, record by record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.join_scripts import NAMES, script_of, shown, topology_of
from tests.conformance.script import Written
from tests.conformance.ways import driver_way

# As Kafka Streams 4.1.2 writes it with its cache off.
TOLD: dict[str, str] = json.loads(
    (Path(__file__).parent / "cases" / "join_scripts.json").read_text(encoding="utf-8")
)
WAYS: dict[str, dict[str, Any]] = {
    "straight on": {},
    "crashes": {"crash_after_every_record": True, "lanes": 3},
}


def rows(written: list[Written]) -> list[tuple[int, Any, Any, int]]:
    return [(row.after_input, row.key, row.value, row.timestamp) for row in written]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_a_join_tells_what_kafka_streams_tells(name: str, way: str) -> None:
    """Each update with its time, one record an epoch."""
    run = driver_way(settings={"event_time": "stream-time", "emit": "every"}, **WAYS[way])
    written = run(topology_of(name), [[record] for record in script_of(name)])
    assert shown(rows(written.of("out"))) == TOLD[name]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("lookup", "streams"))])
def test_a_join_of_streams_in_one_epoch_tells_the_same(name: str) -> None:
    """Records meet in the order of time, those of one moment by topic, as if one by one."""
    sent = sorted(script_of(name), key=lambda record: (record.timestamp, record.topic))
    run = driver_way(settings={"event_time": "stream-time", "emit": "every"})
    one_by_one, at_once = (
        sorted(row[1:] for row in shown_rows(run(topology_of(name), epochs).of("out")))
        for epochs in ([[record] for record in sent], [sent])
    )
    assert at_once == one_by_one


def shown_rows(written: list[Written]) -> list[tuple[str, ...]]:
    return [tuple(map(str, row)) for row in rows(written)]


def test_each_join_has_its_line() -> None:
    """None is left over."""
    assert list(TOLD) == NAMES
