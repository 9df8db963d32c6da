"""Sources by pattern, the time of records, and where reading begins: as a user sees them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from mustela import AutoOffsetReset, Consumed, Record, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import (
    BadOptionError,
    FunctionError,
    SourceConflictError,
    StreamAndTableError,
)
from mustela.kernel.core.failures import DeserializationError, ProcessingError
from mustela.planner.planner import plan
from mustela.testing.cluster import BrokerRow
from mustela.topology.graph import TopologyGraph
from mustela.topology.source import SourceNode
from mustela.windows import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)


def times_of(extractor: Any, times: list[int], *, grouped: bool = True, **settings: Any) -> Any:
    """Copy records of these times; return their times, and the counters."""
    builder = StreamsBuilder()
    consumed = Consumed(key=str, value=int, timestamp_extractor=extractor)
    builder.stream("in", consumed=consumed).to("out")
    with TopologyTestDriver(builder.build(), initial_wall_clock=77, settings=settings) as driver:
        # A test topic refuses negative timestamps; a broker has them in records without a time.
        rows = [BrokerRow("in", b"k", n.to_bytes(8, "big"), time) for n, time in enumerate(times)]
        for part in [rows] if grouped else [[row] for row in rows]:
            with driver.epoch():
                driver._pipe(part)
        records = driver.create_output_topic("out").read_records_to_list()
        return [(r.value, r.timestamp) for r in records], driver.metrics


TIMES = st.lists(st.integers(-5, 20), max_size=10)


@pytest.mark.parametrize("extractor", [None, FailOnInvalidTimestamp, FailOnInvalidTimestamp()])
def test_a_negative_timestamp_fails_or_goes_to_the_handler(extractor: Any) -> None:
    """By default, as Kafka Streams does."""
    assert times_of(extractor, [3, 1])[0] == [(0, 3), (1, 1)]
    with pytest.raises(DeserializationError, match="negative"):
        times_of(extractor, [3, -1])
    got, counters = times_of(extractor, [3, -1, 4], deserialization_handler="continue")
    assert got == [(0, 3), (2, 4)]
    assert counters["failed_records:in"] == 1


@given(times=TIMES, grouped=st.booleans())
def test_a_record_with_a_negative_timestamp_may_be_skipped(times: list[int], grouped: bool) -> None:
    """And counted."""
    got, counters = times_of(LogAndSkipOnInvalidTimestamp, times, grouped=grouped)
    assert got == [(n, time) for n, time in enumerate(times) if time >= 0]
    skipped = sum(time < 0 for time in times)
    assert counters.get("skipped_invalid_timestamp:in", 0) == skipped


@given(times=TIMES, grouped=st.booleans())
def test_the_partition_time_may_stand_for_a_negative_timestamp(
    times: list[int], grouped: bool
) -> None:
    """The largest so far, over epochs too; where there is none, the handler is asked."""
    options = {"deserialization_handler": "continue"}
    got, _ = times_of(UsePartitionTimeOnInvalidTimestamp(), times, grouped=grouped, **options)
    wanted, top = [], -1
    for n, time in enumerate(times):
        if max(time, top) >= 0:
            wanted.append((n, time if time >= 0 else top))
        top = max(top, time)
    assert got == wanted


def test_a_partition_without_a_time_has_none_to_give() -> None:
    """So a negative timestamp is an error there."""
    with pytest.raises(DeserializationError, match="negative"):
        times_of(UsePartitionTimeOnInvalidTimestamp, [-1])


def test_records_may_have_the_time_at_which_they_are_read() -> None:
    """Whatever they say themselves."""
    assert times_of(WallclockTimestampExtractor, [3, -1])[0] == [(0, 77), (1, 77)]


@given(times=TIMES, grouped=st.booleans())
def test_a_function_gives_each_record_its_time(times: list[int], grouped: bool) -> None:
    """It sees the decoded record and the largest time so far; a negative answer skips."""
    seen: list[tuple[Any, ...]] = []

    def extract(record: Record[str, int], partition_time: int) -> int:
        seen.append((record.key, record.value, record.offset, record.topic, partition_time))
        return record.timestamp * 2

    got, counters = times_of(extract, times, grouped=grouped)
    tops = [max([-1, *(time * 2 for time in times[:n])]) for n in range(len(times))]
    assert seen == [("k", n, n, "in", max(top, -1)) for n, top in enumerate(tops)]
    assert got == [(n, time * 2) for n, time in enumerate(times) if time >= 0]
    skipped = sum(time < 0 for time in times)
    assert counters.get("skipped_invalid_timestamp:in", 0) == skipped


@pytest.mark.parametrize("answer", [1.5, None, True, "7"])
def test_a_time_is_whole_milliseconds(answer: Any) -> None:
    """Anything else is an error of the function's."""
    with pytest.raises(ProcessingError, match="whole milliseconds"):
        times_of(lambda _record, _time: answer, [3])


