"""The test driver as its users see it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mustela import App, Materialized, Stores, StreamsBuilder, TopologyTestDriver
from mustela.kernel.core.failures import DeserializationError, ProcessingError
from mustela.model import KeyValue, Record
from mustela.state.faults import StoreError
from mustela.testing.faults import EmptyTopicError, PipedValueError, TestDriverError
from mustela.testing.topics import TestInputTopic, TestOutputTopic


def word_count() -> StreamsBuilder:
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
    words.count(store="counts").to_stream().to("counts")
    return builder


def copying(value: Any = str) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=value).to("out")
    return builder


def test_each_piped_record_is_an_epoch() -> None:
    """Every update shows, as in Kafka's own driver."""
    with TopologyTestDriver(word_count()) as driver:
        driver.create_input_topic("lines").pipe_input("p", "a b a")
        out = driver.create_output_topic("counts")
        assert out.read_key_values_to_list() == [("a", 2), ("b", 1)]
        driver.create_input_topic("lines").pipe_value_list(["a", "b"])
        assert out.read_key_values_to_list() == [("a", 3), ("b", 2)]


def test_an_epoch_groups_records_of_all_topics_and_piping_calls() -> None:
    """One change per key comes out of it."""
    with TopologyTestDriver(word_count()) as driver:
        lines = driver.create_input_topic("lines")
        out = driver.create_output_topic("counts")
        with driver.epoch():
            lines.pipe_input("p", "a b")
            lines.pipe_value_list(["a", "a"])
            assert out.is_empty
        assert out.read_key_values_to_map() == {"a": 3, "b": 1}
        with driver.epoch():
            pass
        assert out.is_empty


def test_an_epoch_that_raises_pipes_nothing() -> None:
    """The records inside are forgotten; epochs do not nest."""
    with TopologyTestDriver(word_count()) as driver:
        lines = driver.create_input_topic("lines")

        def broken() -> None:
            with driver.epoch():
                lines.pipe_input("p", "a")
                raise KeyError

        with pytest.raises(KeyError):
            broken()
        with pytest.raises(TestDriverError, match="already open"), driver.epoch(), driver.epoch():
            pass
        lines.pipe_input("p", "b")
        assert driver.create_output_topic("counts").read_key_values_to_list() == [("b", 1)]


def test_an_app_a_builder_and_a_topology_can_be_tested() -> None:
    """Anything else is refused."""
    app = App("wordcount")

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).to("out")

    for subject in (app, copying(), copying().build()):
        with TopologyTestDriver(subject) as driver:
            driver.create_input_topic("in").pipe_input("k", "v")
            assert driver.create_output_topic("out").read_value() == "v"
    with pytest.raises(TestDriverError, match="a str cannot be tested"):
        TopologyTestDriver("wordcount")


def test_records_have_the_time_that_was_asked_for() -> None:
    """Their own, the topic's, or the driver's clock."""
    with TopologyTestDriver(copying(), initial_wall_clock=1_000) as driver:
        out = driver.create_output_topic("out")
        plain = driver.create_input_topic("in")
        plain.pipe_input("k", "v")
        driver.advance_wall_clock_time(timedelta(seconds=2))
        plain.pipe_input("k", "v")
        plain.pipe_input("k", "v", timestamp=7)
        plain.pipe_input("k", "v", timestamp=datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC))
        advancing = driver.create_input_topic("in", start=100, auto_advance=timedelta(seconds=1))
        advancing.pipe_value_list(["v", "v"])
        advancing.advance_time(50)
        advancing.pipe_input("k", "v")
        advancing.pipe_key_value_list([("k", "v")] * 3, start=5, advance=10)
        times = [record.timestamp for record in out.read_records_to_list()]
    assert times == [1_000, 3_000, 7, 9_000, 100, 1_100, 2_150, 5, 15, 25]


