"""Windows that are held back until they close wait in their own store, or in a buffer: as well."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import (
    KTable,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.topology.graph import TopologyGraph
from mustela.windows import BufferConfig, EmitStrategy
from tests.epochs import cut, ms

RULE = "close_in_window_store"
CLOSES = Suppressed.until_window_closes(BufferConfig.unbounded())
Sent = tuple[str, int, int, int]
"""Key, value, timestamp, and how many headers."""


TUMBLING = TimeWindows(size=ms(10), grace=ms(3))
HOPPING = TimeWindows(size=ms(10), advance=ms(5), grace=ms(0))
SESSIONS = SessionWindows(inactivity_gap=ms(5), grace=ms(3))


def total(_key: str, value: int, so_far: int) -> int | None:
    """Add a value; one below zero deletes the window."""
    return None if value < 0 else so_far + value


def merged(_key: str, one: int, other: int) -> int:
    return one + other


def suppressed(
    windows: Any,
    wish: Suppressed = CLOSES,
    *,
    count: bool = False,
    retention: timedelta | None = None,
    more: Callable[[KTable[Any, int]], object] | None = None,
) -> TopologyGraph:
    builder = StreamsBuilder()
    windowed: Any = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows)
    kept = Materialized(store="rows", retention=retention)
    merge = [merged] if isinstance(windows, SessionWindows) else []
    table = (
        windowed.count(materialized=kept)
        if count
        else windowed.aggregate(lambda: 0, total, *merge, value=int, materialized=kept)
    )
    if more is not None:
        more(table)
    table.suppress(wish, name="closed").to_stream().to("out", value=int)
    return builder.build()


def steps(topology: TopologyGraph, **options: Any) -> set[str]:
    made = plan(topology, options=PlanOptions(**{"event_time": "watermark", **options}))
    return {step.name for stage in made.stages for step in stage.steps}


@pytest.mark.parametrize("windows", [TUMBLING, HOPPING, SESSIONS])
def test_the_step_that_holds_windows_back_is_not_needed(windows: Any) -> None:
    """Also with every update, where only the last one goes on anyway."""
    topology = suppressed(windows)
    assert "closed" in steps(topology, rules_off=frozenset({RULE}))
    assert "closed" not in steps(topology)
    assert "closed" not in steps(topology, emit="every")


def others(table: KTable[Any, int]) -> object:
    return table.to_stream().to("changes", value=int)


@pytest.mark.parametrize(
    "topology",
    [
        suppressed(TUMBLING, more=others),
        suppressed(SESSIONS, count=True, retention=ms(9)),
        suppressed(TUMBLING, Suppressed.until_time_limit(ms(13), BufferConfig.unbounded())),
        suppressed(
            TUMBLING,
            Suppressed.until_window_closes(BufferConfig.max_records(9).shut_down_when_full()),
        ),
    ],
    ids=["another reader", "sessions that are kept", "time limit", "bounded"],
)
def test_a_buffer_stays_where_it_says_more_than_the_window_store(topology: TopologyGraph) -> None:
    """Or holds less than that."""
    assert "closed" in steps(topology)


def test_a_buffer_stays_where_time_is_that_of_each_operator() -> None:
    """There windows close between two records of an epoch."""
    assert "closed" in steps(suppressed(TUMBLING), event_time="stream-time")


def test_a_closing_aggregation_is_told_by_itself() -> None:
    """There is nothing to hold back behind it."""
    builder = StreamsBuilder()
    windowed: Any = builder.stream("in", key=str, value=int).group_by_key().windowed_by(TUMBLING)
    final = windowed.emit_strategy(EmitStrategy.on_window_close()).count(store="rows")
    final.suppress(CLOSES, name="closed").to_stream().to("out", value=int)
    assert "closed" in steps(builder.build())


def results(
    topology: TopologyGraph, sent: list[Sent], sizes: list[int], off: str, **way: Any
) -> Any:
    settings = {"event_time": "watermark", "topology": {"rules_off": off}, **way.pop("set", {})}
    with TopologyTestDriver(topology, settings=settings, **way) as driver:
        topic = driver.create_input_topic("in")
        for epoch in cut(sent, sizes):
            with driver.epoch():
                for key, value, time, headers in epoch:
                    some = tuple((str(n), bytes([time])) for n in range(headers))
                    topic.pipe_input(key, value, timestamp=time, headers=some)
        driver.advance_watermark(1_000)
        rows = driver.create_output_topic("out").read_records_to_list()
        found = [(row.key, row.value, row.timestamp, row.headers) for row in rows]
        assert len({row[0] for row in found}) == len(found)
        late = {n: c for n, c in driver.metrics.items() if n.startswith("dropped_late")}
        return sorted(found, key=repr), late


SPREAD: dict[str, Any] = {"key_groups": 8, "lanes": 3}
WAYS: list[dict[str, Any]] = [
    {},
    SPREAD,
    {**SPREAD, "crash_after_every_record": True},
    {"set": {"emit": "every"}},
]


@pytest.mark.parametrize("count", [True, False], ids=["count", "aggregate"])
@pytest.mark.parametrize(
    "windows", [TUMBLING, HOPPING, SESSIONS], ids=["tumbling", "hopping", "sessions"]
)
@given(
    sent=st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(-1, 5), st.integers(0, 60), st.integers(0, 2)
        ),
        max_size=20,
    ),
    sizes=st.lists(st.integers(1, 8), max_size=6),
    way=st.sampled_from(WAYS),
)
def test_what_goes_on_is_the_same(
    windows: Any, count: bool, sent: list[Sent], sizes: list[int], way: dict[str, Any]
) -> None:
    """Each window once, with value, time and headers; late and deleted ones as well."""
    topology = suppressed(windows, count=count)
    buffered = results(topology, sent, sizes, RULE, **dict(way))
    assert results(topology, sent, sizes, "", **dict(way)) == buffered


@pytest.mark.parametrize("windows", [TUMBLING, SESSIONS], ids=["tumbling", "sessions"])
def test_headers_wait_in_a_store_that_is_logged(windows: Any) -> None:
    """They are there when the disk is lost; without headers nothing is stored but the window."""
    settings = {"event_time": "watermark"}
    topology = suppressed(windows)
    with TopologyTestDriver(topology, settings=settings, **SPREAD) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", 1, timestamp=1, headers=(("n", b"1"),))
        topic.pipe_input("b", 1, timestamp=2)
        driver.crash(lose_state=True)
        topic.pipe_input("b", 1, timestamp=3)
        driver.advance_watermark(100)
        rows = driver.create_output_topic("out").read_records_to_list()
        assert [(row.key.key, row.value, row.headers) for row in rows] == [
            ("a", 1, (("n", b"1"),)),
            ("b", 2, ()),
        ]


def test_headers_of_sessions_that_became_others_are_forgotten() -> None:
    """Those that grew, met, or were deleted: nothing stays when all have closed."""
    with TopologyTestDriver(suppressed(SESSIONS), settings={"event_time": "watermark"}) as driver:
        topic = driver.create_input_topic("in")
        for key, value, time in (("a", 1, 1), ("a", 1, 4), ("a", 1, 12), ("a", 1, 8), ("b", 1, 9)):
            topic.pipe_input(key, value, timestamp=time, headers=(("at", bytes([time])),))
        topic.pipe_input("b", -1, timestamp=9, headers=(("at", b"x"),))
        driver.advance_watermark(1_000)
        rows = driver.create_output_topic("out").read_records_to_list()
        logs = [log for (store, _), log in driver._cluster.changelogs.items() if "closed" in store]
    assert [(row.key.start, row.key.end, row.headers) for row in rows] == [
        (1, 12, (("at", b"\x08"),))
    ]
    assert logs
    assert all(row is None for log in logs for row in dict(log).values())