def test_a_record_on_which_the_function_raises_meets_the_handler_alone() -> None:
    """The others keep their times."""

    def extract(record: Record[str, int], _partition_time: int) -> int:
        return 6 // record.value

    with pytest.raises(ProcessingError, match="ZeroDivisionError"):
        times_of(extract, [0, 0])
    got, counters = times_of(extract, [0, 0, 0], processing_handler="continue")
    assert got == [(1, 6), (2, 3)]
    assert counters["failed_records:in"] == 1


def test_the_order_of_records_follows_their_extracted_times() -> None:
    """A stateful step behind two topics sees them as they are timed by the program."""
    builder = StreamsBuilder()
    consumed = Consumed(
        key=str, value=int, timestamp_extractor=lambda record, _time: 100 - record.value
    )
    first = builder.stream("a", consumed=consumed)
    merged = first.merge(builder.stream("b", key=str, value=int))
    totals = merged.group_by_key().aggregate(list, lambda _k, v, seen: [*seen, v], store="seen")
    totals.to_stream().to("out", value=list)
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.create_input_topic("a").pipe_input("k", 90, timestamp=50)
            driver.create_input_topic("a").pipe_input("k", 40, timestamp=1)
            driver.create_input_topic("b").pipe_input("k", 1, timestamp=20)
        assert driver.create_output_topic("out").read_values_to_list()[-1] == [90, 1, 40]


def test_an_extractor_is_a_function_of_two() -> None:
    """Checked at the user's line."""
    wrong: Any = lambda record: record.timestamp  # noqa: E731
    with pytest.raises(FunctionError) as caught:
        StreamsBuilder().stream("in", consumed=Consumed(timestamp_extractor=wrong))
    assert caught.value.at is not None
    wrong = "now"
    with pytest.raises(FunctionError):
        StreamsBuilder().table("in", consumed=Consumed(timestamp_extractor=wrong))


def test_tables_have_extractors_too() -> None:
    """Their rows carry the extracted time."""
    builder = StreamsBuilder()
    consumed = Consumed(key=str, value=int, timestamp_extractor=lambda record, _t: record.value)
    builder.table("in", consumed=consumed, store="s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in").pipe_input("k", 5, timestamp=1)
        row: Any = driver.get_timestamped_key_value_store("s").get("k")
        assert (row.value, row.timestamp) == (5, 5)


def test_a_plan_says_what_may_not_be_split_or_asked_for_times() -> None:
    """A partition whose times depend on one another is read by one task."""
    builder = StreamsBuilder()
    for name, extractor in {
        "a": None,
        "b": LogAndSkipOnInvalidTimestamp,
        "c": UsePartitionTimeOnInvalidTimestamp,
        "d": WallclockTimestampExtractor,
        "e": lambda record, _time: record.timestamp,
    }.items():
        builder.stream(name, consumed=Consumed(timestamp_extractor=extractor))
    made = plan(builder.build())
    assert made.unsplit == {2, 4}
    assert made.retimed == {"d", "e"}


def pattern_of(topology: TopologyGraph) -> SourceNode:
    node = topology.nodes[0]
    assert isinstance(node, SourceNode)
    return node


def test_all_topics_that_a_pattern_matches_are_read() -> None:
    """Those that are made later too, in the order in which they were found."""
    builder = StreamsBuilder()
    builder.stream(re.compile("orders-[a-z]+"), key=str, value=int).map_values_with_key(
        lambda key, value: [key, value]
    ).to("out", value=list)
    with TopologyTestDriver(builder.build(), crash_after_every_record=True) as driver:
        for n, topic in enumerate(["orders-us", "orders-eu", "orders-us"]):
            driver.create_input_topic(topic).pipe_input(topic, n)
        got = driver.create_output_topic("out").read_values_to_list()
        with pytest.raises(Exception, match="does not read topic 'orders-7'"):
            driver.create_input_topic("orders-7")
    assert got == [["orders-us", 0], ["orders-eu", 1], ["orders-us", 2]]