def test_times_that_cannot_be_are_refused() -> None:
    """No zone, before 1970, backwards."""
    with TopologyTestDriver(copying(), initial_wall_clock=0) as driver:
        topic = driver.create_input_topic("in")
        with pytest.raises(TestDriverError, match="no time zone"):
            topic.pipe_input("k", "v", timestamp=datetime(2020, 1, 1))  # noqa: DTZ001
        with pytest.raises(TestDriverError, match="cannot be negative"):
            topic.pipe_input("k", "v", timestamp=-1)
        with pytest.raises(TestDriverError, match="it is negative"):
            topic.advance_time(timedelta(seconds=-1))
        east = timezone(timedelta(hours=1))
        topic.pipe_input("k", "v", timestamp=datetime(1970, 1, 1, 1, tzinfo=east))
        assert driver.create_output_topic("out").read_record().timestamp == 0
        auto = driver.create_input_topic("in", auto_advance=5)
        auto.pipe_value_list(["a", "b"])
        records = driver.create_output_topic("out").read_records_to_list()
        assert [record.timestamp for record in records] == [0, 5]


def test_records_carry_headers_and_places() -> None:
    """What was piped comes out whole."""
    record: Record[Any, Any] = Record(
        key="k", value="v", timestamp=5, headers=(("trace", b"1"),), topic="out"
    )
    with TopologyTestDriver(copying()) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_record_list([record, record])
        out = driver.create_output_topic("out")
        assert out.queue_size == 2
        assert out.read_record() == record
        assert out.read_record().offset == 1
        topic.pipe_input("k", None)
        assert out.read_key_value() == KeyValue("k", None)


def test_reading_past_the_end_is_an_error() -> None:
    """With a name and a code; an end is not a None."""
    with TopologyTestDriver(copying()) as driver:
        topic = driver.create_output_topic("out")
        with pytest.raises(EmptyTopicError, match="topic 'out' is empty"):
            topic.read_value()


def test_two_readers_of_a_topic_share_its_position() -> None:
    """As with one queue."""
    with TopologyTestDriver(copying()) as driver:
        driver.create_input_topic("in").pipe_value_list(["a", "b"])
        assert driver.create_output_topic("out").read_value() == "a"
        assert driver.create_output_topic("out").read_value() == "b"


def test_a_record_without_key_has_no_place_in_a_map() -> None:
    """It would hide another."""
    with TopologyTestDriver(copying()) as driver:
        driver.create_input_topic("in").pipe_value_list(["a"])
        with pytest.raises(TestDriverError, match="without a key"):
            driver.create_output_topic("out").read_key_values_to_map()


def test_serdes_are_enforced_where_records_enter() -> None:
    """What the source cannot read cannot be piped; the topic is named."""
    with TopologyTestDriver(copying(int)) as driver:
        topic = driver.create_input_topic("in")
        with pytest.raises(PipedValueError, match="'five' cannot be piped to topic 'in'"):
            topic.pipe_input("k", "five")
        with pytest.raises(PipedValueError, match=r"key 5 cannot be piped"):
            topic.pipe_input(5, 5)
        assert driver.create_output_topic("out").is_empty
        with pytest.raises(DeserializationError):
            driver.create_input_topic("in", value=str).pipe_input("k", "five")
        topic.pipe_input("k", 5)
        assert driver.create_output_topic("out").read_value() == 5
        raw = driver.create_output_topic("out", key=bytes, value=bytes)
        topic.pipe_input("k", 1)
        assert raw.read_key_value() == (b"k", (1).to_bytes(8, "big"))


def test_unknown_topics_and_stores_are_told_with_the_known_ones() -> None:
    """A typing mistake is found at once."""
    with TopologyTestDriver(word_count()) as driver:
        with pytest.raises(TestDriverError, match="does not read topic 'line'") as caught:
            driver.create_input_topic("line")
        assert caught.value.evidence == {"it reads": "lines"}
        with pytest.raises(TestDriverError, match="no store 'count'") as caught:
            driver.get_key_value_store("count")
        assert caught.value.evidence == {"stores": "counts"}


