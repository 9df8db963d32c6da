"""Timers of processors, as users see them: which fire, when, how often and with what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mustela import Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import FunctionError
from mustela.api.timers import TimerError, TimerKeyError
from mustela.errors import MustelaError
from mustela.plan.keygroups import key_groups_of
from mustela.processors import (
    ContextualFixedKeyProcessor,
    ContextualProcessor,
    TimeDomain,
    Timer,
)

WATERMARK = {"event_time": "watermark"}
STREAM = {"event_time": "stream-time"}
BOTH = pytest.mark.parametrize("settings", [WATERMARK, STREAM], ids=["watermark", "stream-time"])


class Commanded(ContextualProcessor[str, str, str, str]):
    """Does what the values say: ``event name at``, ``clock name in``, ``delete name``, ``-``.

    Times by the clock count from now. A timer forwards its name and how often its key was counted,
    which it counts itself: so it reads and writes the state of its key.
    """

    @staticmethod
    def stores() -> list[Any]:
        counts = Stores.persistent_key_value_store("counts")
        return [Stores.key_value_store_builder(counts, key=str, value=int)]

    def process(self, record: Record[str, str]) -> None:
        self.obey(record.value)

    def obey(self, value: str) -> None:
        match value.split():
            case ["event", name, at]:
                self.context.register_event_time_timer(int(at), name=name)
            case ["clock", name, span]:
                now = self.context.current_processing_time()
                self.context.register_processing_time_timer(now + int(span), name=name)
            case ["delete", name]:
                self.context.delete_timer(name=name)
            case _:
                pass

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        counts = context.state_store("counts")
        counts.put(timer.key, counts.get(timer.key, 0) + 1)
        context.forward(timer.with_value(f"{timer.domain.value} {timer.name} {counts[timer.key]}"))


def topology(processor: Any = Commanded) -> StreamsBuilder:
    builder = StreamsBuilder()
    commands = builder.stream("commands", key=str, value=str)
    commands.process(processor, name="step").to("fired", key=str, value=str)
    return builder


class World:
    """A driver over the topology.

    Args:
        processor: The step's class.
        options: Of the driver.
    """

    def __init__(self, processor: Any = Commanded, **options: Any) -> None:
        options.setdefault("initial_wall_clock", 0)
        self.driver = TopologyTestDriver(topology(processor), **options)
        self.input = self.driver.create_input_topic("commands")
        self.output = self.driver.create_output_topic("fired")

    def send(self, key: str | None, value: str, at: int = 0) -> None:
        self.input.pipe_input(key, value, timestamp=at)

    def fired(self) -> list[tuple[Any, Any, int]]:
        rows = self.output.read_records_to_list()
        return [(row.key, row.value, row.timestamp) for row in rows]


def test_a_timer_by_event_time_fires_when_the_watermark_comes_there():
    """Also though no record comes; its record has the timer's key and time."""
    world = World(settings=WATERMARK)
    world.send("ann", "event t 100", 5)
    world.driver.advance_watermark(99)
    assert world.fired() == []
    world.driver.advance_watermark(250)
    assert world.fired() == [("ann", "event-time t 1", 100)]
    world.driver.advance_watermark(1_000)
    assert world.fired() == []


def test_a_timer_by_stream_time_fires_behind_the_record_that_brings_the_time():
    """Of its own key group's records, as a task of Kafka Streams has its own stream time."""
    world = World(settings=STREAM)
    world.send("ann", "event t 100", 5)
    world.send("bob", "-", 99)
    assert world.fired() == []
    world.send("bob", "-", 130)
    assert world.fired() == [("ann", "event-time t 1", 100)]


@BOTH
def test_a_timer_by_the_clock_fires_when_the_clock_comes_there(settings: Any):
    """Once, also though no record comes."""
    world = World(settings=settings, initial_wall_clock=1_000)
    world.send("ann", "clock t 50")
    world.driver.advance_wall_clock_time(49)
    assert world.fired() == []
    world.driver.advance_wall_clock_time(timedelta(milliseconds=1))
    assert world.fired() == [("ann", "processing-time t 1", 1_050)]
    world.driver.advance_wall_clock_time(1_000)
    assert world.fired() == []


