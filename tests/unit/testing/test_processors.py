"""Processors, as users see them: what they are given, what becomes of what they forward."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    DataError,
    Processor,
    Record,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.api.errors import (
    FunctionError,
    ProcessorError,
    UnknownChildError,
)
from mustela.errors import MustelaError
from mustela.model import NegativeTimestampError, fixed_key_record
from mustela.processors import (
    ContextualFixedKeyProcessor,
    ContextualProcessor,
    RecordMetadata,
    SideOutput,
)
from tests.unit.testing.processors import WAYS, Count, store

ALL_WAYS = pytest.mark.parametrize("way", WAYS, ids=["plain", "lanes", "crashes", "watermark"])


@ALL_WAYS
def test_a_processor_keeps_state_and_forwards_in_order(way: dict[str, Any]) -> None:
    """Whatever the lanes, and over any crash: each record counts once."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Count).to("out", key=str, value=int)
    with TopologyTestDriver(builder, **way) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_key_value_list([(key, "x") for key in "abacab"])
        with driver.epoch():
            topic.pipe_key_value_list([(key, "y") for key in "aab"])
        found = driver.create_output_topic("out").read_key_values_to_list()
        assert sorted(found) == sorted(
            [("a", n) for n in range(1, 6)] + [("b", n) for n in range(1, 4)] + [("c", 1)]
        )
        assert dict(driver.get_key_value_store("counts").all()) == {"a": 5, "b": 3, "c": 1}


def test_what_belongs_to_a_record_is_at_hand() -> None:
    """Headers, timestamp and where it was read; nothing of it where no topic has the record."""
    seen: list[Any] = []

    class Look(ContextualProcessor[str, str, str, str]):
        def init(self, context: Any) -> None:
            super().init(context)
            seen.append((context.record_metadata(), context.headers, context.application_id))

        def process(self, record: Record[str, str]) -> None:
            context = self.context
            seen.append((record, context.headers, context.record_metadata(), context.step_name))
            assert context.value_serde == context.key_serde
            context.commit()
            seen.append((context.key_serde.name, context.app_configs()["application_id"]))

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Look, name="look")
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", "first")
        seen.clear()
        topic.pipe_input("k", "v", timestamp=5, headers=(("h", b"1"),))
        assert driver.metrics["commit_requests:look"] == 2
    headers = (("h", b"1"),)
    place = RecordMetadata(topic="in", partition=0, offset=1)
    assert seen == [
        (None, (), "test"),
        (Record("k", "v", 5, headers), headers, place, "look"),
        ("str", "test"),
    ]