@pytest.mark.parametrize("groups", [1, 4])
def test_stores_can_be_read_and_written(groups: int) -> None:
    """With Kafka's methods and a mapping's; what is put is there for the next record."""
    with TopologyTestDriver(word_count(), key_groups=groups) as driver:
        driver.create_input_topic("lines").pipe_input("p", "a b a", timestamp=5)
        store = driver.get_key_value_store("counts")
        assert store["a"] == 2
        assert store.get("z") is None
        assert list(store.all()) == [("a", 2), ("b", 1)]
        assert list(store.reverse_range("a", "b")) == [("b", 1), ("a", 2)]
        assert list(store.prefix_scan("a")) == [("a", 2)]
        assert len(store) == 2
        timed = driver.get_timestamped_key_value_store("counts")
        assert tuple(timed["a"]) == (2, 5)
        assert store.get_many(["a", "z"]) == [2, None]
        store.put("a", 40)
        driver.create_input_topic("lines").pipe_input("p", "a")
        assert driver.create_output_topic("counts").read_key_values_to_list()[-1] == ("a", 41)
        assert driver.get_all_state_stores().keys() == {"counts"}
        assert type(driver.get_state_store("counts")) is type(timed)


def test_a_plain_store_has_no_timestamps() -> None:
    """Asking for them is an error of the store."""
    builder = StreamsBuilder()
    plain = Materialized[str, int](supplier=Stores.persistent_key_value_store("counts"))
    builder.table("counts", key=str, value=int, materialized=plain)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("counts").pipe_input("a", 1)
        assert driver.get_key_value_store("counts")["a"] == 1
        with pytest.raises(StoreError, match="keeps no timestamps"):
            driver.get_timestamped_key_value_store("counts")


def test_rows_for_a_topic_that_is_read_come_back() -> None:
    """A sink that is a source too feeds the topology, and can still be read."""
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", key=str, value=int)
    numbers.filter(lambda _k, n: n > 0).map_values(lambda n: n - 1).to("numbers", value=int)
    for grouped in (False, True):
        with TopologyTestDriver(builder) as driver:
            topic = driver.create_input_topic("numbers")
            if grouped:
                with driver.epoch():
                    topic.pipe_input("a", 2)
                    topic.pipe_input("b", 1)
            else:
                topic.pipe_key_value_list([("a", 2), ("b", 1)])
            got = driver.create_output_topic("numbers").read_key_values_to_list()
            assert sorted(got) == [("a", 0), ("a", 1), ("b", 0)]


