"""Aggregations in windows: what the models do not show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mustela import (
    DataError,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
)
from mustela.model import TIME_MAX
from mustela.planner.planner import plan
from mustela.windows import EmitStrategy, UnlimitedWindows, WindowedSerde
from tests.epochs import ms

FINAL = EmitStrategy.on_window_close()
WATERMARK = {"event_time": "watermark"}
EVERY = {"emit": "every"}


def tumbling(size: int = 10, grace: int = 0) -> TimeWindows:
    return TimeWindows(size=ms(size), grace=ms(grace))


def counted(windows: Any, *, final: bool = False, **options: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    windowed: Any = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    if final:
        windowed = windowed.emit_strategy(FINAL)
    windowed.count(name="counts", **options).to_stream().to("out")
    return builder


def told(driver: TopologyTestDriver, topic: str = "out") -> list[tuple[Any, ...]]:
    rows = driver.create_output_topic(topic).read_records_to_list()
    return [(row.key.key, row.key.start, row.key.end, row.value, row.timestamp) for row in rows]


def send(driver: TopologyTestDriver, rows: Sequence[tuple[str | None, int]]) -> None:
    topic = driver.create_input_topic("in")
    for key, time in rows:
        topic.pipe_input(key, "x", timestamp=time)


def test_a_jump_of_time_loses_no_closed_window() -> None:
    """emit-final-keeps-windows: Kafka Streams tells nothing of these windows."""
    with TopologyTestDriver(counted(tumbling(), final=True)) as driver:
        send(driver, [("a", 5), ("a", 100)])
        assert told(driver) == [("a", 0, 10, 1, 5)]
        send(driver, [("a", 1_000_000)])
        assert told(driver) == [("a", 100, 110, 1, 100)]


def test_a_closed_window_is_told_by_the_watermark_though_its_key_is_silent() -> None:
    """Also in a lane that gets no record any more, and once."""
    for lanes in (1, 4):
        options: dict[str, Any] = {"settings": WATERMARK, "key_groups": 8, "lanes": lanes}
        with TopologyTestDriver(counted(tumbling(), final=True), **options) as driver:
            send(driver, [(key, 3) for key in "abcdef"])
            assert told(driver) == []
            send(driver, [("g", 50)])
            assert sorted(told(driver)) == [(key, 0, 10, 1, 3) for key in "abcdef"]
            driver.advance_watermark(100)
            assert told(driver) == [("g", 50, 60, 1, 50)]
            driver.advance_watermark(1_000)
            assert told(driver) == []


def test_a_closed_window_is_told_once_though_its_row_is_kept_or_comes_back() -> None:
    """A longer retention keeps rows; a restore from the changelog brings expired ones back."""
    for retention in (None, ms(1_000)):
        options = Materialized[Any, Any](retention=retention)
        with TopologyTestDriver(counted(tumbling(), final=True, materialized=options)) as driver:
            send(driver, [("a", 5), ("a", 20)])
            assert told(driver) == [("a", 0, 10, 1, 5)]
            driver.crash(lose_state=True)
            send(driver, [("a", 21), ("a", 30)])
            assert told(driver) == [("a", 20, 30, 2, 21)]


def test_windows_are_kept_as_long_as_was_said() -> None:
    """And can be read until then, though they take no record any more."""
    options = Materialized[Any, Any](retention=ms(100))
    with TopologyTestDriver(counted(tumbling(), materialized=options)) as driver:
        send(driver, [("a", 5), ("a", 90)])
        store: Any = driver.get_window_store("counts")
        assert store.fetch("a", 0) == 1
        send(driver, [("a", 200)])
        assert store.fetch("a", 0) is None
        assert store.fetch("a", 200) == 1


def test_stream_time_outlives_a_restart() -> None:
    """late-after-restart: Kafka Streams takes what is late until a first record has come."""
    with TopologyTestDriver(counted(tumbling())) as driver:
        send(driver, [("a", 100)])
        driver.crash(lose_state=True)
        send(driver, [("a", 5)])
        assert [row[1] for row in told(driver)] == [100]
        assert driver.metrics["dropped_late:counts"] == 1


def test_what_closes_at_once_comes_by_its_time_and_then_by_key() -> None:
    """Windows by their start, sessions by their end."""
    rows = [("a", 6), ("b", 8), ("c", 7), ("a", 10), ("c", 8), ("a", 28)]
    with TopologyTestDriver(
        counted(SessionWindows(inactivity_gap=ms(6), grace=ms(0)), final=True)
    ) as driver:
        send(driver, rows)
        assert told(driver) == [("c", 7, 8, 2, 8), ("b", 8, 8, 1, 8), ("a", 6, 10, 2, 10)]
    with TopologyTestDriver(counted(tumbling(5), final=True)) as driver:
        send(driver, rows[:-1])
        send(driver, [("a", 28)])
        ends = [(key, start) for key, start, *_ in told(driver)]
    assert ends == [("a", 5), ("b", 5), ("c", 5), ("a", 10)]


@pytest.mark.parametrize("settings", [WATERMARK, {}], ids=["watermark", "stream-time"])
@pytest.mark.parametrize("retention", [None, ms(10_000)], ids=["kept shortly", "kept long"])
@pytest.mark.parametrize("final", [True, False], ids=["final", "updates"])
def test_a_session_that_is_over_takes_no_record_however_long_it_is_kept(
    final: bool, retention: timedelta | None, settings: dict[str, Any]
) -> None:
    """closed-sessions-stay-closed: what was told as final is never told anew."""
    options = Materialized[Any, Any](retention=retention)
    sessions = SessionWindows(inactivity_gap=ms(10), grace=ms(20))
    builder = counted(sessions, final=final, materialized=options)
    with TopologyTestDriver(builder, settings=settings) as driver:
        send(driver, [("a", 100), ("b", 131), ("a", 105), ("b", 300)])
        mine = [row for row in told(driver) if row[0] == "a"]
    if retention and not final and not settings:  # Kafka Streams' time, and its results
        assert mine == [
            ("a", 100, 100, 1, 100),
            ("a", 100, 100, None, 100),
            ("a", 100, 105, 2, 105),
        ]
    else:
        assert mine == [("a", 100, 100, 1, 100), ("a", 105, 105, 1, 105)]


@pytest.mark.parametrize(("latest", "merged"), [(35, ("a", 0, 11, 3)), (36, ("a", 5, 11, 2))])
@pytest.mark.parametrize("together", [1, 4])
def test_a_session_that_is_kept_merges_until_it_is_out_of_sight(
    together: int, latest: int, merged: tuple[Any, ...]
) -> None:
    """By stream time, as in Kafka Streams: it is kept for longer than it takes records."""
    options = Materialized[Any, Any](retention=ms(36))
    sessions = SessionWindows(inactivity_gap=ms(10), grace=ms(20))
    rows = [("a", 0), ("a", 11), ("b", latest), ("a", 5)]
    with TopologyTestDriver(counted(sessions, materialized=options)) as driver:
        for begin in range(0, len(rows), together):
            with driver.epoch():
                send(driver, rows[begin : begin + together])
        assert merged in [row[:4] for row in told(driver)]


def test_a_record_just_within_the_gap_extends_its_session_whatever_other_keys_did() -> None:
    """closed-sessions-stay-closed: in Kafka Streams the store has dropped that session."""
    sessions = SessionWindows(inactivity_gap=ms(10), grace=ms(0))
    with TopologyTestDriver(counted(sessions)) as driver:
        send(driver, [("a", 100), ("b", 110), ("a", 110)])
        assert [row[:4] for row in told(driver) if row[0] == "a"] == [
            ("a", 100, 100, 1),
            ("a", 100, 100, None),
            ("a", 100, 110, 2),
        ]


def test_a_late_record_can_join_two_sessions() -> None:
    """Both rows are deleted before the row of the whole."""
    sessions = SessionWindows(inactivity_gap=ms(5), grace=ms(50))
    with TopologyTestDriver(counted(sessions)) as driver:
        send(driver, [("a", 0), ("a", 10), ("a", 5)])
        assert told(driver) == [
            ("a", 0, 0, 1, 0),
            ("a", 10, 10, 1, 10),
            ("a", 0, 0, None, 0),
            ("a", 10, 10, None, 10),
            ("a", 0, 10, 3, 10),
        ]


def test_null_values_count_in_time_windows_and_sessions_but_not_in_sliding_windows() -> None:
    """As in Kafka Streams; records without a key never count."""
    wanted = {
        tumbling(): [1],
        SessionWindows(inactivity_gap=ms(5), grace=ms(0)): [1],
        SlidingWindows(time_difference=ms(5), grace=ms(0)): [],
    }
    for windows, values in wanted.items():
        with TopologyTestDriver(counted(windows)) as driver:
            topic = driver.create_input_topic("in")
            topic.pipe_input("a", None, timestamp=7)
            topic.pipe_input(None, "x", timestamp=7)
            assert [row[3] for row in told(driver)] == values
            assert driver.metrics["dropped_null_key:in"] == 1


def test_a_reducer_in_a_window_gets_null_values() -> None:
    """A first null gives a null result, where each update is told."""
    seen: list[Any] = []

    def add(total: str, value: str | None) -> str:
        seen.append((total, value))
        return f"{total}{value}"

    builder = StreamsBuilder()
    windowed = builder.stream("in", key=str, value=str).group_by_key().windowed_by(tumbling())
    windowed.reduce(add, store="s").to_stream().to("out")
    with TopologyTestDriver(builder, settings={**EVERY, "event_time": "stream-time"}) as driver:
        topic = driver.create_input_topic("in")
        for value in (None, "x", None):
            topic.pipe_input("a", value, timestamp=1)
        assert [row[3] for row in told(driver)] == [None, "x", "xNone"]
    assert seen == [("x", None)]


def test_an_adder_that_returns_none_deletes_the_window() -> None:
    """The next record begins anew, in every kind of window."""
    for windows in (
        tumbling(),
        SessionWindows(inactivity_gap=ms(5), grace=ms(0)),
        SlidingWindows(time_difference=ms(5), grace=ms(0)),
    ):
        builder = StreamsBuilder()
        windowed: Any = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
        extra = (
            [lambda _k, left, right: left + right] if isinstance(windows, SessionWindows) else []
        )
        table = windowed.aggregate(
            str, lambda _k, v, total: None if v == "-" else total + v, *extra, value=str
        )
        table.to_stream().to("out")
        with TopologyTestDriver(builder) as driver:
            topic = driver.create_input_topic("in")
            for value in ("a", "-", "b"):
                topic.pipe_input("k", value, timestamp=7)
            assert [row[3] for row in told(driver)] == ["a", None, "b"]


def test_a_window_without_end_takes_all_from_its_start() -> None:
    """Records before the start are left out; nothing is ever late."""
    start = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    kept = Materialized[Any, Any](store="counts")
    with TopologyTestDriver(counted(UnlimitedWindows(start=start), materialized=kept)) as driver:
        send(driver, [("a", 999), ("a", 5_000_000_000), ("a", 1_000)])
        assert told(driver) == [
            ("a", 1_000, TIME_MAX, 1, 5_000_000_000),
            ("a", 1_000, TIME_MAX, 2, 5_000_000_000),
        ]
        store = driver.get_window_store("counts")
        assert list(store.all()) == [(Windowed("a", 1_000, TIME_MAX), 2)]


def test_what_reads_a_windowed_table_stays_in_its_lane() -> None:
    """The windows of a key are where the key is: no further stage, and the stores agree."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    counts = grouped.windowed_by(tumbling()).count(store="counts")
    big = counts.filter(lambda _window, count: count > 1, store="big")
    big.to_stream().group_by_key().count(store="again").to_stream().to("out")
    built = builder.build()
    assert len(plan(built).stages) == 2
    for options in ({}, {"key_groups": 8, "lanes": 3, "crash_after_every_record": True}):
        with TopologyTestDriver(built, **options) as driver:
            send(driver, [(key, 3) for key in "abcd" * 3])
            last = {row[0]: row[3] for row in told(driver)}
            assert last == dict.fromkeys("abcd", 2)
            store = driver.get_key_value_store("big")
            assert store[Windowed("c", 0, 10)] == 3


