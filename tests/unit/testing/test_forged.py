"""Records that somebody forged: what is in them is data, wherever it stands."""

from __future__ import annotations

import os
import pickle
import tomllib
from pathlib import Path
from typing import Any

import pytest

import mustela_dev.broker
from mustela import StreamsBuilder, TopologyTestDriver
from mustela.plan.dead_letter import FACT, REPLAYS, Letter

SETS = Path(mustela_dev.broker.__file__).parent / "sets"
MENDED = {3: (3, 9, 2), 4: (4, 1, 2)}
"""The first kafka-clients of a major version in which no row lands in another topic
(CVE-2026-35554)."""


class Boom:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> Any:
        return os._exit, (3,)


BOOM = pickle.dumps(Boom())


def test_no_header_is_run_or_believed() -> None:
    """A record goes its way whatever its headers say, and a bad one becomes one letter."""
    builder = StreamsBuilder()
    counts = builder.stream("orders", key=str, value=dict).group_by_key().count(store="orders")
    counts.to_stream().to("counts")
    names = (REPLAYS, "mustela.epoch", "traceparent", "tracestate", "any")
    values = (BOOM, b"9" * 400, b"-1", b"00-zz", b"\xff", None)
    forged = tuple((name, value) for name in names for value in values)
    with TopologyTestDriver(builder, {"deserialization_handler": "dead_letter"}) as driver:
        orders = driver.create_input_topic("orders", key=bytes, value=bytes)
        for header in forged:
            orders.pipe_input(b"ann", BOOM, headers=(header,))
            orders.pipe_input(b"ann", b"{}", headers=(header,))
        counted = driver.create_output_topic("counts").read_values_to_list()
        assert counted == list(range(1, len(forged) + 1))
        assert driver.metrics["dead_letters:orders"] == len(forged)


@pytest.mark.parametrize("value", [b"9" * 5_000, b"-1", b"\xb2", BOOM, None])
def test_a_letter_is_listed_whatever_its_headers_say(value: bytes | None) -> None:
    """How often it was replayed, and where it came from: nothing, if that is no number."""
    headers = ((REPLAYS, value), ("mustela.error.topic", b"orders"), (f"{FACT}partition", value))
    letter = Letter(partition=0, offset=1, timestamp=0, key=None, value=None, headers=headers)
    assert letter.replays == 0
    assert letter.source[1] is None


def test_every_kafka_client_that_is_named_is_one_without_known_holes() -> None:
    """By its version, in each set of jars that is locked by its sums."""
    found: list[tuple[int, ...]] = []
    for file in sorted(SETS.glob("*.toml")):
        for jar in _names(tomllib.loads(file.read_text(encoding="utf-8"))):
            if jar.startswith("kafka-clients-"):
                text = jar.removeprefix("kafka-clients-").removesuffix(".jar")
                found.append(tuple(int(part) for part in text.split(".")))
    assert found
    assert not [version for version in found if version < MENDED[version[0]]]


def _names(table: Any) -> list[str]:
    if not isinstance(table, dict):
        return []
    return [*table, *(name for part in table.values() for name in _names(part))]
