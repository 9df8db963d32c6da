"""Sliding windows: what many records of an epoch do at once is what they do one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import KTable, SlidingWindows, StreamsBuilder, TopologyTestDriver
from mustela.errors import DataError
from mustela.topology.graph import TopologyGraph
from tests.epochs import cut, ms

Sent = tuple[str, int, int]
"""Key, value, timestamp."""


def listed(_key: str, value: int, so_far: list[int]) -> list[int] | None:
    """Keep the order of the records; a value below zero deletes the window."""
    if value == 99:
        raise ValueError(value)
    return None if value < 0 else [*so_far, value]


def begun(_key: str, value: int, so_far: list[int]) -> list[int] | None:
    """A value below zero deletes a window that holds something, and begins one that holds none."""
    return None if value < 0 and so_far else [*so_far, value]


def topology(difference: int, grace: int) -> TopologyGraph:
    builder = StreamsBuilder()
    windows = SlidingWindows(time_difference=ms(difference), grace=ms(grace))
    windowed = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows)
    made: dict[str, KTable[Any, Any]] = {
        "lists": windowed.aggregate(list[int], listed, value=list, store="lists"),
        "begun": windowed.aggregate(list[int], begun, value=list, store="begun"),
        "counts": windowed.count(store="counts"),
        "last": windowed.reduce(lambda _before, now: now, store="last"),
    }
    for name, table in made.items():
        table.to_stream().to(name, value=list if name in {"lists", "begun"} else int)
    return builder.build()


def results(
    built: TopologyGraph, sent: list[Sent], sizes: list[int], settings: dict[str, Any]
) -> Any:
    with TopologyTestDriver(built, settings=settings, key_groups=4, lanes=2) as driver:
        topic = driver.create_input_topic("in")
        for epoch in cut(sent, sizes):
            with driver.epoch():
                for key, value, time in epoch:
                    topic.pipe_input(key, value, timestamp=time)
        told = {
            name: [
                (row.key, row.value, row.timestamp)
                for row in driver.create_output_topic(name).read_records_to_list()
            ]
            for name in ("lists", "begun", "counts", "last")
        }
        kept = {name: list(driver.get_window_store(name).all()) for name in told}
        late = {n: c for n, c in driver.metrics.items() if n.startswith("dropped_late")}
        return told, kept, late


@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
@given(
    sent=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(-1, 4), st.integers(0, 90)), max_size=30
    ),
    ascending=st.booleans(),
    sizes=st.lists(st.integers(1, 12), max_size=5),
    difference=st.integers(0, 12),
    grace=st.integers(0, 20),
)
def test_a_sweep_does_what_one_record_after_the_other_does(
    event_time: str,
    sent: list[Sent],
    ascending: bool,
    sizes: list[int],
    difference: int,
    grace: int,
) -> None:
    """With handlers that go on, each record is added alone; the changes and their order are."""
    if ascending:
        sent.sort(key=lambda row: row[2])
    built = topology(difference, grace)
    alone = {"event_time": event_time, "processing_handler": "continue"}
    swept = {"event_time": event_time, "processing_handler": "fail"}
    assert results(built, sent, sizes, swept) == results(built, sent, sizes, alone)


def test_the_record_on_which_a_function_fails_is_named() -> None:
    """Wherever it stands among those of its key."""
    sent = [("a", 1, 100), ("b", 1, 101), ("a", 99, 102), ("a", 2, 103)]
    with pytest.raises(DataError, match="99") as caught:
        results(topology(10, 0), sent, [], {"event_time": "watermark"})
    assert caught.value.evidence["offset"] == "2"
