"""Scheduled sources in the test driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import (
    Consumed,
    KStream,
    Record,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.calls import AsyncOptions
from mustela.kernel.core.failures import ProcessingError
from mustela.processors import CatchUp, ContextualProcessor, Tick
from mustela.stores import StoreBuilder
from mustela.testing.faults import TestDriverError
from mustela.windows import WatermarkStrategy

MINUTE = timedelta(minutes=1)
MINUTE_MS = 60_000
WATERMARK = {"event_time": "watermark"}
WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "crashes": {"crash_after_every_record": True},
    "lanes": {"key_groups": 8, "lanes": 3},
    "both": {"key_groups": 8, "lanes": 3, "crash_after_every_record": True},
    "watermark": {"settings": WATERMARK, "key_groups": 8, "lanes": 3},
    "every": {"settings": {"emit": "every"}},
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def number(tick: Tick) -> list[tuple[str, int]]:
    return [(tick.name, tick.number)]


def beat(function: Callable[[Tick], Any] = number, **options: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    options = {"every": MINUTE, **options} if "cron" not in options else options
    builder.scheduled("beat", function, key=str, value=int, **options).to("beats")
    return builder


def rows(driver: TopologyTestDriver) -> list[tuple[int, int]]:
    """Return (number, timestamp) of the beats that are new."""
    records = driver.create_output_topic("beats").read_records_to_list()
    return [(record.value, record.timestamp) for record in records]


@ways
def test_a_source_ticks_at_the_multiples_of_its_interval(way: dict[str, Any]) -> None:
    """The first tick lies behind the first start, and not at it."""
    with TopologyTestDriver(beat(), initial_wall_clock=90_000, **way) as driver:
        assert rows(driver) == []
        driver.advance_wall_clock_time(29_999)
        assert rows(driver) == []
        driver.advance_wall_clock_time(1)
        assert rows(driver) == [(1, 120_000)]
        driver.advance_wall_clock_time(3 * MINUTE)
        assert rows(driver) == [(2, 180_000), (3, 240_000), (4, 300_000)]


def test_a_source_that_begins_at_a_tick_waits_for_the_next() -> None:
    """The moment of the first start belongs to the time before."""
    with TopologyTestDriver(beat(), initial_wall_clock=MINUTE_MS) as driver:
        driver.advance_wall_clock_time(MINUTE - timedelta(milliseconds=1))
        assert rows(driver) == []
        driver.advance_wall_clock_time(1)
        assert rows(driver) == [(1, 120_000)]


@ways
def test_what_ticks_becomes_travels_by_key(way: dict[str, Any]) -> None:
    """A scheduled stream is counted like any other."""
    builder = StreamsBuilder()
    keys = builder.scheduled(
        "keys", lambda tick: [(f"k{tick.number % 3}", 1)], every=MINUTE, key=str, value=int
    )
    keys.group_by_key().count(store="counts")
    with TopologyTestDriver(builder, initial_wall_clock=0, **way) as driver:
        driver.advance_wall_clock_time(timedelta(minutes=10))
        assert dict(driver.get_key_value_store("counts").all()) == {"k0": 3, "k1": 4, "k2": 3}


@ways
def test_more_ticks_than_an_epoch_may_have_follow_in_the_next(way: dict[str, Any]) -> None:
    """Each epoch is bounded; nothing is lost, and the driver comes to the end of it."""
    builder = beat(catch_up=CatchUp.all(ticks_max=3))
    with TopologyTestDriver(builder, initial_wall_clock=0, **way) as driver:
        driver.advance_wall_clock_time(timedelta(minutes=10))
        assert rows(driver) == [(n, n * MINUTE_MS) for n in range(1, 11)]


@ways
@pytest.mark.parametrize(
    ("catch_up", "late", "wanted"),
    [
        ("all", 30_000, [(n, n * MINUTE_MS) for n in range(1, 11)]),
        ("last", 30_000, [(1, 10 * MINUTE_MS)]),
        ("none", 30_000, [(1, 10 * MINUTE_MS)]),
        (CatchUp.none(tolerance=timedelta(seconds=29)), 30_000, []),
        (CatchUp.none(tolerance=timedelta(seconds=30)), 30_000, [(1, 10 * MINUTE_MS)]),
    ],
)
def test_missed_ticks_meet_the_policy(
    catch_up: Any, late: int, wanted: list[tuple[int, int]], way: dict[str, Any]
) -> None:
    """A leap of the clock is an application that was down."""
    builder = beat(catch_up=catch_up)
    with TopologyTestDriver(builder, initial_wall_clock=0, **way) as driver:
        driver.crash()
        driver.advance_wall_clock_time(10 * MINUTE_MS + late)
        assert rows(driver) == wanted
        driver.advance_wall_clock_time(MINUTE_MS - late)
        assert rows(driver) == [(len(wanted) + 1, 11 * MINUTE_MS)]


@ways
def test_a_cron_expression_follows_its_time_zone(way: dict[str, Any]) -> None:
    """Six in the morning is at another moment in summer; the tick tells the zone's time."""
    told: list[str] = []

    def report(tick: Tick) -> Iterator[tuple[str, str]]:
        yield "at", tick.time.isoformat()

    builder = StreamsBuilder()
    reports = builder.scheduled("report", report, cron="0 6 * * *", time_zone="Europe/Berlin")
    reports.to("reports", key=str, value=str)
    begin = datetime(2024, 3, 29, 12, tzinfo=UTC)
    with TopologyTestDriver(builder, initial_wall_clock=begin, **way) as driver:
        for _ in range(3):
            driver.advance_wall_clock_time(timedelta(days=1))
        told = [
            value for _, value in driver.create_output_topic("reports").read_key_values_to_list()
        ]
    assert told == [
        "2024-03-30T06:00:00+01:00",
        "2024-03-31T06:00:00+02:00",
        "2024-04-01T06:00:00+02:00",
    ]