def test_windowed_tables_travel_by_the_key_inside_when_they_have_to() -> None:
    """Re-keyed by the same windows, they come back to the lane of the key."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    counts = grouped.windowed_by(tumbling()).count(store="counts")
    moved = counts.to_stream().select_key(lambda window, _count: window)
    key = WindowedSerde(str, window_size=ms(10))
    moved.group_by_key(key=key).count(store="again").to_stream().to("out", key=key)
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        send(driver, [(key, 3) for key in "abcd" * 2])
        assert {row[0]: row[3] for row in told(driver)} == dict.fromkeys("abcd", 2)


def test_results_of_closed_windows_are_not_late_for_the_windows_behind() -> None:
    """They are stamped inside of their window, which by then lies behind the watermark."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    first = grouped.windowed_by(tumbling(10, grace=30)).emit_strategy(FINAL).count(store="first")
    again = first.to_stream(lambda window, _count: window.key).group_by_key(key=str)
    second = again.windowed_by(tumbling(20)).emit_strategy(FINAL)
    second.reduce(lambda x, y: x + y, value=int, store="second").to_stream().to("out", value=int)
    with TopologyTestDriver(builder, settings=WATERMARK) as driver:
        send(driver, [("a", 3), ("a", 12), ("a", 14)])
        driver.advance_watermark(500)
        driver.advance_watermark(600)
        assert [row[:4] for row in told(driver)] == [("a", 0, 20, 3)]
        assert "dropped_late:second" not in driver.metrics