def test_a_loop_without_an_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver gives up and says why."""
    monkeypatch.setattr("mustela.testing.driver.EPOCHS_PER_CALL_MAX", 20)
    builder = StreamsBuilder()
    builder.stream("loop", key=str, value=str).to("loop")
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("loop")
        with pytest.raises(TestDriverError, match="came back to the topology 20 times"):
            topic.pipe_input("k", "v")


def failing_count() -> StreamsBuilder:
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", key=str, value=int)
    halves = numbers.map_values(lambda n: 10 // n)
    halves.group_by_key(value=int).reduce(lambda x, y: x + y, store="sums").to_stream().to("sums")
    return builder


def test_a_failing_record_changes_nothing() -> None:
    """The error reaches the caller, nothing of the epoch stays, and the next record works."""
    with TopologyTestDriver(failing_count()) as driver:
        topic = driver.create_input_topic("numbers")
        topic.pipe_input("a", 5)
        with pytest.raises(ProcessingError, match="ZeroDivisionError") as caught, driver.epoch():
            topic.pipe_key_value_list([("a", 1), ("a", 0)])
        assert caught.value.fields["offset"] == 2
        topic.pipe_input("a", 10)
        assert driver.create_output_topic("sums").read_values_to_list() == [2, 3]


@pytest.mark.parametrize("bad", ["undecodable", "raises"])
def test_kafka_streams_properties_lose_no_record(bad: str) -> None:
    """The topic's name and a handler that logs and continues: the record becomes a letter."""
    builder = StreamsBuilder()
    tenths = builder.stream("numbers", value=int).map_values(lambda number: 10 // number)
    tenths.to("out", value=int)
    errors = "org.apache.kafka.streams.errors.LogAndContinue"
    settings = {
        "errors.dead.letter.queue.topic.name": "bad-records",
        "deserialization.exception.handler": f"{errors}ExceptionHandler",
        "processing.exception.handler": f"{errors}ProcessingExceptionHandler",
    }
    value = b"seven" if bad == "undecodable" else (0).to_bytes(8, "big")
    with TopologyTestDriver(builder, settings=settings) as driver:
        driver.create_input_topic("numbers", key=bytes, value=bytes).pipe_input(b"k", value)
        letter = driver.create_output_topic("bad-records", key=bytes, value=bytes).read_record()
    assert (letter.key, letter.value) == (b"k", value)


def test_a_handler_that_fails_writes_no_letter() -> None:
    """The application stops before anything is written, and meets the record again."""
    settings = {"errors.dead.letter.queue.topic.name": "bad-records"}
    with TopologyTestDriver(failing_count(), settings=settings) as driver:
        with pytest.raises(ProcessingError):
            driver.create_input_topic("numbers").pipe_input("a", 0)
        assert driver.create_output_topic("bad-records").is_empty


def test_dead_letters_can_be_read_as_a_topic() -> None:
    """With the bytes that were piped and the error in the headers."""
    settings = {"processing_handler": "dead_letter", "application_id": "sums"}
    with TopologyTestDriver(failing_count(), settings=settings) as driver:
        driver.create_input_topic("numbers").pipe_key_value_list([("a", 5), ("b", 0)], start=7)
        letters = driver.create_output_topic("sums-dead-letters", key=str, value=int)
        letter = letters.read_record()
        assert (letter.key, letter.value, letter.timestamp) == ("b", 0, 7)
        headers = dict(letter.headers)
        assert headers["mustela.error.class"] == b"ZeroDivisionError"
        assert driver.metrics["dead_letters:numbers.map_values"] == 1
        assert driver.produced_topic_names == {"sums", "sums-dead-letters"}


def test_a_closed_driver_refuses_work() -> None:
    """Closing twice does no harm."""
    driver = TopologyTestDriver(copying())
    topic = driver.create_input_topic("in")
    driver.close()
    driver.close()
    with pytest.raises(TestDriverError, match="closed"):
        topic.pipe_input("k", "v")
    with pytest.raises(TestDriverError, match="closed"):
        driver.get_key_value_store("x")


def test_the_machines_environment_is_no_part_of_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings come from the test alone; an App's from where Apps have theirs."""
    monkeypatch.setenv("MUSTELA__EMIT", "every")
    with TopologyTestDriver(copying()) as driver:
        assert driver._settings.emit == "barrier"
        assert driver._settings.event_time == "stream-time"
    with TopologyTestDriver(copying(), settings={"emit": "every"}) as driver:
        assert driver._settings.emit == "every"


def test_topics_say_who_they_are() -> None:
    """In a debugger and in assertion messages."""
    with TopologyTestDriver(copying()) as driver:
        assert repr(driver.create_input_topic("in")) == "<TestInputTopic in>"
        assert repr(driver.create_output_topic("out")) == "<TestOutputTopic out, 0 to read>"
    assert TestInputTopic.__test__ is TestOutputTopic.__test__ is False


def test_headers_are_pairs_or_a_mapping() -> None:
    """A dict is what most would write first."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out")
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("k", "v", headers=(("from", b"web"),))
        topic.pipe_input("k", "v", headers={"from": b"web"})
        one, other = driver.create_output_topic("out").read_records_to_list()
        assert one.headers == other.headers == (("from", b"web"),)
