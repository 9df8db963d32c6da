"""Punctuators, as users see them: when they are called, with what, and what survives a crash."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import Processor, Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.errors import MustelaError
from mustela.processors import ContextualProcessor, PunctuationType

WATERMARK = {"event_time": "watermark"}
STREAM = {"event_time": "stream-time"}
STREAM_TIME, WALL_CLOCK = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


def milliseconds(count: int) -> timedelta:
    return timedelta(milliseconds=count)


class Punctual(ContextualProcessor[str, str, str, int]):
    """Forwards when it is called, by which time, and how many records came before."""

    kinds: Any = ((STREAM_TIME, 10), (WALL_CLOCK, 10))

    @staticmethod
    def stores() -> list[Any]:
        seen = Stores.persistent_key_value_store("seen")
        return [Stores.key_value_store_builder(seen, key=str, value=int)]

    def init(self, context: Any) -> None:
        super().init(context)
        self.seen = context.state_store("seen")
        for kind, interval in self.kinds:
            context.schedule(milliseconds(interval), kind, self.caller(kind))

    def caller(self, kind: PunctuationType) -> Any:
        def call(now: int) -> None:
            assert self.context.record_metadata() is None
            self.context.forward(Record(kind.value, self.seen.get("all", 0), now))

        return call

    def process(self, record: Record[str, str]) -> None:
        self.seen.put("all", self.seen.get("all", 0) + 1)


class StreamPunctual(Punctual):
    """By stream time alone."""

    kinds = ((STREAM_TIME, 10),)


class WallPunctual(Punctual):
    """By the clock alone."""

    kinds = ((WALL_CLOCK, 10),)


class World:
    """A driver over one step.

    Args:
        processor: The step's class.
        options: Of the driver.
    """

    def __init__(self, processor: Any = Punctual, **options: Any) -> None:
        options.setdefault("initial_wall_clock", 0)
        builder = StreamsBuilder()
        records = builder.stream("in", key=str, value=str)
        records.process(processor, name="step").to("called", key=str, value=int)
        self.driver = TopologyTestDriver(builder, **options)
        self.input = self.driver.create_input_topic("in")
        self.output = self.driver.create_output_topic("called")

    def send(self, at: int, key: str | None = "k") -> None:
        self.input.pipe_input(key, "-", timestamp=at)

    def called(self) -> list[tuple[int, int]]:
        rows = self.output.read_records_to_list()
        return [(row.timestamp, row.value) for row in rows]


def test_stream_time_punctuators_are_called_as_by_kafka_streams():
    """Behind the first record, then behind the first at or past each tick, with its time."""
    world = World(StreamPunctual, settings=STREAM)
    for at in (3, 9, 10, 11, 45, 49, 50):
        world.send(at)
    assert world.called() == [(3, 1), (10, 3), (45, 5), (50, 7)]
    world.driver.advance_wall_clock_time(1_000)
    assert world.called() == []


def test_wall_clock_punctuators_are_called_as_by_kafka_streams():
    """First after the interval; ticks that were missed are skipped. No record ever came."""
    world = World(WallPunctual, initial_wall_clock=1_000)
    world.driver.advance_wall_clock_time(9)
    assert world.called() == []
    world.driver.advance_wall_clock_time(1)
    assert world.called() == [(1_010, 0)]
    world.driver.advance_wall_clock_time(35)
    assert world.called() == [(1_045, 0)]
    world.driver.advance_wall_clock_time(4)
    assert world.called() == []
    world.driver.advance_wall_clock_time(1)
    assert world.called() == [(1_050, 0)]


def test_records_within_an_epoch_do_not_hide_ticks_of_stream_time():
    """The punctuator is called between the records of one epoch as between those of many."""
    world = World(StreamPunctual, settings=STREAM)
    with world.driver.epoch():
        for at in (3, 9, 10, 11, 45, 49, 50):
            world.send(at)
    assert world.called() == [(3, 1), (10, 3), (45, 5), (50, 7)]


def test_by_watermark_stream_time_is_the_watermark():
    """Punctuators are called behind the records of an epoch, and also when no record comes."""
    world = World(StreamPunctual, settings=WATERMARK)
    with world.driver.epoch():
        for at in (3, 9, 10, 11):
            world.send(at)
    assert world.called() == [(11, 4)]
    world.driver.advance_watermark(19)
    assert world.called() == []
    world.driver.advance_watermark(57)
    world.driver.advance_watermark(59)
    world.driver.advance_watermark(60)
    assert world.called() == [(57, 4), (60, 4)]


def test_each_key_group_has_schedules_of_its_own():
    """As each task of Kafka Streams has: with eight of them there are eight calls."""
    world = World(WallPunctual, key_groups=8, lanes=3)
    world.driver.advance_wall_clock_time(10)
    assert world.called() == [(10, 0)] * 8


class Cancelling(ContextualProcessor[str, str, str, int]):
    """Its schedule ends with the second call."""

    @staticmethod
    def stores() -> list[Any]:
        calls = Stores.persistent_key_value_store("calls")
        return [Stores.key_value_store_builder(calls, key=str, value=int)]

    def init(self, context: Any) -> None:
        super().init(context)
        self.schedule = context.schedule(milliseconds(10), WALL_CLOCK, self.call)

    def process(self, record: Record[str, str]) -> None:
        if record.key == "stop":
            self.schedule.cancel()

    def call(self, now: int) -> None:
        calls = self.context.state_store("calls")
        calls.put("", calls.get("", 0) + 1)
        self.context.forward(Record("called", calls[""], now))
        if calls[""] == 2:
            self.schedule.cancel()


@pytest.mark.parametrize("crashes", [False, True])
def test_a_schedule_can_be_cancelled_from_inside_and_stays_so(crashes: bool):
    """Also over crashes, though the processor is made anew and schedules again."""
    world = World(Cancelling, crash_after_every_record=crashes)
    for _ in range(5):
        world.driver.advance_wall_clock_time(10)
    world.driver.crash()
    world.driver.advance_wall_clock_time(10)
    assert world.called() == [(10, 1), (20, 2)]


def test_a_record_can_cancel_a_schedule():
    """The handle that init got stays good for the life of the processor."""
    world = World(Cancelling)
    world.driver.advance_wall_clock_time(10)
    world.send(0, "stop")
    world.driver.advance_wall_clock_time(50)
    assert world.called() == [(10, 1)]


def test_a_schedule_goes_on_where_it_stood_when_the_application_comes_back():
    """A tick that was due while it was away is made up for at once, and only once."""
    world = World(WallPunctual)
    world.driver.advance_wall_clock_time(10)
    world.driver.crash(lose_state=True)
    world.driver.advance_wall_clock_time(5)
    assert world.called() == [(10, 0)]
    world.driver.crash()
    world.driver.advance_wall_clock_time(27)
    assert world.called() == [(42, 0)]
    world.driver.advance_wall_clock_time(8)
    assert world.called() == [(50, 0)]


class Anchored(Punctual):
    """Says where ticks begin."""

    start: Any = 1_003

    def init(self, context: Any) -> None:
        ContextualProcessor.init(self, context)
        self.seen = context.state_store("seen")
        for kind in (WALL_CLOCK, STREAM_TIME):
            call = self.caller(kind)
            context.schedule(milliseconds(10), kind, call, start=self.start)


@pytest.mark.parametrize(("begin", "first"), [(1_000, 1_003), (1_003, 1_003), (1_025, 1_033)])
def test_a_schedule_may_say_where_its_ticks_begin(begin: int, first: int) -> None:
    """By the clock the first tick is the first that has not passed; restarts change nothing."""
    world = World(Anchored, initial_wall_clock=begin, settings=STREAM)
    world.driver.advance_wall_clock_time(first - begin)
    world.driver.crash(lose_state=True)
    world.driver.advance_wall_clock_time(9)
    world.driver.advance_wall_clock_time(1)
    assert world.called() == [(first, 0), (first + 10, 0)]


def test_ticks_of_stream_time_may_begin_anywhere() -> None:
    """The first call comes behind the first record at or past the start."""
    world = World(Anchored, initial_wall_clock=0, settings=STREAM)
    for at in (990, 1_002, 1_003, 1_012, 1_013, 1_040, 1_042, 1_043):
        world.send(at)
    assert [time for time, _ in world.called()] == [1_003, 1_013, 1_040, 1_043]


def test_another_start_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that moves its ticks is heard behind a restart."""
    world = World(Anchored, initial_wall_clock=1_000, settings=STREAM)
    world.driver.advance_wall_clock_time(3)
    monkeypatch.setattr(Anchored, "start", 1_008)
    world.driver.crash()
    world.driver.advance_wall_clock_time(5)
    assert [time for time, _ in world.called()] == [1_003, 1_008]


