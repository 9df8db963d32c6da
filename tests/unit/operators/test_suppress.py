"""Suppressed tables: what waits, for how long, and what goes on of it."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import (
    KTable,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
)
from mustela.kernel.windows.suppress import BufferFullError
from mustela.topology.graph import TopologyGraph
from mustela.windows import BufferConfig, EmitStrategy
from tests.epochs import ms

UNBOUNDED = BufferConfig.unbounded()
BY_WATERMARK = {"event_time": "watermark"}
Rows = list[tuple[str, int]]


def text(key: Windowed[str], _value: Any) -> str:
    return f"{key.key}@{key.start}/{key.end}"


def sums(suppressed: Suppressed) -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int).group_by_key()
    table = stream.reduce(lambda total, new: total + new, store="sums")
    table.suppress(suppressed, name="rare").to_stream().to("out", key=str, value=int)
    return builder.build()


def finals(windows: Any) -> TopologyGraph:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    counts: KTable[Any, int] = grouped.windowed_by(windows).count(store="counts")
    last = counts.suppress(Suppressed.until_window_closes(UNBOUNDED), name="last")
    last.to_stream(text).to("out", key=str, value=int)
    return builder.build()


def out(driver: TopologyTestDriver) -> list[tuple[str, Any, int]]:
    topic = driver.create_output_topic("out", key=str, value=int)
    return [(r.key, r.value, r.timestamp) for r in topic.read_records_to_list()]


def pipe(driver: TopologyTestDriver, rows: Rows) -> None:
    topic = driver.create_input_topic("in")
    for key, timestamp in rows:
        topic.pipe_input(key, 1, timestamp=timestamp)


def test_a_later_change_takes_the_place_of_the_first_and_keeps_its_time() -> None:
    """The limit counts from the first change; what goes on has the time of the last."""
    with TopologyTestDriver(sums(Suppressed.until_time_limit(ms(10), UNBOUNDED))) as driver:
        pipe(driver, [("a", 0), ("a", 6), ("b", 9)])
        assert out(driver) == []
        pipe(driver, [("a", 10)])
        assert out(driver) == [("a", 3, 10)]
        pipe(driver, [("c", 19)])
        assert out(driver) == [("b", 1, 9)]


def test_no_limit_lets_everything_through() -> None:
    """A change is held back and goes on at once."""
    with TopologyTestDriver(sums(Suppressed.until_time_limit(ms(0), UNBOUNDED))) as driver:
        pipe(driver, [("a", 5), ("a", 6)])
        assert out(driver) == [("a", 1, 5), ("a", 2, 6)]


def test_a_full_buffer_lets_the_oldest_go_early() -> None:
    """By records and by bytes; of equal times the smaller key goes first."""
    two = BufferConfig.max_records(2)
    with TopologyTestDriver(sums(Suppressed.until_time_limit(timedelta.max, two))) as driver:
        pipe(driver, [("b", 5), ("a", 5), ("b", 6), ("c", 1)])
        assert out(driver) == [("c", 1, 1)]
        pipe(driver, [("d", 7)])
        assert out(driver) == [("a", 1, 5)]
    small = BufferConfig.max_bytes(0)
    with TopologyTestDriver(sums(Suppressed.until_time_limit(timedelta.max, small))) as driver:
        pipe(driver, [("a", 5), ("b", 5)])
        assert out(driver) == [("a", 1, 5), ("b", 1, 5)]


def test_what_the_rows_of_one_record_let_go_keeps_its_order() -> None:
    """Also in another lane: by time first, then because the buffer is full."""
    builder = StreamsBuilder()
    letters = builder.stream("in", key=str, value=str).flat_map(lambda _k, v: [(x, x) for x in v])
    buffer = BufferConfig.max_records(2).emit_early_when_full()
    table = letters.to_table(key=str, value=str)
    rare = table.suppress(Suppressed.until_time_limit(ms(5), buffer), name="rare").to_stream()
    words = rare.group_by(lambda _letter, _same: "all", key=str, value=str)
    words.reduce(lambda word, letter: word + letter, store="word").to_stream().to("out", key=str)
    settings = {"event_time": "stream-time", "emit": "every"}
    with TopologyTestDriver(builder.build(), settings=settings) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("k", "ab", timestamp=0)
        topic.pipe_input("k", "cde", timestamp=10)
        told = driver.create_output_topic("out").read_values_to_list()
    assert told == ["a", "ab", "abc"]


@pytest.mark.parametrize(
    ("asks", "headers", "costs"),
    [
        (False, (), 100 + 1 + 8),
        (True, (), 100 + 1 + 8 + 8),
        (False, (("from", b"web"), ("gone", None)), 100 + 1 + 8 + 11),
    ],
    ids=["alone", "with the value before", "with headers"],
)
def test_a_bound_of_bytes_counts_what_a_row_costs(asks: bool, headers: Any, costs: int) -> None:
    """A hundred bytes beside its key, its value, its headers, and the one before if it is kept.

    Two rows fit where there is room for both, and the older one goes on where a byte is missing.
    """
    for missing, early in ((0, []), (1, [("a", 3, 101)])):
        buffer = BufferConfig.max_bytes(2 * costs - missing)
        builder = StreamsBuilder()
        rows = builder.table("in", key=str, value=int, store="rows")
        rare = rows.suppress(Suppressed.until_time_limit(ms(50), buffer))
        rare.to_stream().to("out")
        if asks:
            rare.group_by(lambda key, value: (key, value), key=str, value=int).count()
        with TopologyTestDriver(builder, settings={"event_time": "stream-time"}) as driver:
            topic = driver.create_input_topic("in")
            for key, value, time in (("a", 1, 0), ("b", 1, 0), ("a", 2, 100)):
                topic.pipe_input(key, value, timestamp=time)
            out(driver)
            for key, value, time in (("a", 3, 101), ("b", 4, 102)):
                topic.pipe_input(key, value, timestamp=time, headers=headers)
            assert out(driver) == early


@pytest.mark.parametrize("event_time", ["stream-time", "watermark"])
def test_a_full_buffer_that_must_not_be_full_stops_the_application(event_time: str) -> None:
    """And says which step it is; nothing of the epoch is committed."""
    strict = BufferConfig.max_records(1).shut_down_when_full()
    topology = sums(Suppressed.until_time_limit(ms(10), strict))
    with TopologyTestDriver(topology, settings={"event_time": event_time}) as driver:
        pipe(driver, [("a", 0)])
        with pytest.raises(BufferFullError, match="buffer of 'rare' is full") as caught:
            pipe(driver, [("b", 1)])
        assert caught.value.at is not None
        assert driver.get_key_value_store("sums").get("b") is None


@pytest.mark.parametrize(
    ("windows", "closes"),
    [
        (TimeWindows(size=ms(10), grace=ms(3)), 13),
        (SlidingWindows(time_difference=ms(10), grace=ms(0)), 11),
        (SessionWindows(inactivity_gap=ms(10), grace=ms(2)), 18),
    ],
    ids=["tumbling", "sliding", "session"],
)
@pytest.mark.parametrize("event_time", ["stream-time", "watermark"])
def test_the_last_value_of_a_window_waits_until_no_record_can_change_it(
    windows: Any, closes: int, event_time: str
) -> None:
    """Divergence suppress-inclusive-ends: one millisecond later than Kafka Streams where the end
    belongs to the window, because a record at that time is still taken.
    """
    settings = {"event_time": event_time}
    with TopologyTestDriver(finals(windows), settings=settings) as driver:
        pipe(driver, [("a", 5), ("tick", closes - 1)])
        assert [row for row in out(driver) if row[0].startswith("a@")] == []
        pipe(driver, [("a", 5), ("tick", closes)])
        found = [row for row in out(driver) if row[0].startswith("a@")]
        assert [(value, time) for _, value, time in found if value == 2] == [(2, 5)]
        assert len({key for key, _, _ in found}) == len(found)
        pipe(driver, [("a", 5), ("tick", closes + 90)])
        again = [row for row in out(driver) if row[0].startswith("a@")]
        assert {key for key, _, _ in again}.isdisjoint(key for key, _, _ in found)


def test_a_window_closes_without_a_record() -> None:
    """When the watermark passes, by a test's word or because a topic is idle."""
    topology = finals(TimeWindows(size=ms(10), grace=ms(0)))
    for crash in (False, True):
        with TopologyTestDriver(
            topology,
            settings=BY_WATERMARK,
            key_groups=8,
            lanes=3,
            crash_after_every_record=crash,
        ) as driver:
            pipe(driver, [("a", 5), ("b", 15)])
            assert out(driver) == [("a@0/10", 1, 5)]
            driver.advance_watermark(19)
            assert out(driver) == []
            driver.advance_watermark(20)
            assert out(driver) == [("b@10/20", 1, 15)]
            assert driver.watermark == 20
            driver.advance_watermark(10)
            assert driver.watermark == 20