@ways
def test_a_source_ticks_when_a_test_says_so(way: dict[str, Any]) -> None:
    """The schedule goes on as if nothing had been."""
    with TopologyTestDriver(beat(), initial_wall_clock=0, **way) as driver:
        driver.advance_wall_clock_time(30_000)
        driver.trigger_scheduled_source("beat")
        assert rows(driver) == [(1, 30_000)]
        driver.trigger_scheduled_source("beat")
        driver.advance_wall_clock_time(30_000)
        assert rows(driver) == [(2, 30_000), (3, 60_000)]
        with pytest.raises(TestDriverError, match="'pulse'"):
            driver.trigger_scheduled_source("pulse")


def test_records_may_have_a_time_and_headers_of_their_own() -> None:
    """A pair has the tick's time; nothing at all is an answer too."""

    def several(tick: Tick) -> list[Any] | None:
        if tick.number == 2:
            return None
        own: Record[str, int] = Record(key="b", value=2, timestamp=5, headers=(("h", b"x"),))
        return [("a", 1), own]

    with TopologyTestDriver(beat(several), initial_wall_clock=0) as driver:
        driver.advance_wall_clock_time(2 * MINUTE)
        found = driver.create_output_topic("beats").read_records_to_list()
    assert [(r.key, r.value, r.timestamp, tuple(r.headers)) for r in found] == [
        ("a", 1, MINUTE_MS, ()),
        ("b", 2, 5, (("h", b"x"),)),
    ]


def fails_twice(tick: Tick) -> list[tuple[str, int]]:
    if tick.number < 3:
        msg = f"not yet: {tick.number}"
        raise ValueError(msg)
    return [("a", tick.number)]


def test_a_function_that_raises_ends_the_epoch() -> None:
    """The error names the step, the tick and the line; the tick comes again."""
    with TopologyTestDriver(beat(fails_twice), initial_wall_clock=0) as driver:
        for _ in range(2):
            with pytest.raises(ProcessingError, match=r"tick of a schedule \(every 1m\)") as caught:
                driver.advance_wall_clock_time(MINUTE)
            assert caught.value.fields["step"] == "beat"
            assert caught.value.fields["timestamp"] == MINUTE_MS
            assert caught.value.fields["line"].file == __file__
        assert rows(driver) == []


@pytest.mark.parametrize("handler", ["continue", "dead_letter"])
def test_a_tick_that_fails_meets_the_handler(handler: str) -> None:
    """It counts as handled, and the next one is not held up."""
    settings = {"processing_handler": handler}
    with TopologyTestDriver(beat(fails_twice), initial_wall_clock=0, settings=settings) as driver:
        driver.advance_wall_clock_time(3 * MINUTE)
        assert rows(driver) == [(3, 3 * MINUTE_MS)]
        assert driver.metrics["failed_records:beat"] == 2
        letters = driver.create_output_topic("test-dead-letters", key=str).read_records_to_list()
    assert [letter.key for letter in letters] == (["beat"] * 2 if handler == "dead_letter" else [])


@pytest.mark.parametrize("wrong", [5, "text", ["text"], [("a", 1, 2)], [None]])
def test_what_is_neither_a_pair_nor_a_record_is_refused(wrong: Any) -> None:
    """The whole tick fails: none of its records goes on."""
    with TopologyTestDriver(beat(lambda _tick: wrong), initial_wall_clock=0) as driver:
        with pytest.raises(ProcessingError):
            driver.advance_wall_clock_time(MINUTE)
        assert rows(driver) == []


