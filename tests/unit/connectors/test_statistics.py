"""What librdkafka tells of itself becomes a few numbers."""

from __future__ import annotations

import json

from mustela.connectors.kafka.client import ClientErrors
from mustela.connectors.kafka.statistics import statistics_of

TOLD = {
    "name": "mustela#consumer-1",
    "type": "consumer",
    "rx_bytes": 10,
    "rxmsgs": 3,
    "msg_cnt": 2,
    "brokers": {
        "a:1/1": {"connects": 1, "disconnects": 0, "rtt": {"avg": 1_500, "p99": 4_000}},
        "b:1/2": {"connects": 2, "disconnects": 1, "rtt": {"avg": 2_500, "p99": 3_000}},
        "GroupCoordinator": {"connects": 0, "rtt": {"avg": 0, "p99": 0}},
    },
    "topics": {"lines": {}},
}


def test_numbers_of_brokers_are_added_and_the_slowest_one_counts() -> None:
    """Times are seconds."""
    name, found = statistics_of(json.dumps(TOLD))
    assert name == "consumer mustela#consumer-1"
    assert found["bytes_received"] == 10
    assert found["messages_received"] == 3
    assert (found["connects"], found["disconnects"]) == (3, 1)
    assert found["round_trip_avg_s"] == 0.0025
    assert found["round_trip_p99_s"] == 0.004


def test_what_a_client_told_is_taken_once() -> None:
    """A task that read nothing new says nothing."""
    errors = ClientErrors()
    assert errors.take_statistics() == {}
    errors.keep_statistics(json.dumps(TOLD))
    assert errors.take_statistics().keys() == {"consumer mustela#consumer-1"}
    assert errors.take_statistics() == {}