@pytest.mark.parametrize("crashes", [False, True])
def test_what_a_processor_counts_is_among_the_metrics(crashes: bool) -> None:
    """Over all key groups; an epoch that is run again counts once."""

    class Counting(ContextualProcessor[str, int, str, int]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.odd = context.metrics().counter("odd")
            assert context.metrics().counter("odd") is self.odd

        def process(self, record: Record[str, int]) -> None:
            self.odd.increment(record.value % 2)
            configs = self.context.app_configs()
            most = self.context.app_configs_with_prefix("epoch.")["max_records"]
            assert most == configs["epoch"]["max_records"]

    builder = StreamsBuilder().add_state_store(store("s"))
    numbers = builder.stream("in", key=str, value=int)
    numbers.process(Counting, stores=["s"], name="count")
    choices: Any = {"key_groups": 8, "lanes": 3, "crash_after_every_record": crashes}
    with TopologyTestDriver(builder, **choices) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_key_value_list([("a", 1), ("b", 2), ("c", 3)])
        with driver.epoch():
            topic.pipe_key_value_list([(key, 1) for key in "abcd"])
        assert driver.metrics["user.odd:count"] == 6


def test_an_instance_is_opened_and_closed_once_for_its_key_group() -> None:
    """The order is init, process, close."""
    calls: list[str] = []

    class Told(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            calls.append(f"init {context.task_id}")

        def process(self, record: Record[str, str]) -> None:
            calls.append(record.value)

        def close(self) -> None:
            calls.append("close")

    builder = StreamsBuilder().add_state_store(store("s"))
    builder.stream("in", key=str, value=str).process(Told, stores=["s"])
    with TopologyTestDriver(builder) as driver, driver.epoch():
        driver.create_input_topic("in").pipe_key_value_list([("a", "1"), ("b", "2")])
    assert calls == ["init 0", "1", "2", "close"]


def test_a_record_goes_to_all_children_or_to_the_one_that_is_named() -> None:
    """The names are those of the steps behind the processor."""

    class Route(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record, None if record.value == "all" else record.value)

    builder = StreamsBuilder()
    routed = builder.stream("in", key=str, value=str).process(Route, name="route")
    for name in ("left", "right"):
        routed.map_values(lambda value: value, name=name).to(name, key=str, value=str)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_value_list(["left", "all", "right", "left"])
        assert driver.create_output_topic("left").read_values_to_list() == ["left", "all", "left"]
        assert driver.create_output_topic("right").read_values_to_list() == ["all", "right"]


def test_a_child_that_is_not_there_is_an_error_with_the_users_line() -> None:
    """The record meets the handler: by default the epoch fails."""

    class Lost(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record, "nowhere")

    builder = StreamsBuilder()
    lost = builder.stream("in", key=str, value=str).process(Lost, name="lost")
    lost.map_values(str, name="here").to("out", key=str, value=str)
    with TopologyTestDriver(builder) as driver, pytest.raises(DataError) as caught:
        driver.create_input_topic("in").pipe_input("a", "x")
    error = caught.value
    assert isinstance(error.__cause__, UnknownChildError)
    assert error.__cause__.fields == {"step": "lost", "child": "nowhere"}
    assert "here" in str(error.__cause__)
    assert error.fields["line"].code == 'self.context.forward(record, "nowhere")'


def test_side_outputs_are_typed_streams_beside_the_main_one() -> None:
    """What goes to an output goes nowhere else; one that nobody takes up is dropped."""

    class Sort(ContextualProcessor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            if record.value < 0:
                self.context.output("negative", record.with_value(f"minus {-record.value}"))
            elif record.value == 0:
                self.context.forward(record, "zero")
            else:
                self.context.forward(record)

    builder = StreamsBuilder()
    outputs = {"negative": SideOutput(value=str), "zero": SideOutput[Any, Any]()}
    numbers = builder.stream("in", key=str, value=int).process(Sort, outputs=outputs)
    numbers.to("out", key=str, value=int)
    numbers.output("negative").to("negative")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_value_list([1, -2, 0, 3])
        assert driver.create_output_topic("out").read_values_to_list() == [1, 3]
        assert driver.create_output_topic("negative").read_values_to_list() == ["minus 2"]


def test_an_output_must_be_declared() -> None:
    """In the topology, and in the processor."""

    class Send(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.output("late", record)

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).process(Send)
    with pytest.raises(UnknownChildError, match="no output 'late'"):
        stream.output("late")
    with TopologyTestDriver(builder) as driver, pytest.raises(DataError, match="no output 'late'"):
        driver.create_input_topic("in").pipe_input("a", "x")


def test_process_values_keeps_the_key_and_sends_nothing_anywhere() -> None:
    """A grouping behind it stays where it is."""

    class Double(ContextualFixedKeyProcessor[str, int, int]):
        def process(self, record: Any) -> None:
            assert not hasattr(record, "with_key")
            self.context.forward(record.with_value(record.value * 2))

    builder = StreamsBuilder().add_state_store(store("s"))
    doubled = builder.stream("in", key=str, value=int).process_values(Double, stores=["s"])
    sums = doubled.group_by_key(value=int).reduce(lambda a, b: a + b, store="sums")
    sums.to_stream().to("sums", key=str, value=int)
    with TopologyTestDriver(builder, key_groups=4, lanes=2) as driver:
        driver.create_input_topic("in").pipe_key_value_list([("a", 1), ("b", 5), ("a", 2)])
        found = driver.create_output_topic("sums").read_key_values_to_list()
        assert found == [("a", 2), ("b", 10), ("a", 6)]
        stages = driver._cluster.plan.stages  # pyright: ignore[reportPrivateUsage]
        assert len(stages) == 2


def test_a_fixed_key_processor_cannot_make_records() -> None:
    """Neither by the class nor with a plain record."""

    class Cheat(ContextualFixedKeyProcessor[str, str, str]):
        def process(self, record: Any) -> None:
            self.context.forward(Record("other", record.value))  # pyright: ignore[reportArgumentType]

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process_values(Cheat).to("out", value=str)
    with TopologyTestDriver(builder) as driver, pytest.raises(DataError, match="FixedKeyRecord"):
        driver.create_input_topic("in").pipe_input("a", "x")


def test_records_never_change_and_have_no_time_before_1970() -> None:
    """Each with_ gives another record; equal ones say the same."""
    record = Record("k", 1, 5)
    assert record.with_headers({"a": b"1"}) == Record("k", 1, 5, (("a", b"1"),))
    assert record.with_key("l").with_value(2).with_timestamp(6) == Record("l", 2, 6)
    assert record == Record("k", 1, 5)
    with pytest.raises(NegativeTimestampError):
        Record("k", 1, -1)
    with pytest.raises(NegativeTimestampError):
        record.with_timestamp(-1)
    with pytest.raises(AttributeError):
        record.value = 2  # pyright: ignore[reportAttributeAccessIssue]
    fixed = fixed_key_record("k", 1, 5)
    with pytest.raises(NegativeTimestampError):
        fixed.with_timestamp(-1)
    with pytest.raises(AttributeError):
        fixed.value = 2
    with pytest.raises(MustelaError):
        type(fixed)("k", 1, 5)


def test_what_a_processor_keeps_and_changes_does_not_change_what_it_sent() -> None:
    """One list, forwarded to two children and an output, stored, and changed in between."""

    class Grow(ContextualProcessor[str, int, str, list[int]]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.kept: list[int] = []

        def process(self, record: Record[str, int]) -> None:
            self.kept.append(record.value)
            self.context.state_store("s").put(record.value, self.kept)
            self.context.forward(record.with_value(self.kept))
            self.context.output("side", record.with_value(self.kept))
            self.kept.append(-record.value)

    def spoil(value: list[int]) -> list[int]:
        value.append(99)
        return value

    builder = StreamsBuilder().add_state_store(store("s", key=int, value=None))
    grown = builder.stream("in", key=str, value=int).process(
        Grow, stores=["s"], outputs={"side": SideOutput(value=list[int])}
    )
    grown.map_values(spoil, name="first").to("first", key=str, value=list[int])
    grown.map_values(lambda value: value, name="second").to("second", key=str, value=list[int])
    grown.output("side").to("side")
    with TopologyTestDriver(builder) as driver:
        with driver.epoch():
            driver.create_input_topic("in").pipe_key_value_list([("a", 1), ("a", 2)])
        sent = [[1], [1, -1, 2]]
        read = driver.create_output_topic("first").read_values_to_list()
        assert read == [[*values, 99] for values in sent]
        assert driver.create_output_topic("second").read_values_to_list() == sent
        assert driver.create_output_topic("side").read_values_to_list() == sent
        assert dict(driver.get_key_value_store("s").all()) == {1: [1], 2: [1, -1, 2]}


def test_records_without_a_key_are_processed_too() -> None:
    """They belong to the first key group."""

    class Group(ContextualProcessor[Any, str, str, int]):
        def process(self, record: Record[Any, str]) -> None:
            self.context.forward(Record("k", self.context.task_id, record.timestamp))

    builder = StreamsBuilder().add_state_store(store("s"))
    grouped = builder.stream("in", key=str, value=str).process(Group, stores=["s"])
    grouped.to("out", key=str, value=int)
    with TopologyTestDriver(builder, key_groups=4, lanes=2) as driver:
        driver.create_input_topic("in").pipe_input(None, "x")
        assert driver.create_output_topic("out").read_values_to_list() == [0]


@pytest.mark.parametrize("handler", ["continue", "dead_letter"])
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "in a group"])
def test_what_was_forwarded_before_a_failure_stays(handler: str, *, shared: bool) -> None:
    """The record meets the handler at the step that failed; those before it do not see it."""

    class First(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_value(record.value + "1"))
            self.context.forward(record.with_value(record.value + "2"))

    class Second(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_value(record.value + "!"))
            if record.value == "bad1":
                raise ValueError(record.value)
            self.context.forward(record.with_value(record.value + "?"))

    builder = StreamsBuilder().add_state_store(store("s")).add_state_store(store("t"))
    first = builder.stream("in", key=str, value=str).process(First, stores=["s"], name="first")
    used = ["s"] if shared else ["t"]
    first.process(Second, stores=used, name="second").to("out", key=str, value=str)
    settings = {"processing_handler": handler}
    with TopologyTestDriver(builder, settings=settings) as driver:
        driver.create_input_topic("in").pipe_value_list(["ok", "bad"])
        found = driver.create_output_topic("out").read_values_to_list()
        assert found == ["ok1!", "ok1?", "ok2!", "ok2?", "bad1!", "bad2!", "bad2?"]
        assert driver.metrics["failed_records:second"] == 1
        assert "failed_records:first" not in driver.metrics
        letters = driver.create_output_topic("test-dead-letters").read_records_to_list()
        assert len(letters) == (handler == "dead_letter")


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "in a group"])
def test_a_failure_says_where_it_is(*, shared: bool) -> None:
    """The step, the line, the record; no processor before it can catch it."""

    class First(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            try:
                self.context.forward(record)
            except Exception:  # noqa: BLE001 - what this test is about
                self.context.forward(record.with_value("caught"))

    class Second(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            raise ValueError(record.value)

    builder = StreamsBuilder().add_state_store(store("s")).add_state_store(store("t"))
    first = builder.stream("in", key=str, value=str).process(First, stores=["s"], name="first")
    first.process(Second, stores=["s"] if shared else ["t"], name="second")
    with TopologyTestDriver(builder) as driver, pytest.raises(DataError) as caught:
        driver.create_input_topic("in").pipe_input("k", "x", timestamp=3)
    fields = caught.value.fields
    assert (fields["step"], fields["topic"], fields["offset"]) == ("second", "in", 0)
    assert fields["line"].code == "raise ValueError(record.value)"
    assert "key:" in str(caught.value)


class WithoutProcess:
    pass


ONE = Count()


@pytest.mark.parametrize(
    ("supplier", "told"),
    [
        (ONE, "not a supplier of them"),
        (WithoutProcess, "no process"),
        (lambda: ONE, "same processor"),
        (lambda given: given, "supplier"),
        ("Count", "supplier"),
    ],
)
def test_a_supplier_gives_new_processors(supplier: Any, told: str) -> None:
    """What does not is refused where it is written."""
    stream = StreamsBuilder().stream("in", key=str, value=str)
    with pytest.raises(FunctionError, match=told) as caught:
        stream.process(supplier)
    assert caught.value.at is not None
    assert caught.value.at.code == "stream.process(supplier)"


def test_nothing_can_be_forwarded_while_a_processor_opens() -> None:
    """There is no record whose place it could take."""

    class Early(ContextualProcessor[str, str, str, str]):
        def init(self, context: Any) -> None:
            context.forward(Record("k", "v"))

        def process(self, record: Record[str, str]) -> None:
            raise NotImplementedError

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Early).to("out", key=str, value=str)
    with TopologyTestDriver(builder) as driver, pytest.raises(ProcessorError, match="forward"):
        driver.create_input_topic("in").pipe_input("a", "x")


def test_stages_and_windows_follow_processors() -> None:
    """What a processor forwards is a stream like any other."""

    class Late(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_timestamp(record.timestamp + 1_000))

    builder = StreamsBuilder()
    moved = builder.stream("in", key=str, value=str).process(Late)
    windows = TimeWindows(size=timedelta(seconds=1), grace=timedelta(0))
    counts = moved.group_by_key(key=str, value=str).windowed_by(windows).count(store="counts")
    counts.to_stream().map(lambda window, count: (window.start, count)).to(
        "out", key=int, value=int
    )
    with TopologyTestDriver(builder, key_groups=4, lanes=2) as driver:
        driver.create_input_topic("in").pipe_input("a", "x", timestamp=500)
        assert driver.create_output_topic("out").read_key_values_to_list() == [(1000, 1)]


def test_fixed_key_records_say_more_than_their_value() -> None:
    """Time and headers can change, the key cannot."""

    class Mark(ContextualFixedKeyProcessor[str, str, str]):
        def process(self, record: Any) -> None:
            marked = record.with_timestamp(7).with_headers([("h", b"1")])
            self.context.forward(marked)

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process_values(Mark, name="mark").to("out", value=str)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("k", "v", timestamp=5)
        (sent,) = driver.create_output_topic("out").read_records_to_list()
        assert (sent.key, sent.value, sent.timestamp) == ("k", "v", 7)
        assert sent.headers == (("h", b"1"),)


def test_time_is_at_hand() -> None:
    """The largest timestamp so far, and the clock of the epoch."""
    seen: list[tuple[int, int]] = []

    class Clock(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            del record
            now = self.context.current_system_time()
            seen.append((self.context.current_stream_time(), now))

    builder = StreamsBuilder().add_state_store(store("s"))
    builder.stream("in", key=str, value=str).process(Clock, stores=["s"])
    with TopologyTestDriver(builder, initial_wall_clock=100) as driver, driver.epoch():
        topic = driver.create_input_topic("in")
        for timestamp in (5, 9, 7):
            topic.pipe_input("k", "v", timestamp=timestamp)
    assert seen == [(5, 100), (9, 100), (9, 100)]