@pytest.mark.parametrize("emit", ["barrier", "every"])
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
def test_windows_share_no_value_of_a_record(emit: str, event_time: str) -> None:
    """A reducer that changes what it is given changes one window alone."""

    def gather(total: dict[str, int], value: dict[str, int]) -> dict[str, int]:
        total.update(value)
        return total

    for windows in (
        TimeWindows(size=ms(10), advance=ms(5), grace=ms(100)),
        SlidingWindows(time_difference=ms(5), grace=ms(100)),
    ):
        for associative in (False, True):
            builder = StreamsBuilder()
            windowed = builder.stream("in", key=str, value=dict).group_by_key().windowed_by(windows)
            table = windowed.reduce(gather, associative=associative, store="all")
            table.to_stream().to("out")
            with TopologyTestDriver(
                builder, settings={"emit": emit, "event_time": event_time}
            ) as driver:
                topic = driver.create_input_topic("in")
                with driver.epoch():
                    for time in (16, 19, 22, 12):
                        topic.pipe_input("k", {str(time): time}, timestamp=time)
                for _, start, end, value, _ in told(driver):
                    inclusive = isinstance(windows, SlidingWindows)
                    assert all(start <= v < end + inclusive for v in value.values())
                    assert value


def test_a_failing_adder_leaves_the_windows_as_they_were() -> None:
    """The record is dropped and counted, and what the function did to the aggregate undone."""

    def spoil(_key: str, value: str, total: list[str]) -> list[str]:
        total.append(value)
        if value == "bad":
            raise ValueError(value)
        return total

    for windows in (
        tumbling(),
        SessionWindows(inactivity_gap=ms(5), grace=ms(0)),
        SlidingWindows(time_difference=ms(5), grace=ms(0)),
    ):
        builder = StreamsBuilder()
        windowed: Any = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
        extra = (
            [lambda _k, left, right: left + right] if isinstance(windows, SessionWindows) else []
        )
        table = windowed.aggregate(list, spoil, *extra, value=list, name="all")
        table.to_stream().to("out")
        options = {"processing_handler": "continue", "event_time": "stream-time"}
        with TopologyTestDriver(builder, settings=options) as driver:
            with driver.epoch():
                topic = driver.create_input_topic("in")
                for value in ("a", "bad", "b"):
                    topic.pipe_input("k", value, timestamp=7)
            assert [row[3] for row in told(driver)] == [["a", "b"]]
            assert driver.metrics["failed_records:all"] >= 1
        with TopologyTestDriver(builder) as driver:
            topic = driver.create_input_topic("in")
            with pytest.raises(DataError, match="bad"):
                topic.pipe_input("k", "bad", timestamp=7)


