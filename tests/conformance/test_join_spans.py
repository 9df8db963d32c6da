"""Joins in which each left record has its own window, in every way in which a topology runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import JoinWindows, Record, StreamsBuilder
from mustela.topology.graph import TopologyGraph
from tests.conformance.conftest import RunTopology
from tests.conformance.script import Sent


def open_for(record: Record[str, int]) -> timedelta:
    return timedelta(milliseconds=record.value)


def pair(left: int | None, right: int | None) -> list[int | None]:
    return [left, right]


def topology() -> TopologyGraph:
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=int)
    right = builder.stream("right", key=str, value=int)
    windows = JoinWindows(
        before=timedelta(0),
        after=open_for,
        after_max=timedelta(milliseconds=20),
        grace=timedelta(milliseconds=5),
    )
    left.join(right, pair, windows=windows, name="inner").to("inner", value=list[Any])
    left.left_join(right, pair, windows=windows, name="outer").to("outer", value=list[Any])
    return builder.build()


@pytest.mark.parametrize("epochs", [None, [4, 3]])
def test_each_left_record_meets_who_comes_in_its_own_window(
    run_topology: RunTopology, epochs: Any
) -> None:
    """Of one key and time, too; who met nobody waits for the widest window and the grace."""
    sent = [
        *(Sent("left", "a", 3, 100), Sent("left", "a", 20, 100), Sent("left", "b", 9, 101)),
        *(Sent("right", "a", -1, 103), Sent("right", "a", -2, 110), Sent("right", "b", -3, 111)),
        *(Sent("left", "z", 0, 200), Sent("right", "z", -9, 201), Sent("left", "z", 0, 202)),
    ]
    settings = {"event_time": "watermark"}
    produced = run_topology(topology(), sent, epochs=epochs, settings=settings)
    pairs = [("a", [3, -1]), ("a", [20, -1]), ("a", [20, -2])]
    assert sorted(produced["inner"], key=repr) == sorted(pairs, key=repr)
    alone = [("b", [9, None])]
    assert sorted(produced["outer"], key=repr) == sorted([*pairs, *alone], key=repr)