class Later(Processor[str, str, str, int]):
    """Schedules in process."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        self.context.schedule(milliseconds(10), WALL_CLOCK, print)


def test_schedules_are_made_in_init():
    """The error says so, and what to do instead."""
    with pytest.raises(MustelaError, match="schedule was called after init") as error:
        World(Later).send(5)
    assert "register a timer" in str(error.value)


class Hidden(Processor[str, str, str, int]):
    """Schedules where nobody sees it."""

    def init(self, context: Any) -> None:
        getattr(context, "sched" + "ule")(milliseconds(10), WALL_CLOCK, lambda now: None)

    def process(self, record: Record[str, str]) -> None:
        pass


def test_a_class_can_say_that_it_punctuates():
    """Where it cannot be seen; else the error says how."""
    with pytest.raises(MustelaError, match="keeps no timers") as error:
        World(Hidden).send(5)
    assert "punctuates = True" in str(error.value)

    class Told(Hidden):
        punctuates = True

    World(Told).send(5)


@pytest.mark.parametrize("interval", [milliseconds(0), timedelta(microseconds=999), 10, None])
def test_an_interval_is_a_timedelta_of_a_millisecond_or_more(interval: Any):
    """Else the topology does not start."""

    class Wrong(ContextualProcessor[str, str, str, int]):
        def init(self, context: Any) -> None:
            context.schedule(interval, WALL_CLOCK, print)

        def process(self, record: Record[str, str]) -> None:
            pass

    with pytest.raises(MustelaError, match="interval"):
        World(Wrong)


def test_a_punctuator_that_fails_meets_the_handler_and_is_called_again():
    """At its next tick, as in Kafka Streams with a handler that goes on."""

    class Failing(WallPunctual):
        def caller(self, kind: PunctuationType) -> Any:
            call = super().caller(kind)

            def fail(now: int) -> None:
                if now == 10:
                    raise ValueError(now)
                call(now)

            return fail

    world = World(Failing)
    with pytest.raises(MustelaError, match="failed on a punctuator: ValueError: 10"):
        world.driver.advance_wall_clock_time(10)
    world = World(Failing, settings={**STREAM, "processing_handler": "continue"})
    world.driver.advance_wall_clock_time(10)
    world.driver.advance_wall_clock_time(10)
    assert world.called() == [(20, 0)]
    assert world.driver.metrics["failed_records:step"] == 1


def next_tick(tick: int, interval: int, now: int) -> int:
    """Tell the tick behind a time, as Kafka Streams does."""
    return tick + ((now - tick) // interval + 1) * interval


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.lists(st.integers(0, 100), min_size=1, max_size=3)),
            st.tuples(st.just("clock"), st.integers(0, 35)),
            st.tuples(st.just("crash"), st.booleans()),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_each_tick_is_called_for_once_over_any_crash_pattern(steps, crashes):
    """By both times, with what the state was then."""
    world = World(settings=STREAM, crash_after_every_record=crashes)
    expected: list[tuple[int, int]] = []
    seen, wall, ticks, stream = 0, 0, {STREAM_TIME: 0, WALL_CLOCK: 10}, -1

    def punctuate(kind: PunctuationType, now: int) -> None:
        if ticks[kind] <= now:
            expected.append((now, seen))
            ticks[kind] = next_tick(ticks[kind], 10, now)

    for step in steps:
        match step:
            case ("send", times):
                with world.driver.epoch():
                    for at in times:
                        world.send(at)
                for at in times:
                    seen, stream = seen + 1, max(stream, at)
                    punctuate(STREAM_TIME, stream)
            case ("clock", span):
                world.driver.advance_wall_clock_time(span)
                wall += span
                punctuate(WALL_CLOCK, wall)
            case (_, lose):
                world.driver.crash(lose_state=lose)
    assert world.called() == expected