def test_a_schedule_that_changed_goes_on_behind_the_last_tick() -> None:
    """What is kept is the last tick's time, and not its place in the schedule."""
    with TopologyTestDriver(beat(cron="0 * * * *"), initial_wall_clock=0) as driver:
        driver.advance_wall_clock_time(timedelta(hours=2))
        assert rows(driver) == [(1, 3_600_000), (2, 7_200_000)]
        log = driver._cluster.changelogs  # pyright: ignore[reportPrivateUsage]
        assert {store for store, _ in log} == {"beat-schedule"}


def test_a_schedule_neither_holds_nor_pushes_the_watermark() -> None:
    """Its ticks follow the wall clock, and say nothing of the records of topics."""
    builder = beat()
    builder.stream("words", key=str, value=str).to("copies")
    with TopologyTestDriver(
        builder, initial_wall_clock=10 * MINUTE_MS, settings=WATERMARK
    ) as driver:
        driver.create_input_topic("words").pipe_input("a", "x", timestamp=1_000)
        assert driver.watermark == 1_000
        driver.advance_wall_clock_time(timedelta(seconds=30))
        driver.advance_wall_clock_time(timedelta(minutes=10))
        assert len(rows(driver)) == 10
        assert driver.watermark == 1_000
        driver.create_input_topic("words").pipe_input("a", "x", timestamp=2_000_000)
        assert driver.watermark == 2_000_000


@pytest.mark.parametrize("silent", [False, True], ids=["alone", "beside a silent topic"])
@pytest.mark.parametrize("crashes", [False, True])
def test_where_no_topic_has_a_say_event_time_is_the_clock(silent: bool, crashes: bool) -> None:
    """Windows over a scheduled stream close, and no tick that is caught up on is late for one."""
    builder = StreamsBuilder()
    if silent:
        consumed: Consumed[str, str] = Consumed(
            key=str, value=str, watermark=WatermarkStrategy.none()
        )
        builder.stream("words", consumed=consumed).to("copies")
    ticks = builder.scheduled(
        "beat",
        number,
        every=MINUTE,
        catch_up=CatchUp.all(ticks_max=2),
        key=str,
        value=int,
    )
    fives = TimeWindows(size=timedelta(minutes=5), grace=timedelta(0))
    counts = ticks.group_by_key().windowed_by(fives).count(store="fives")
    counts.to_stream().map(lambda window, count: (window.start, count)).to(
        "counts", key=int, value=int
    )
    with TopologyTestDriver(
        builder,
        initial_wall_clock=0,
        settings=WATERMARK,
        key_groups=4,
        crash_after_every_record=crashes,
    ) as driver:
        driver.advance_wall_clock_time(timedelta(minutes=21))
        found = driver.create_output_topic("counts").read_key_values_to_map()
        assert found == {0: 4, 300_000: 5, 600_000: 5, 900_000: 5, 1_200_000: 2}
        assert not [name for name in driver.metrics if "late" in name]
        driver.advance_wall_clock_time(1)
        if not crashes:
            assert driver.watermark == 21 * MINUTE_MS + 1


def test_two_sources_of_one_key_group_keep_apart() -> None:
    """Each has a store of its own, and ticks by its own schedule."""
    builder = beat()
    builder.scheduled("pulse", number, every=timedelta(seconds=90), key=str, value=int).to("pulses")
    with TopologyTestDriver(builder, initial_wall_clock=0) as driver:
        driver.advance_wall_clock_time(timedelta(minutes=3))
        assert rows(driver) == [(1, 60_000), (2, 120_000), (3, 180_000)]
        pulses = driver.create_output_topic("pulses").read_key_values_to_list()
        assert pulses == [("pulse", 1), ("pulse", 2)]


def letters(tick: Tick) -> list[tuple[str, int]]:
    return [("a", tick.number), ("b", tick.number)]


