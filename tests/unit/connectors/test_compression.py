"""How producers compress."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.connectors.kafka import client
from mustela.connectors.kafka.client import producer_client
from mustela.connectors.kafka.compression import codec_of


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "lz4"),
        ({"compression.type": "none"}, "none"),
        ({"compression.type": "zstd"}, "zstd"),
        ({"compression.codec": "gzip"}, "gzip"),
    ],
)
def test_by_lz4_unless_told(
    given: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By either of librdkafka's names for it; its own producers are told the same, once."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(client, "Producer", lambda settings, **_: made.append(settings))
    producer_client(given, {})
    told = [value for name, value in made[0].items() if name.startswith("compression.")]
    assert told == [codec_of(given)] == [expected]
