"""mustela bench with the first records of a topic, on a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mustela.cli.main import main
from mustela_dev import DevelopmentBroker
from tests.integration.kafka_rows import MakeTopic, plain_producer

pytestmark = pytest.mark.broker
pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]

PROGRAM = """
from mustela import App
app = App("benched-head")
@app.topology
def build(builder):
    numbers = builder.stream({topic!r}, key=str, value=int)
    numbers.map_values(lambda n: n + 1, value=int, name="more").to("more")
"""


def test_the_first_records_of_a_topic_are_measured(
    properties: dict[str, Any],
    broker: DevelopmentBroker,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As their bytes are there, of all partitions, up to --count."""
    topic = make_topic(3, retention_ms="-1")
    producer = plain_producer(properties)
    for number in range(30):
        producer.produce(topic, number.to_bytes(8, "big"), b"k", partition=number % 2)
    assert producer.flush(30) == 0
    (tmp_path / "benched_head.py").write_text(PROGRAM.format(topic=topic))
    monkeypatch.chdir(tmp_path)
    typed = ["bench", "benched_head:app", "--head", topic, "-b", broker.bootstrap_servers, "--json"]
    for count, expected in ((100, 30), (20, 20)):
        assert main([*typed, "-n", str(count)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["records"], found["bytes_in"]) == (expected, expected * 9)
        assert found["steps"][0]["in"] == expected