class Summing(ContextualProcessor[str, int, str, int]):
    """Add the values of a key."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        sums = Stores.persistent_key_value_store("sums")
        return [Stores.key_value_store_builder(sums, key=str, value=int)]

    def process(self, record: Record[str, int]) -> None:
        sums = self.context.state_store("sums")
        sums.put(record.key, (sums.get(record.key) or 0) + record.value)
        self.context.forward(record.with_value(sums.get(record.key)))


def joined(builder: StreamsBuilder, ticks: KStream[str, int]) -> None:
    names = builder.table("names", key=str, value=int, store="names")
    ticks.join(names, int.__add__, name="named").to("out", key=str, value=int)


def joined_globally(builder: StreamsBuilder, ticks: KStream[str, int]) -> None:
    names = builder.global_table("names", key=str, value=int, store="names")
    keyed = ticks.join(
        names, int.__add__, foreign_key_with_key=lambda key, _value: key, name="named"
    )
    keyed.to("out", key=str, value=int)


def merged(builder: StreamsBuilder, ticks: KStream[str, int]) -> None:
    names = builder.stream("names", key=str, value=int)
    sums = names.merge(ticks, name="all").group_by_key().reduce(int.__add__, store="sums")
    sums.to_stream(name="told").to("out", key=str, value=int)


def processed(builder: StreamsBuilder, ticks: KStream[str, int]) -> None:
    builder.stream("names", key=str, value=int).to("copies")
    ticks.process(Summing, name="summing").to("out", key=str, value=int)


@ways
@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (joined, [("a", 101), ("b", 201), ("a", 102), ("b", 202)]),
        (joined_globally, [("a", 101), ("b", 201), ("a", 102), ("b", 202)]),
        (merged, [("a", 100), ("b", 200), ("a", 101), ("b", 201), ("a", 103), ("b", 203)]),
        (processed, [("a", 1), ("b", 1), ("a", 3), ("b", 3)]),
    ],
)
def test_a_scheduled_stream_goes_on_like_any_other(
    build: Callable[[StreamsBuilder, KStream[str, int]], None],
    wanted: list[tuple[str, int]],
    way: dict[str, Any],
) -> None:
    """It meets tables, streams and processors in the lanes of its keys."""
    builder = StreamsBuilder()
    build(builder, builder.scheduled("beat", letters, every=MINUTE, key=str, value=int))
    with TopologyTestDriver(builder, initial_wall_clock=0, **way) as driver:
        for key, value in [("a", 100), ("b", 200)]:
            driver.create_input_topic("names").pipe_input(key, value, timestamp=0)
        for _ in range(2):
            driver.advance_wall_clock_time(MINUTE)
        assert driver.create_output_topic("out").read_key_values_to_list() == wanted


@pytest.mark.parametrize("crashes", [False, True])
def test_ticks_go_on_while_calls_to_the_outside_are_parked(crashes: bool) -> None:
    """A call that waits wants to run all the time, and is no tick that is left."""
    patient = AsyncOptions(timeout=timedelta(hours=1))
    builder = StreamsBuilder()
    builder.stream("words", key=str, value=int).map_values_async(abs, patient, name="near").to(
        "near", key=str, value=int
    )
    ticks = builder.scheduled(
        "beat", number, every=MINUTE, catch_up=CatchUp.all(ticks_max=2), key=str, value=int
    )
    ticks.map_values_async(abs, patient, name="far").to("beats", key=str, value=int)
    with TopologyTestDriver(
        builder, initial_wall_clock=0, hold_calls=True, crash_after_every_record=crashes
    ) as driver:
        driver.create_input_topic("words").pipe_input("a", -7)
        driver.advance_wall_clock_time(timedelta(minutes=5))
        for _ in range(6):
            driver.complete_calls()
        assert rows(driver) == [(n, n * MINUTE_MS) for n in range(1, 6)]
        assert driver.create_output_topic("near").read_key_values_to_list() == [("a", 7)]


STEPS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 200_000)),
    st.tuples(st.just("crash"), st.booleans()),
    st.tuples(st.just("pipe"), st.integers(0, 3)),
    st.tuples(st.just("trigger"), st.just(0)),
)


@given(
    steps=st.lists(STEPS, max_size=12),
    catch_up=st.sampled_from([CatchUp.all(), CatchUp.all(ticks_max=1), CatchUp.last()]),
    groups=st.sampled_from([1, 8]),
    crashes=st.booleans(),
    event_time=st.sampled_from(["watermark", "stream-time"]),
)
def test_each_tick_counts_once_over_any_crashes(
    steps: list[tuple[str, int]], catch_up: CatchUp, groups: int, crashes: bool, event_time: str
) -> None:
    """Whatever dies, whatever is lost, whatever else goes on: the model is a loop over time."""
    builder = beat(catch_up=catch_up)
    builder.stream("words", key=str, value=str).group_by_key().count(store="words")
    clock, tick = 0, 0
    wanted: list[tuple[int, int]] = []
    with TopologyTestDriver(
        builder,
        initial_wall_clock=0,
        settings={"event_time": event_time},
        key_groups=groups,
        lanes=3,
        crash_after_every_record=crashes,
    ) as driver:
        for step, amount in steps:
            before = clock // MINUTE_MS
            match step:
                case "wait":
                    driver.advance_wall_clock_time(amount)
                    clock += amount
                    due = list(range(before + 1, clock // MINUTE_MS + 1))
                    for minute in due[-1:] if catch_up.kind == "last" else due:
                        tick += 1
                        wanted.append((tick, minute * MINUTE_MS))
                case "crash":
                    driver.crash(lose_state=bool(amount))
                case "trigger":
                    driver.trigger_scheduled_source("beat")
                    tick += 1
                    wanted.append((tick, clock))
                case _:
                    driver.create_input_topic("words").pipe_input(f"w{amount}", "x")
        assert rows(driver) == wanted
