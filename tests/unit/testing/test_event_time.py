"""Event time in the test driver: strategies of sources, and what becomes of late records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mustela import (
    Consumed,
    KTable,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
)
from mustela.api.errors import BadOptionError, SourceConflictError
from mustela.testing.faults import TestDriverError
from mustela.topology.graph import TopologyGraph
from mustela.windows import BufferConfig, LatePolicy, WatermarkStrategy
from tests.epochs import ms

BY_WATERMARK = {"event_time": "watermark"}


def text(key: Windowed[str], _value: Any) -> str:
    return f"{key.key}@{key.start}"


def counts(first: Consumed[str, int], second: Consumed[str, int] | None = None) -> TopologyGraph:
    """Count two topics by windows of 10 ms; each count is told when its window is over."""
    builder = StreamsBuilder()
    one = builder.stream("one", key=str, value=int, consumed=first)
    two = builder.stream("two", key=str, value=int, consumed=second)
    windows = TimeWindows(size=ms(10), grace=ms(0))
    grouped = one.merge(two, name="both").group_by_key()
    table: KTable[Any, int] = grouped.windowed_by(windows).count(store="counts")
    last = table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="last")
    last.to_stream(text).to("out", key=str, value=int)
    return builder.build()


def pipe(driver: TopologyTestDriver, topic: str, *rows: tuple[str, int]) -> None:
    for key, timestamp in rows:
        driver.create_input_topic(topic).pipe_input(key, 1, timestamp=timestamp)


def out(driver: TopologyTestDriver) -> list[tuple[Any, Any]]:
    return [(row.key, row.value) for row in read(driver, "out")]


def dropped(driver: TopologyTestDriver) -> int:
    return sum(n for name, n in driver.metrics.items() if name.startswith("dropped_late:"))


def read(driver: TopologyTestDriver, topic: str) -> list[Any]:
    return driver.create_output_topic(topic).read_records_to_list()


def test_each_source_says_how_far_its_records_may_lie_behind() -> None:
    """The watermark is the least of what they say."""
    topology = counts(
        Consumed(watermark=WatermarkStrategy.bounded(ms(20))),
        Consumed(watermark=WatermarkStrategy.monotonic()),
    )
    with TopologyTestDriver(topology, settings=BY_WATERMARK) as driver:
        pipe(driver, "one", ("a", 25))
        assert driver.watermark == 5
        pipe(driver, "one", ("a", 7))
        pipe(driver, "two", ("b", 12))
        assert driver.watermark == 5
        pipe(driver, "one", ("a", 50))
        assert driver.watermark == 12
        assert out(driver) == [("a@0", 1)]


def test_a_source_may_have_no_say() -> None:
    """It neither moves the watermark nor holds it."""
    topology = counts(Consumed(), Consumed(watermark=WatermarkStrategy.none()))
    with TopologyTestDriver(topology, settings=BY_WATERMARK) as driver:
        pipe(driver, "two", ("b", 90))
        assert driver.watermark is None
        pipe(driver, "one", ("a", 30))
        assert driver.watermark == 30


def test_a_source_may_have_a_function_of_its_own() -> None:
    """From the largest timestamp to the time that has been reached, never more than that."""
    steps = WatermarkStrategy.custom(lambda time: time - time % 25)
    with TopologyTestDriver(counts(Consumed(watermark=steps)), settings=BY_WATERMARK) as driver:
        pipe(driver, "one", ("a", 24))
        assert driver.watermark == 0
        pipe(driver, "one", ("a", 3), ("a", 27))
        assert driver.watermark == 25
        assert out(driver) == [("a@0", 1)]
    ahead = Consumed[str, int](watermark=WatermarkStrategy.custom(lambda time: time + 100))
    with TopologyTestDriver(counts(ahead), settings=BY_WATERMARK) as driver:
        pipe(driver, "one", ("a", 24))
        assert driver.watermark == 24


def test_idleness_and_skew_may_be_the_sources_own() -> None:
    """By the driver's clock."""
    strategy = WatermarkStrategy.bounded(
        ms(0), idleness=timedelta(seconds=1), max_future_skew=timedelta(seconds=1)
    )
    topology = counts(Consumed(watermark=strategy), Consumed())
    with TopologyTestDriver(topology, settings=BY_WATERMARK, initial_wall_clock=0) as driver:
        pipe(driver, "one", ("a", 5), ("a", 1_001))
        pipe(driver, "two", ("b", 5_000))
        assert driver.watermark == 5
        assert driver.metrics["future_records:one"] == 1
        driver.advance_wall_clock_time(timedelta(seconds=1))
        assert driver.watermark == 5_000