def test_an_idle_topic_no_longer_holds_windows_open() -> None:
    """Marked idle by the test, or silent for the idle period; a topic never used holds nothing."""
    builder = StreamsBuilder()
    streams = [builder.stream(topic, key=str, value=int) for topic in ("in", "slow", "unused")]
    both = streams[0].merge(streams[1], name="both").merge(streams[2], name="all")
    windows = TimeWindows(size=ms(10), grace=ms(0))
    counts: KTable[Any, int] = both.group_by_key().windowed_by(windows).count(store="counts")
    last = counts.suppress(Suppressed.until_window_closes(UNBOUNDED), name="last")
    last.to_stream(text).to("out", key=str, value=int)
    topology = builder.build()

    with TopologyTestDriver(topology, settings=BY_WATERMARK) as driver:
        slow = driver.create_input_topic("slow")
        slow.pipe_input("s", 1, timestamp=2)
        pipe(driver, [("a", 30)])
        assert driver.watermark == 2
        assert out(driver) == []
        driver.mark_idle("slow")
        assert driver.watermark == 30
        assert out(driver) == [("s@0/10", 1, 2)]
        slow.pipe_input("s", 1, timestamp=40)
        pipe(driver, [("a", 90)])
        assert driver.watermark == 40
        pipe(driver, [("a", 91)])
        driver.advance_wall_clock_time(timedelta(seconds=59))
        assert driver.watermark == 40
        driver.advance_wall_clock_time(timedelta(seconds=1))
        assert driver.watermark == 91
        pipe(driver, [("a", 92)])
        assert driver.watermark == 92


