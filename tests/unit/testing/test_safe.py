"""assert_topology_safe: what it lets pass, and what it names."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import App, JoinWindows, Stores, StreamsBuilder, TimeWindows
from mustela.processors import ContextualProcessor, Record
from mustela.testing import TopologyTestDriver, assert_topology_safe
from mustela.testing.faults import TestDriverError

SECOND = timedelta(seconds=1)


def lines(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("lines").pipe_table(
        """
        time | key | value
        0    | ann | a
        10   | eve | b
        20   | ann | c
        30   | ann | d
        """
    )


def counted(builder: StreamsBuilder) -> None:
    by_key = builder.stream("lines", key=str, value=str).group_by_key()
    by_key.count(store="counts").to_stream().to("counts")


class CountsAll(ContextualProcessor[str, str, str, int]):
    """Counts under one key, whatever the key of a record: once per key group."""

    def process(self, record: Record[str, str]) -> None:
        tally = self.context.get_state_store("tally")
        tally.put("all", (tally.get("all") or 0) + 1)
        self.context.forward(record.with_value(tally.get("all")))


class Remembers(ContextualProcessor[str, str, str, int]):
    """Counts in an attribute, which is gone when the epoch ends."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def process(self, record: Record[str, str]) -> None:
        self.seen += 1
        self.context.forward(record.with_value(self.seen))


def processed(processor: Any, *stores: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    for name in stores:
        store = Stores.persistent_key_value_store(name)
        builder.add_state_store(Stores.key_value_store_builder(store, key=str, value=int))
    stream = builder.stream("lines", key=str, value=str)
    stream.process(processor, stores=list(stores), name="step").to("out", key=str, value=int)
    return builder


def failure(subject: object, feed: Any = lines, **named: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_topology_safe(subject, feed, **named)
    return str(caught.value)


def checks(told: str) -> list[str]:
    named = [line.removeprefix("  check: ") for line in told.splitlines() if "  check: " in line]
    return list(dict.fromkeys(named))


@pytest.mark.parametrize("settings", [{}, {"emit": "every"}, {"key_groups": 16}])
def test_a_count_is_safe(settings: dict[str, Any]) -> None:
    """Tables leave updates out where an epoch has several, and that is no difference."""
    builder = StreamsBuilder()
    counted(builder)
    assert_topology_safe(builder, lines, settings)


def test_an_application_is_checked_with_its_own_settings() -> None:
    """32 key groups and the watermark, as in production."""
    app = App("shop")
    app.topology(counted)
    assert_topology_safe(app, lines)


def test_a_counter_under_one_key_depends_on_key_groups() -> None:
    """The difference between Kafka Streams' tasks and key groups is named."""
    told = failure(processed(CountsAll, "tally"))
    assert checks(told) == ["key_groups"]
    assert "in 32 key groups instead of 1, topic 'out' has other rows" in told
    assert "- ann | 3     | 20" in told
    assert "+ ann | 2     | 20" in told
    assert "store 'tally' holds something else" in told


def test_state_in_an_attribute_depends_on_epochs() -> None:
    """What is not in a store lives as long as an epoch."""
    told = failure(processed(Remembers))
    assert checks(told) == ["epochs"]
    assert "keep state in a store" in told


def test_what_a_test_means_is_left_out() -> None:
    """A difference that is meant is named by the test."""
    assert_topology_safe(processed(CountsAll, "tally"), lines, but_not=["key_groups"])


def test_a_join_of_what_comes_out_of_order_depends_on_epochs() -> None:
    """A record of a table that comes late but has an earlier time is joined in one epoch only."""
    builder = StreamsBuilder()
    users = builder.table("users", key=str, value=str, store="users")
    clicks = builder.stream("clicks", key=str, value=str)
    clicks.join(users, lambda click, user: f"{click}{user}", value=str).to("out")

    def feed(driver: TopologyTestDriver) -> None:
        driver.create_input_topic("clicks").pipe_input("ann", "c", timestamp=10)
        driver.create_input_topic("users").pipe_input("ann", "u", timestamp=0)

    told = failure(builder, feed)
    assert checks(told) == ["epochs"]
    assert "+ ann | cu    | 10" in told


def test_windows_that_close_differ_in_event_time() -> None:
    """With stream time a window closes for a key's group; with the watermark for all."""
    builder = StreamsBuilder()
    windows = TimeWindows(size=SECOND, grace=timedelta(0))
    by_key = builder.stream("lines", key=str, value=str).group_by_key()
    by_key.windowed_by(windows).count(store="counts").to_stream().to("counts")
    builder.stream("clock", key=str, value=str).to("ticks")

    def feed(driver: TopologyTestDriver) -> None:
        driver.create_input_topic("lines").pipe_input("ann", "a", timestamp=0)
        driver.create_input_topic("clock").pipe_input("ann", "a", timestamp=0)
        driver.create_input_topic("lines").pipe_input("eve", "a", timestamp=5_000)
        driver.create_input_topic("lines").pipe_input("ann", "late", timestamp=1)

    told = failure(builder, feed, but_not=["key_groups", "epochs"])
    assert checks(told) == ["event_time"]
    assert "with event_time = watermark" in told


def test_time_that_a_feed_moves_is_moved_in_every_run() -> None:
    """Epochs end where time moves, and where the feed reads."""
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=str)
    right = builder.stream("right", key=str, value=str)
    window = JoinWindows(before=SECOND, after=SECOND, grace=timedelta(0))
    left.join(right, lambda one, other: one + other, window, name="join", value=str).to("out")

    def feed(driver: TopologyTestDriver) -> None:
        with driver.epoch():
            driver.create_input_topic("left").pipe_input("k", "l", timestamp=0)
            driver.create_input_topic("right").pipe_input("k", "r", timestamp=1)
        driver.advance_wall_clock_time(SECOND)
        driver.create_output_topic("out").expect_table("key | value\n k | lr")
        driver.crash()

    assert_topology_safe(builder, feed, initial_wall_clock=0)


def test_a_run_that_fails_is_told_with_its_error() -> None:
    """An error in one way to run is a difference too."""
    builder = StreamsBuilder()
    stream = builder.stream("lines", key=str, value=str)
    calls: list[str] = []

    def picky(value: str) -> str:
        calls.append(value)
        if len(calls) > 4:
            raise ValueError(value)
        return value

    stream.map_values(picky, name="picky", value=str).to("out")
    told = failure(builder)
    assert "with a crash before and after each commit, the run fails" in told
    assert "picky" in told


@pytest.mark.parametrize("wrong", ["crashes", ["crash"]])
def test_a_check_that_does_not_exist_is_refused(wrong: Any) -> None:
    """A misspelt name would check what the test meant to leave out, or less than it says."""
    builder = StreamsBuilder()
    counted(builder)
    with pytest.raises(TestDriverError, match="but_not cannot be"):
        assert_topology_safe(builder, lines, but_not=wrong)