@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
def test_late_records_may_become_dead_letters(event_time: str) -> None:
    """With where they came from; those of other sources are only counted."""
    topology = counts(Consumed(late=LatePolicy.DEAD_LETTER), Consumed())
    with TopologyTestDriver(
        topology, settings={"event_time": event_time, "dead_letter_topic": "late"}
    ) as driver:
        pipe(driver, "one", ("a", 5), ("b", 30), ("a", 6))
        pipe(driver, "two", ("b", 30), ("a", 7))
        letters = read(driver, "late")
        assert [(letter.key, letter.timestamp) for letter in letters] == [(b"a", 6)]
        headers = dict(letters[0].headers)
        assert headers["mustela.error.code"] == b"LATE_RECORD"
        assert headers["mustela.error.topic"] == b"one"
        assert headers["mustela.error.offset"] == b"2"
        assert dropped(driver) == 2


def test_a_strategy_is_no_part_of_what_state_depends_on() -> None:
    """It may change from one start to the next; but one topic has one."""
    bounded = Consumed[str, int](watermark=WatermarkStrategy.bounded(ms(5)))
    assert counts(bounded).fingerprint == counts(Consumed()).fingerprint
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int, consumed=bounded)
    with pytest.raises(SourceConflictError):
        builder.stream("in", key=str, value=int)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: WatermarkStrategy.bounded(5),  # type: ignore[arg-type]
        lambda: WatermarkStrategy.bounded(timedelta(seconds=-1)),
        lambda: WatermarkStrategy.monotonic(idleness=timedelta(microseconds=1)),
        lambda: WatermarkStrategy.custom("x"),  # type: ignore[arg-type]
        lambda: counts(Consumed(watermark="bounded")),  # type: ignore[arg-type]
        lambda: counts(Consumed(late="drop")),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused_when_the_topology_is_built(wrong: Any) -> None:
    """With the fix."""
    with pytest.raises(BadOptionError) as caught:
        wrong()
    assert caught.value.fix


def test_the_watermark_can_be_moved_only_where_there_is_one() -> None:
    """By stream time there is none; a topic that is not read cannot be idle."""
    with TopologyTestDriver(counts(Consumed())) as driver:
        with pytest.raises(TestDriverError, match="advance_watermark"):
            driver.advance_watermark(5)
        with pytest.raises(TestDriverError, match="mark_idle"):
            driver.mark_idle("one")
    with TopologyTestDriver(counts(Consumed()), settings=BY_WATERMARK) as driver:
        with pytest.raises(TestDriverError, match="'three'"):
            driver.mark_idle("three")
        driver.advance_watermark(datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC))
        assert driver.watermark == 7_000


def test_the_watermark_neither_goes_back_nor_starts_anew_behind_a_crash() -> None:
    """Times and idle flags are committed with the epoch."""
    with TopologyTestDriver(counts(Consumed()), settings=BY_WATERMARK, key_groups=4) as driver:
        pipe(driver, "one", ("a", 5))
        pipe(driver, "two", ("b", 40))
        driver.mark_idle("one")
        assert driver.watermark == 40
        assert out(driver) == [("a@0", 1)]
        for lose in (False, True):
            driver.crash(lose_state=lose)
            assert driver.watermark == 40
            pipe(driver, "two", ("a", 6))
            assert dropped(driver) == 1 + lose
            assert out(driver) == []


def test_an_epoch_that_is_cut_at_a_moment_comes_to_it() -> None:
    """Also the first one, of a topic that had no record before."""
    with TopologyTestDriver(counts(Consumed()), settings=BY_WATERMARK) as driver:
        with driver.epoch(until=10):
            pipe(driver, "one", ("a", 3))
        assert driver.watermark == 10
        assert out(driver) == [("a@0", 1)]
        with driver.epoch(until=20):
            pipe(driver, "two", ("b", 11))
        assert driver.watermark == 20
        assert out(driver) == [("b@10", 1)]
        with driver.epoch(until=40):
            pass
        assert driver.watermark == 40