@BOTH
def test_timers_fire_in_order_of_time_whichever_key_they_belong_to(settings: Any):
    """Those of one time by key, then by name."""
    world = World(settings=settings, key_groups=8, lanes=1)
    with world.driver.epoch():
        for key, name, span in [("b", "y", 30), ("a", "x", 40), ("c", "z", 10), ("b", "x", 30)]:
            world.send(key, f"clock {name} {span}")
    world.driver.advance_wall_clock_time(100)
    assert [(key, time) for key, _, time in world.fired()] == [
        ("c", 10),
        ("b", 30),
        ("b", 30),
        ("a", 40),
    ]


@BOTH
def test_a_timer_registered_again_is_moved_and_a_deleted_one_does_not_fire(settings: Any):
    """Timers of other names and of the other kind of time stay."""
    world = World(settings=settings)
    world.send("ann", "event t 10")
    world.send("ann", "event u 20")
    world.send("ann", "clock t 20")
    world.send("ann", "event t 30")
    world.send("ann", "event gone 15")
    world.send("ann", "delete gone")
    world.send("ann", "-", 40)
    assert [value for _, value, _ in world.fired()] == ["event-time u 1", "event-time t 2"]
    world.driver.advance_wall_clock_time(20)
    assert [value for _, value, _ in world.fired()] == ["processing-time t 3"]


def test_by_stream_time_it_does_not_matter_how_records_are_cut_into_epochs():
    """What is due fires between two records of one epoch as between two of two."""
    records = [
        ("a", "event t 10", 0),
        ("a", "event u 30", 12),
        ("a", "-", 35),
        ("b", "event t 2", 9),
    ]
    one_by_one, at_once = World(settings=STREAM), World(settings=STREAM)
    for record in records:
        one_by_one.send(*record)
    with at_once.driver.epoch():
        for record in records:
            at_once.send(*record)
    expected = [
        ("a", "event-time t 1", 10),
        ("a", "event-time u 2", 30),
        ("b", "event-time t 1", 2),
    ]
    assert one_by_one.fired() == expected
    assert at_once.fired() == expected


def test_by_watermark_the_records_of_an_epoch_come_first():
    """Then what is due fires: a timer that one of them moved has not fired before."""
    world = World(settings=WATERMARK)
    with world.driver.epoch():
        world.send("a", "event t 10", 0)
        world.send("a", "event t 30", 12)
        world.send("b", "-", 20)
    assert world.fired() == []
    world.send("b", "-", 30)
    assert world.fired() == [("a", "event-time t 1", 30)]


class Ticking(ContextualProcessor[str, str, str, str]):
    """Sets a timer for the time that the record names, and another from each timer."""

    def process(self, record: Record[str, str]) -> None:
        self.context.register_event_time_timer(record.timestamp + 10)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        context.forward(timer.with_value(str(context.current_watermark())))
        context.register_event_time_timer(timer.timestamp + 10)


@BOTH
def test_a_timer_that_is_registered_while_another_fires_and_is_due_fires_too(settings: Any):
    """So that one that goes on from time to time skips nothing."""
    world = World(Ticking, settings=settings)
    world.send("a", "-", 0)
    world.send("b", "-", 35)
    assert world.fired() == [("a", "35", 10), ("a", "35", 20), ("a", "35", 30)]


class Endless(ContextualProcessor[str, str, str, str]):
    """Its timer sets itself for the same time, again and again."""

    def process(self, record: Record[str, str]) -> None:
        self.context.register_event_time_timer(record.timestamp)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        context.register_event_time_timer(timer.timestamp)


def test_a_timer_that_sets_itself_for_ever_is_an_error_that_names_the_step():
    """And not a driver that hangs."""
    world = World(Endless)
    with pytest.raises(MustelaError, match="timers have fired in a row") as error:
        world.send("a", "-", 5)
    assert "'step'" in str(error.value)


class Elsewhere(ContextualProcessor[str, str, str, str]):
    """Sets a timer for the key that the value names."""

    def process(self, record: Record[str, str]) -> None:
        self.context.register_event_time_timer(record.timestamp, key=record.value or None)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        context.forward(timer.with_value("fired"))


def test_a_timer_may_be_set_for_another_key_of_the_key_group():
    """There its state is at hand."""
    world = World(Elsewhere)
    world.send("a", "b", 5)
    assert world.fired() == [("b", "fired", 5)]