_events = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 60)), min_size=1, max_size=40)


@given(
    rows=_events,
    limit=st.integers(0, 30),
    most=st.one_of(st.none(), st.integers(1, 3)),
    grouped=st.booleans(),
)
def test_a_time_limit_is_that_of_a_simple_model(
    rows: Rows, limit: int, most: int | None, grouped: bool
) -> None:
    """By stream time, one record at a time or many at once, with crashes and without."""
    buffer = UNBOUNDED if most is None else BufferConfig.max_records(most)
    topology = sums(Suppressed.until_time_limit(ms(limit), buffer))
    expected: list[tuple[str, int, int]] = []
    waiting: dict[str, tuple[int, int, int]] = {}
    totals: dict[str, int] = defaultdict(int)
    latest: dict[str, int] = defaultdict(lambda: -1)
    now = -1
    for key, time in rows:
        totals[key] += 1
        latest[key] = max(latest[key], time)
        now = max(now, latest[key])
        slot = waiting[key][0] if key in waiting else latest[key]
        waiting[key] = (slot, totals[key], latest[key])

        def go(name: str) -> None:
            _, value, stamp = waiting.pop(name)
            expected.append((name, value, stamp))

        for _, name in sorted((slot, name) for name, (slot, _, _) in waiting.items()):
            if waiting[name][0] <= now - limit:
                go(name)
        while most is not None and len(waiting) > most:
            go(min((slot, name) for name, (slot, _, _) in waiting.items())[1])
    for crash in (False, True):
        with TopologyTestDriver(
            topology, settings={"emit": "every"}, crash_after_every_record=crash
        ) as driver:
            if grouped:
                with driver.epoch():
                    pipe(driver, rows)
            else:
                pipe(driver, rows)
            assert out(driver) == expected