def test_topics_found_later_come_behind_those_known_before() -> None:
    """So the order of records of known topics never changes."""
    builder = StreamsBuilder()
    builder.stream("z", name="z")
    builder.stream(re.compile("[a-m]"), name="found")
    builder.stream("n", name="n")
    made = plan(builder.build())
    assert made.topics == ("n", "z")
    assert made.has_patterns
    later = made.with_topics(["c", "x", "b", "n"]).with_topics(["b", "a"])
    assert later.topics == ("n", "z", "c", "b", "a")
    assert later.found_topics == ("c", "b", "a")
    assert later.with_topics(["a"]) is later
    assert later.fingerprint == made.fingerprint
    assert made.with_topics(later.found_topics) == later


def test_the_same_pattern_is_one_source() -> None:
    """And another reading of it is refused."""
    builder = StreamsBuilder()
    first = builder.stream(re.compile("a.*"), key=str)
    assert builder.stream(re.compile("a.*"), key=str).name == first.name == "a"
    with pytest.raises(SourceConflictError):
        builder.stream(re.compile("a.*"), key=bytes)


@pytest.mark.parametrize("pattern_first", [True, False])
def test_a_topic_that_is_read_already_is_not_matched(pattern_first: bool) -> None:
    """Whichever came first; as a table too."""
    builder = StreamsBuilder()
    calls: list[Any] = [
        lambda: builder.stream(re.compile("a.*")),
        lambda: builder.table("abc", key=bytes, value=bytes),
    ]
    first, second = calls if pattern_first else reversed(calls)
    first()
    with pytest.raises(StreamAndTableError) as caught:
        second()
    assert caught.value.fields["topic"] == "abc"


def test_a_topic_that_two_patterns_match_is_refused_when_it_is_found() -> None:
    """Nobody can know before."""
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), name="first")
    builder.stream(re.compile(".*z"), name="second")
    made = plan(builder.build())
    assert made.with_topics(["ab", "yz"]).found_topics == ("ab", "yz")
    with pytest.raises(SourceConflictError) as caught:
        made.with_topics(["abz"])
    assert caught.value.fields == {"topic": "abz", "sources": ("first", "second")}


def test_a_pattern_is_part_of_the_shape() -> None:
    """With its flags; and its source is named by what a name may hold of it."""
    prints: set[str] = set()
    for pattern in (re.compile("a"), re.compile("b"), re.compile("a", re.IGNORECASE)):
        builder = StreamsBuilder()
        builder.stream(pattern, name="same")
        prints.add(builder.build().fingerprint)
    assert len(prints) == 3
    builder = StreamsBuilder()
    assert builder.stream(re.compile(r"orders\.(us|eu)")).name == "orders-.-us-eu"
    assert builder.stream(re.compile(r"\W")).name == "W"
    assert builder.stream(re.compile(r".*")).name == "pattern"
    wrong: Any = re.compile(b"a")
    with pytest.raises(BadOptionError):
        builder.stream(wrong)


@pytest.mark.parametrize(
    ("reset", "kept"),
    [
        (None, None),
        ("latest", "latest"),
        (AutoOffsetReset.earliest(), "earliest"),
        (AutoOffsetReset.latest(), "latest"),
        (AutoOffsetReset.none(), "none"),
        (AutoOffsetReset.by_duration(timedelta(minutes=90)), "by_duration:90m"),
    ],
)
def test_where_reading_begins_is_said_by_word_or_by_object(reset: Any, kept: str | None) -> None:
    """Both come to the same."""
    builder = StreamsBuilder()
    builder.stream("in", consumed=Consumed(auto_offset_reset=reset))
    assert pattern_of(builder.build()).auto_offset_reset == kept


@pytest.mark.parametrize(
    ("reset", "says"),
    [
        (AutoOffsetReset.by_duration(timedelta(seconds=-1)), "duration=.* is negative"),
        (AutoOffsetReset.by_duration(cast("Any", 3_600)), "as its duration, not 3600"),
        (AutoOffsetReset(strategy="by_duration"), "as its duration, not None"),
        (AutoOffsetReset(strategy=cast("Any", "newest")), "where reading can begin"),
        (AutoOffsetReset(strategy="latest", duration=timedelta(1)), "where reading can begin"),
        (timedelta(1), "where reading can begin"),
    ],
)
def test_a_place_to_begin_that_makes_no_sense_is_refused(reset: Any, says: str) -> None:
    """At the user's line."""
    with pytest.raises(BadOptionError, match=says):
        StreamsBuilder().stream("in", consumed=Consumed(auto_offset_reset=reset))