def test_a_timer_for_a_key_of_another_key_group_is_an_error():
    """It says which group has the key, and what to do."""
    world = World(Elsewhere, key_groups=8)
    groups = key_groups_of([key.encode() for key in "abcdefgh"], 8)
    other = next(key for key, group in zip("abcdefgh", groups, strict=True) if group != groups[0])
    with pytest.raises(MustelaError, match="whose state is in another key group") as error:
        world.send("a", other, 5)
    assert isinstance(error.value.__cause__, TimerKeyError)
    assert set(error.value.__cause__.evidence) == {"its key group", "this key group"}


def test_a_timer_needs_a_key():
    """A record without one has none to give."""
    world = World(Elsewhere)
    with pytest.raises(MustelaError, match="without a key"):
        world.send(None, "", 5)


@pytest.mark.parametrize("at", [1.5, "soon", True, datetime(2026, 1, 1), 2**63])  # noqa: DTZ001
def test_a_timer_is_set_for_a_moment(at: Any):
    """Anything else is an error at the line that asks for it."""

    class Wrong(Ticking):
        def process(self, record: Record[str, str]) -> None:
            self.context.register_event_time_timer(at)

    with pytest.raises(MustelaError) as error:
        World(Wrong).send("a", "-", 5)
    assert isinstance(error.value.__cause__, TimerError)


def test_a_timer_can_be_set_for_a_datetime():
    """An aware one; it fires with its milliseconds."""

    class Noon(Elsewhere):
        def process(self, record: Record[str, str]) -> None:
            self.context.register_event_time_timer(datetime(1970, 1, 1, 12, tzinfo=UTC))

    world = World(Noon)
    world.send("a", "-", 50_000_000)
    assert world.fired() == [("a", "fired", 43_200_000)]


