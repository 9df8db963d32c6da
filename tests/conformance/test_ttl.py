"""Rows that are kept for a time, in every way in which a topology runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import Materialized, Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.topology.graph import TopologyGraph
from tests.conformance.conftest import RunTopology
from tests.conformance.script import Sent

TTL = timedelta(milliseconds=10)
SEEN = Stores.persistent_key_value_store("seen")


class Tell(ContextualProcessor[str, int, str, int]):
    """Tells the value before, and keeps this one."""

    def process(self, record: Record[str, int]) -> None:
        store: Any = self.context.state_store("seen")
        self.context.forward(record.with_value(store.get(record.key, 0)))
        store.put(record.key, record.value)


def topology() -> TopologyGraph:
    """A count whose rows expire, a sum that they are taken out of, a join, and a processor."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    counts = stream.group_by_key().count(materialized=Materialized(store="counts", ttl=TTL))
    counts.to_stream().to("counts")
    grouped = counts.group_by(lambda _key, count: ("all", count), key=str, value=int)
    sums = grouped.reduce(int.__add__, int.__sub__, store="sums")
    sums.to_stream().to("sums")
    builder.stream("asked", key=str, value=int).left_join(
        counts, lambda asked, count: (asked, count), name="join"
    ).to("joined", value=tuple[int, int | None])
    store = Stores.key_value_store_builder(SEEN, key=str, value=int).with_ttl(TTL)
    stream.process(Tell, stores=[store], name="tell").to("told", key=str, value=int)
    return builder.build()


@pytest.mark.parametrize("epochs", [None, [3, 3]])
def test_rows_that_are_over_are_gone_for_all_that_read_them(
    run_topology: RunTopology, epochs: Any
) -> None:
    """However epochs are cut: for the step itself, a sum, a join and a processor."""
    sent = [
        *(Sent("in", "a", 1, 100), Sent("asked", "a", 1, 105), Sent("in", "a", 2, 105)),
        *(Sent("in", "b", 3, 106), Sent("asked", "b", 2, 115), Sent("in", "a", 4, 115)),
        *(Sent("in", "c", 5, 117), Sent("asked", "b", 3, 117), Sent("in", "a", 6, 118)),
        *(Sent("asked", "x", 4, 130), Sent("in", "d", 7, 130)),
    ]
    produced = run_topology(
        topology(), sent, epochs=epochs, settings={"event_time": "watermark", "emit": "every"}
    )
    by_key: dict[str, list[int | None]] = {}
    for key, value in produced["counts"]:
        by_key.setdefault(key, []).append(value)
    assert by_key == {"a": [1, 2, None, 1, 2, None], "b": [1, None], "c": [1, None], "d": [1]}
    assert dict(produced["sums"]) == {"all": 1}
    assert dict(produced["told"]) == {"a": 4, "b": 0, "c": 0, "d": 0}
    assert [value for key, value in produced["told"] if key == "a"] == [0, 1, 0, 4]
    assert sorted(produced["joined"], key=repr) == [
        ("a", (1, 1)),
        ("b", (2, 1)),
        ("b", (3, None)),
        ("x", (4, None)),
    ]
