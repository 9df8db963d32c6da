"""Records that come again are left out, in every way in which a topology runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mustela import StreamsBuilder
from mustela.topology.graph import TopologyGraph
from tests.conformance.conftest import RunTopology
from tests.conformance.script import Sent

WITHIN = timedelta(milliseconds=10)


def topology() -> TopologyGraph:
    """By key, and by what a function chooses; what goes on is counted by its own key."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.distinct(within=WITHIN, grace=WITHIN, store="seen").to("by-key")
    chosen = stream.distinct(
        within=WITHIN, grace=WITHIN, key=lambda _key, value: value % 2, store="parity"
    )
    chosen.to("by-parity")
    chosen.group_by_key().count(store="counts").to_stream().to("counts")
    return builder.build()


@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
def test_the_first_of_what_comes_again_goes_on(run_topology: RunTopology, event_time: str) -> None:
    """Out of order too, and one that is older than what is remembered."""
    sent = [
        *(Sent("in", "a", 1, 100), Sent("in", "b", 3, 105), Sent("in", "a", 2, 110)),
        *(Sent("in", "a", 4, 111), Sent("in", "c", 5, 95), Sent("in", "a", 6, 122)),
        *(Sent("in", None, 8, 123), Sent("in", "b", 7, 160), Sent("in", "a", 9, 90)),
    ]
    produced = run_topology(
        topology(), sent, epochs=[2, 3], settings={"event_time": event_time, "emit": "every"}
    )
    by_key = [("a", 1), ("b", 3), ("a", 4), ("c", 5), ("a", 6), (None, 8), ("b", 7), ("a", 9)]
    assert sorted(produced["by-key"], key=repr) == sorted(by_key, key=repr)
    by_parity = [("a", 1), ("a", 2), ("a", 6), ("b", 7), ("a", 9)]
    assert sorted(produced["by-parity"], key=repr) == sorted(by_parity, key=repr)
    assert dict(produced["counts"]) == {"a": 4, "b": 1}