def test_a_class_without_on_timer_has_no_timers():
    """The error says what is missing."""

    class Without(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.register_event_time_timer(5)

    with pytest.raises(MustelaError, match="keeps no timers") as error:
        World(Without).send("a", "-", 5)
    assert "def on_timer" in str(error.value.__cause__)


class FixedTimer(ContextualFixedKeyProcessor[str, str, str]):
    """A timer of a processor that cannot change keys."""

    def process(self, record: Any) -> None:
        self.context.register_event_time_timer(record.timestamp + 10)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        context.forward(timer.with_value(timer.name))


def test_a_fixed_key_processor_has_timers():
    """What a timer makes has its key."""
    builder = StreamsBuilder()
    commands = builder.stream("commands", key=str, value=str)
    commands.process_values(FixedTimer).to("fired", value=str)
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("commands")
        topic.pipe_input("a", "-", timestamp=0)
        topic.pipe_input("b", "-", timestamp=10)
        rows = driver.create_output_topic("fired").read_records_to_list()
    assert [(row.key, row.value, row.timestamp) for row in rows] == [("a", "", 10)]


def test_a_timer_that_fails_meets_the_handler_and_does_not_fire_again():
    """As a record on which the processor fails does."""

    class Failing(Commanded):
        def on_timer(self, timer: Timer[str], context: Any) -> None:
            if timer.name == "bad":
                raise ValueError(timer.key)
            super().on_timer(timer, context)

    with pytest.raises(MustelaError, match="failed on a timer: ValueError") as error:
        World(Failing).send("a", "event bad 0", 5)
    assert error.value.evidence["key"] == "'a'"
    world = World(Failing, settings={**STREAM, "processing_handler": "dead_letter"})
    world.send("a", "event bad 1", 5)
    world.send("a", "event good 2", 5)
    assert world.fired() == [("a", "event-time good 1", 2)]
    letters = world.driver.create_output_topic(
        "test-dead-letters", key=str, value=bytes
    ).read_records_to_list()
    assert [(letter.key, letter.value) for letter in letters] == [("a", None)]
    assert ("mustela.error.class", b"ValueError") in letters[0].headers


def test_an_on_timer_that_cannot_be_called_is_an_error_before_anything_runs():
    """It is called with the timer and the context."""

    class OneArgument(Ticking):
        def on_timer(self, timer: Timer[str]) -> None:  # type: ignore[override]
            del timer

    with pytest.raises(FunctionError, match="cannot call its on_timer"):
        topology(OneArgument)


class Clocks(ContextualProcessor[str, str, str, str]):
    """Tells all the times there are."""

    def process(self, record: Record[str, str]) -> None:
        self.tell(record.with_value(""), self.context)
        self.context.register_processing_time_timer(0)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        self.tell(timer.with_value(""), context)

    def tell(self, record: Record[str, str], context: Any) -> None:
        assert context.current_system_time() == context.current_processing_time()
        assert context.current_stream_time() == context.current_watermark()
        told = f"{context.current_stream_time()} {context.current_system_time()}"
        context.forward(record.with_value(told))


def test_the_context_knows_the_times():
    """By stream time the record in hand counts; by watermark it is judged as windows judge it."""
    world = World(Clocks, settings=STREAM, initial_wall_clock=7)
    with world.driver.epoch():
        world.send("a", "-", 5)
        world.send("a", "-", 3)
    assert [value for _, value, _ in world.fired()] == ["5 7", "5 7", "5 7"]
    world.send("a", "-", 4)
    assert [value for _, value, _ in world.fired()] == ["5 7", "5 7"]

    world = World(Clocks, settings=WATERMARK, initial_wall_clock=7)
    with world.driver.epoch():
        world.send("a", "-", 5)
        world.send("a", "-", 3)
    world.send("a", "-", 9)
    assert [value for _, value, _ in world.fired()] == ["5 7", "5 7", "5 7", "9 7", "9 7"]


def test_timers_are_kept_without_stores_of_ones_own():
    """A step that has nothing else keeps them in a store of the step's name, with a changelog."""
    plan = World(Ticking).driver._cluster.plan  # pyright: ignore[reportPrivateUsage]
    ((_, spec),) = plan.stores.values()
    assert (spec.name, spec.kind, spec.logged) == ("step.timers", "timer", True)


def test_domains_of_timers_are_told_apart_when_one_is_deleted():
    """``domain=`` takes back the one and leaves the other."""

    class Chooses(Commanded):
        def obey(self, value: str) -> None:
            if value == "only clock":
                self.context.delete_timer(name="t", domain=TimeDomain.EVENT_TIME)
            else:
                super().obey(value)

    world = World(Chooses)
    world.send("a", "event t 10")
    world.send("a", "clock t 10")
    world.send("a", "only clock", 20)
    world.driver.advance_wall_clock_time(10)
    assert [value for _, value, _ in world.fired()] == ["processing-time t 1"]


class First(ContextualProcessor[str, str, str, str]):
    """Logs what it does into a store that it shares; its timer forwards under another key."""

    def process(self, record: Record[str, str]) -> None:
        self.log(f"first {record.value}")
        if record.value != "push":
            self.context.register_event_time_timer(record.timestamp + 10)
        self.context.forward(record)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        self.log("first timer")
        context.forward(timer.with_value("late").with_key(f"other {timer.key}"))
        self.log("first done")

    def log(self, text: str) -> None:
        log = self.context.state_store("log")
        log.put("log", [*log.get("log", []), text])


class Second(First):
    """Gets what the first one forwards, and has a timer for what came late."""

    def process(self, record: Record[str, str]) -> None:
        self.log(f"second {record.value}")
        if record.value == "late":
            self.context.register_event_time_timer(record.timestamp, key=record.key)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        self.log("second timer")
        log = context.state_store("log")
        context.forward(timer.with_value(", ".join(log.get("log"))))


@BOTH
@pytest.mark.parametrize("crashes", [False, True])
def test_processors_that_share_a_store_see_timers_as_records_one_by_one(
    settings: Any, crashes: bool
):
    """What a timer forwards has passed the others when forward returns; so have their timers.

    A key that is forwarded keeps the key group that it comes from, as the task of Kafka Streams
    is the same for all that follows from a record: also for its timers.
    """
    builder = StreamsBuilder()
    log = Stores.persistent_key_value_store("log")
    builder.add_state_store(Stores.key_value_store_builder(log, key=str, value=list))
    records = builder.stream("in", key=str, value=str)
    first = records.process(First, stores=["log"], name="first")
    first.process(Second, stores=["log"], name="second").to("out", key=str, value=str)
    options: dict[str, Any] = {"key_groups": 8, "crash_after_every_record": crashes}
    with TopologyTestDriver(builder, settings=settings, **options) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", "x", timestamp=0)
        topic.pipe_input("a", "y", timestamp=5)
        topic.pipe_input("a", "push", timestamp=15)
        (row,) = driver.create_output_topic("out").read_records_to_list()
    assert (row.key, row.timestamp) == ("other a", 15)
    records_passed = "first x, second x, first y, second y, first push, second push"
    fired = "second timer" if settings is STREAM else "first done, second timer"
    assert row.value == f"{records_passed}, first timer, second late, {fired}"