def test_a_value_that_has_no_bytes_fails_with_its_record() -> None:
    """Whether rows are encoded at the end or one by one."""
    for windows in (tumbling(), SlidingWindows(time_difference=ms(5), grace=ms(0))):
        for options in ({}, {"production_handler": "continue"}):
            builder = StreamsBuilder()
            grouped = builder.stream("in", key=str, value=str).group_by_key()
            windowed: Any = grouped.windowed_by(windows)
            table = windowed.aggregate(lambda: 0, lambda _k, v, _t: v, value=int, name="all")
            table.to_stream().to("out", value=int)
            settings = {"event_time": "stream-time", **options}
            with TopologyTestDriver(builder, settings=settings) as driver:
                topic = driver.create_input_topic("in")
                if options:
                    topic.pipe_input("k", "text", timestamp=7)
                    assert told(driver) == []
                else:
                    with pytest.raises(DataError, match="int"):
                        topic.pipe_input("k", "text", timestamp=7)


def test_a_window_right_behind_one_record_may_end_with_the_next() -> None:
    """It is one window, and later records are in it once; Kafka Streams tells it twice."""
    sliding = SlidingWindows(time_difference=ms(7), grace=ms(0))
    for settings in ({"emit": "every"}, {"emit": "barrier"}):
        options = {"event_time": "stream-time", **settings}
        with TopologyTestDriver(counted(sliding), settings=options) as driver:
            send(driver, [("a", 6), ("a", 14), ("a", 14)])
            last = {row[1:3]: row[3] for row in told(driver)}
            assert last == {(0, 7): 1, (7, 14): 2}


