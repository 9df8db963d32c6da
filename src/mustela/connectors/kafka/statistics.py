"""What librdkafka tells of itself, as a few numbers for each client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

__all__ = ["statistics_of"]

_TOTALS: Final = {
    "tx": "requests_sent",
    "tx_bytes": "bytes_sent",
    "rx": "responses_received",
    "rx_bytes": "bytes_received",
    "txmsgs": "messages_sent",
    "rxmsgs": "messages_received",
}
_NOW: Final = {"msg_cnt": "queue_messages", "msg_size": "queue_bytes"}
_OF_BROKERS: Final = {
    "txerrs": "send_errors",
    "rxerrs": "receive_errors",
    "req_timeouts": "request_timeouts",
    "connects": "connects",
    "disconnects": "disconnects",
}


def statistics_of(text: str) -> tuple[str, dict[str, float]]:
    """Return a client's name, and its numbers; times are seconds.

    Args:
        text: The document that ``stats_cb`` is given.

    Example:
        >>> statistics_of('{"name": "a#consumer-1", "type": "consumer", "rxmsgs": 5, "brokers": '
        ...     '{"b": {"nodeid": 1, "connects": 2, "rtt": {"avg": 1500, "p99": 9000}}}}')[0]
        'consumer a#consumer-1'
    """
    told = cast("dict[str, Any]", json.loads(text))
    found = {
        ours: float(told[theirs]) for theirs, ours in {**_TOTALS, **_NOW}.items() if theirs in told
    }
    brokers = cast("Mapping[str, Mapping[str, Any]]", told.get("brokers", {})).values()
    for theirs, ours in _OF_BROKERS.items():
        found[ours] = float(sum(broker.get(theirs, 0) for broker in brokers))
    trips = [broker["rtt"] for broker in brokers if broker.get("rtt", {}).get("avg")]
    if trips:
        found["round_trip_avg_s"] = max(trip["avg"] for trip in trips) / 1e6
        found["round_trip_p99_s"] = max(trip.get("p99", 0) for trip in trips) / 1e6
    return f"{told.get('type', '')} {told.get('name', '')}", found
