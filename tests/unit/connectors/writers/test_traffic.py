"""What the library's own writer tells of its connections."""

from __future__ import annotations

from mustela.connectors.kafka.writers.traffic import Traffic


def test_counts_are_told_as_librdkafka_tells_its_own() -> None:
    """By the same names, with a mean round trip once there was an answer."""
    traffic = Traffic(requests_sent=3, bytes_sent=300, connects=1)
    assert "round_trip_avg_s" not in traffic.told()
    traffic.responses_received, traffic.waited_s = 2, 0.5
    told = traffic.told()
    assert told["round_trip_avg_s"] == 0.25
    assert (told["requests_sent"], told["bytes_sent"], told["connects"]) == (3, 300, 1)
    assert "waited_s" not in told