@pytest.mark.parametrize("emit", ["every", "barrier"])
def test_a_record_begins_no_window_that_it_has_just_deleted(emit: str) -> None:
    """The one right behind the record before it, which would be told, or would begin, anew."""
    sliding = SlidingWindows(time_difference=ms(3), grace=ms(3))
    for first in (5, 4):  # the usual way, and that before the first window that could end
        builder = StreamsBuilder()
        windowed = builder.stream("in", key=str, value=str).group_by_key().windowed_by(sliding)
        windowed.aggregate(
            str,
            lambda _key, value, total: None if value == "-" and total else f"{total}{value}",
            value=str,
        ).to_stream().to("out")
        settings = {"event_time": "stream-time", "emit": emit}
        with TopologyTestDriver(builder, settings=settings) as driver:
            topic = driver.create_input_topic("in")
            topic.pipe_input("a", "x", timestamp=first)
            topic.pipe_input("a", "y", timestamp=first - 3)
            told(driver)
            topic.pipe_input("a", "-", timestamp=first - 2)
            last = sorted(row[1:4] for row in told(driver))
            changes = [(first - 2, first + 1, None), (first - 1, first + 2, "x")]
            early = [(0, 3, None), (first - 3, first, None)]
            assert last == sorted({*early, *changes}), last


def test_a_late_record_begins_the_window_behind_the_one_before_it() -> None:
    """sliding-windows-are-kept-long-enough: Kafka Streams has dropped what shows that record."""
    sliding = SlidingWindows(time_difference=ms(10), grace=ms(0))
    with TopologyTestDriver(counted(sliding)) as driver:
        send(driver, [("a", 30), ("a", 10), ("b", 40), ("b", 39)])
        told(driver)
        send(driver, [("a", 39)])
        assert told(driver) == [("a", 31, 41, 1, 39)]


def test_a_window_reaches_back_to_its_first_moment_whatever_other_keys_did() -> None:
    """sliding-windows-are-kept-long-enough: on time, too."""
    sliding = SlidingWindows(time_difference=ms(4), grace=ms(0))
    with TopologyTestDriver(counted(sliding)) as driver:
        send(driver, [("b", 5), ("a", 8), ("a", 9), ("b", 9)])
        assert ("b", 5, 9, 2, 9) in told(driver)