@given(rows=_events, cuts=st.sets(st.integers(0, 60)), grace=st.integers(0, 15))
def test_windows_that_close_do_not_depend_on_epochs_lanes_or_crashes(
    rows: Rows, cuts: set[int], grace: int
) -> None:
    """By watermark, each window once, with every record that was not late."""
    topology = finals(TimeWindows(size=ms(10), advance=ms(5), grace=ms(grace)))
    found: list[list[tuple[str, int, int]]] = []
    spread: dict[str, Any] = {"key_groups": 8, "lanes": 3}
    for moments, extra in (([], {}), (sorted(cuts), spread)):
        with TopologyTestDriver(
            topology, settings=BY_WATERMARK, crash_after_every_record=bool(extra), **extra
        ) as driver:
            rest = list(rows)
            for moment in moments:
                number = next((n for n, row in enumerate(rest) if row[1] >= moment), len(rest))
                with driver.epoch(until=moment):
                    pipe(driver, rest[:number])
                rest = rest[number:]
            with driver.epoch():
                pipe(driver, rest)
            driver.advance_watermark(1_000)
            found.append(sorted(out(driver)))
    assert found[0] == found[1]
    assert len({key for key, _, _ in found[0]}) == len(found[0])


def test_what_is_behind_sees_the_values_that_went_on() -> None:
    """Divergence suppress-old-value: the old value is what went on before, so that a table grouped
    anew takes out what it put in.
    """
    builder = StreamsBuilder()
    homes = builder.table("homes", key=str, value=str, store="homes")
    rare = homes.suppress(Suppressed.until_time_limit(ms(10), UNBOUNDED), name="rare")
    towns = rare.group_by(lambda person, town: (town, person), key=str, value=str)
    towns.count(store="inhabitants").to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder) as driver:
        home = driver.create_input_topic("homes")
        for person, town, time in [
            ("ann", "Rome", 0),
            ("ann", "Oslo", 1),
            ("tick", "x", 20),
            ("ann", "Bonn", 21),
            ("ann", "Paris", 22),
            ("tick", "x", 60),
        ]:
            home.pipe_input(person, town, timestamp=time)
        counts = driver.get_key_value_store("inhabitants")
        assert {town: counts.get(town) for town in ("Rome", "Oslo", "Bonn", "Paris")} == {
            "Rome": None,
            "Oslo": 0,
            "Bonn": None,
            "Paris": 1,
        }


def test_a_join_sees_the_value_that_went_on_before() -> None:
    """Not the one that waits."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int, store="prices")
    rare = table.suppress(Suppressed.until_time_limit(ms(10), UNBOUNDED), name="rare")
    orders = builder.stream("orders", key=str, value=int)
    orders.left_join(rare, lambda n, price: f"{n}x{price}", value=str, name="joined").to("joined")
    with TopologyTestDriver(builder) as driver:
        orders_topic, joined = driver.create_input_topic("orders"), []
        for price, time in [(5, 0), (7, 30), (9, 35)]:
            driver.create_input_topic("in").pipe_input("a", price, timestamp=time)
            driver.create_input_topic("in").pipe_input("tick", 0, timestamp=time)
            orders_topic.pipe_input("a", 1, timestamp=time)
            joined += driver.create_output_topic("joined", value=str).read_values_to_list()
        assert joined == ["1xNone", "1x7", "1x7"]


def test_the_result_of_a_window_is_not_late_in_the_windows_behind() -> None:
    """A result goes on at end + grace with a time inside its window; the next windows wait so
    much longer.
    """
    builder = StreamsBuilder()
    windows = TimeWindows(size=ms(10), grace=ms(5))
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    closing = grouped.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    first: KTable[Any, int] = closing.count(store="first")
    again = first.to_stream(lambda key, _count: key.key).group_by_key(key=str, value=int)
    second: KTable[Any, int] = again.windowed_by(windows).reduce(
        lambda total, new: total + new, store="second"
    )
    last = second.suppress(Suppressed.until_window_closes(UNBOUNDED), name="last")
    last.to_stream(text).to("out", key=str, value=int)
    topology = builder.build()
    for grouped_ in (False, True):
        with TopologyTestDriver(topology, settings=BY_WATERMARK, key_groups=4) as driver:
            rows = [("a", 1), ("a", 2), ("a", 11), ("a", 3), ("a", 40)]
            if grouped_:
                with driver.epoch():
                    pipe(driver, rows)
            else:
                pipe(driver, rows)
            driver.advance_watermark(500)
            found = out(driver)
            assert [(key, value) for key, value, _ in found] == [
                ("a@0/10", 3),
                ("a@10/20", 1),
                ("a@40/50", 1),
            ]
            assert "dropped_late:second" not in driver.metrics


def test_deletions_of_windows_do_not_go_on() -> None:
    """A session that grew is told once, by what it became."""
    windows = SessionWindows(inactivity_gap=ms(5), grace=ms(0))
    with TopologyTestDriver(finals(windows), settings={"emit": "every"}) as driver:
        pipe(driver, [("a", 0), ("a", 4), ("a", 8), ("tick", 100)])
        assert out(driver) == [("a@0/8", 3, 8)]


def test_what_waits_survives_the_loss_of_the_disk() -> None:
    """The buffer has a changelog; without one it would be gone."""
    topology = sums(Suppressed.until_time_limit(ms(10), UNBOUNDED))
    with TopologyTestDriver(topology, key_groups=4, settings={"key_groups": 4}) as driver:
        pipe(driver, [("a", 0)])
        driver.crash(lose_state=True)
        pipe(driver, [("a", 30)])
        assert ("a", 2, 30) in out(driver)


def test_headers_go_on_with_the_last_change() -> None:
    """Of the record that changed the row last."""
    with TopologyTestDriver(sums(Suppressed.until_time_limit(ms(10), UNBOUNDED))) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", 1, timestamp=0, headers=(("n", b"1"),))
        topic.pipe_input("a", 1, timestamp=1, headers=(("n", b"2"), ("m", None)))
        topic.pipe_input("a", 1, timestamp=20)
        found = driver.create_output_topic("out").read_records_to_list()
        assert [record.headers for record in found] == [()]
        topic.pipe_input("a", 1, timestamp=21, headers=(("n", b"3"), ("m", None)))
        topic.pipe_input("b", 1, timestamp=50)
        found = driver.create_output_topic("out").read_records_to_list()
        assert found[0].headers == (("n", b"3"), ("m", None))


def test_a_filter_with_a_store_says_no_deletion_of_nothing_to_a_suppression() -> None:
    """With each update told: a row that never passed the filter does not wait as a deletion."""
    builder = StreamsBuilder()
    large = builder.table("in", key=str, value=int).filter(lambda _k, v: v > 5, store="large")
    large.suppress(Suppressed.until_time_limit(ms(0), UNBOUNDED), name="rare").to_stream().to("out")
    with TopologyTestDriver(builder, settings={"emit": "every"}) as driver:
        for value in (1, 2, 7, 3, 4):
            driver.create_input_topic("in").pipe_input("a", value)
        assert driver.create_output_topic("out").read_values_to_list() == [7, None]
