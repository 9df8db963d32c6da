"""What a user gets who writes what Java, another library or a guess would have: one table.

Each row is a call as it is tried first. It works, or it is answered by an error of Mustela's that
names the call which works.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mustela import (
    App,
    Consumed,
    JoinWindows,
    Materialized,
    Record,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.api.errors import BadCallError
from mustela.dsl.missing import VerbStage
from mustela.errors import UsageError
from mustela.kernel.aggregates.watched import MissingReturnWarning
from mustela.model import NegativeTimestampError, RecordTimeError, fixed_key_record
from mustela.windows import BufferConfig, UnlimitedWindows

NONE = timedelta(0)
MINUTE = timedelta(minutes=1)
NEAR = JoinWindows.of_time_difference(MINUTE, grace=NONE)
MINUTES = TimeWindows(size=MINUTE, grace=NONE)
TEXTS: dict[str, Any] = {"key": str, "value": str}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000


class Program:
    """What the calls of the table are made on."""

    def __init__(self) -> None:
        self.builder: Any = StreamsBuilder()
        self.left: Any = self.builder.stream("left", **TEXTS)
        self.right: Any = self.builder.stream("right", **TEXTS)
        self.rows: Any = self.builder.table("rows", **TEXTS)
        self.others: Any = self.builder.table("others", **TEXTS)
        self.whole: Any = self.builder.global_table("whole", **TEXTS)
        self.grouped: Any = self.left.group_by_key()
        self.right.to("copies")

    def driver(self) -> Any:
        return TopologyTestDriver(self.builder)

    def piped(self) -> Any:
        return self.driver().create_input_topic("left")

    def counts(self, minutes: int) -> Any:
        windows = TimeWindows(size=minutes * MINUTE, grace=NONE)
        return self.grouped.windowed_by(windows).count(store=f"counts-{minutes}")


def both(left: str, right: str) -> str:
    return f"{left}{right}"


def value_of(value: str) -> str:
    return value


def key_of(key: str, value: str) -> str:
    return key + value


Call = Callable[[Program], Any]

WORKS: dict[str, Call] = {
    # options, and what is joined, in Kafka Streams' places
    "stream(topic, Consumed)": lambda p: p.builder.stream("t", Consumed(**TEXTS)),
    "table(topic, Consumed, Materialized)": lambda p: p.builder.table(
        "t", Consumed(**TEXTS), Materialized(store="t")
    ),
    "join(other, joiner, windows)": lambda p: p.left.join(p.right, both, NEAR),
    "join(other, windows, joiner)": lambda p: p.left.join(p.right, NEAR, both),
    "join(global, mapper, joiner)": lambda p: p.left.join(p.whole, key_of, both),
    "join(table, foreign key, joiner)": lambda p: p.rows.join(p.others, value_of, both),
    "join(table, foreign key, joiner, options)": lambda p: p.rows.join(
        p.others, value_of, both, Materialized(store="joined")
    ),
    "left_join(table, foreign key, joiner)": lambda p: p.rows.left_join(p.others, value_of, both),
    "create_input_topic(name, key, value)": lambda p: p.driver().create_input_topic(
        "left", str, str
    ),
    "create_input_topic(name, key, value, start, advance)": lambda p: p.driver().create_input_topic(
        "left", str, str, 5, 5
    ),
    "create_output_topic(name, key, value)": lambda p: p.driver().create_output_topic(
        "copies", str, str
    ),
    "TopologyTestDriver(topology, settings, clock)": lambda p: TopologyTestDriver(
        p.builder, {"emit": "every"}, 5
    ),
    "pipe_input(key, value, timestamp)": lambda p: p.piped().pipe_input("a", "b", 5),
    "App(name, settings)": lambda _: App("x", {"emit": "every"}),
    "App(name, settings=...)": lambda _: App("x", settings={"commit.interval.ms": 5}),
    # one word for how a key is found
    "join(global, foreign_key=)": lambda p: p.left.join(p.whole, both, foreign_key=value_of),
    "join(global, foreign_key_with_key=)": lambda p: p.left.join(
        p.whole, both, foreign_key_with_key=key_of
    ),
    "left_join(global, foreign_key=)": lambda p: p.left.left_join(
        p.whole, both, foreign_key=value_of
    ),
    "join(table, foreign_key=)": lambda p: p.rows.join(p.others, both, foreign_key=value_of),
    "join(table, foreign_key_with_key=)": lambda p: p.rows.join(
        p.others, both, foreign_key_with_key=key_of
    ),
    # milliseconds and datetimes
    "Record(timestamp=datetime)": lambda _: Record("a", "b", timestamp=NOON),
    "UnlimitedWindows(start=ms)": lambda p: p.grouped.windowed_by(UnlimitedWindows(start=5)),
    "initial_wall_clock=datetime": lambda p: TopologyTestDriver(p.builder, initial_wall_clock=NOON),
    # the type that a mapper of keys gives
    "to_stream(mapper, key=)": lambda p: (
        p.counts(1).to_stream(lambda window, _: window.key, key=str).to("out")
    ),
}


@pytest.mark.parametrize("call", WORKS.values(), ids=list(WORKS))
def test_a_first_guess_works(call: Call) -> None:
    """As Kafka Streams has it, or as Python people write it."""
    program = Program()
    call(program)
    program.builder.build()


ANSWERED: dict[str, tuple[Call, str, str]] = {
    "join(how=)": (
        lambda p: p.left.join(p.rows, both, how="left"),
        "KStream.join has no how=",
        "join, left_join or outer_join",
    ),
    "join(on=)": (
        lambda p: p.left.join(p.whole, both, on=value_of),
        "KStream.join has no on=",
        "write foreign_key=lambda value: ...",
    ),
    "join(key_selector=)": (
        lambda p: p.left.join(p.whole, both, key_selector=value_of),
        "KStream.join has no key_selector=",
        "write foreign_key=",
    ),
    "join(foreign_key_extractor=)": (
        lambda p: p.rows.join(p.others, both, foreign_key_extractor=value_of),
        "KTable.join has no foreign_key_extractor=",
        "write foreign_key=",
    ),
    "join(global)": (
        lambda p: p.left.join(p.whole, both),
        "needs foreign_key=",
        "write foreign_key=lambda value: ...",
    ),
    "foreign_key= of two": (
        lambda p: p.left.join(p.whole, both, foreign_key=key_of),
        "cannot call its foreign_key",
        "foreign_key_with_key=",
    ),
    "foreign_key_with_key= of one": (
        lambda p: p.rows.join(p.others, both, foreign_key_with_key=value_of),
        "cannot call its foreign_key_with_key",
        "give it as foreign_key=",
    ),
    "two foreign keys": (
        lambda p: p.left.join(p.whole, both, foreign_key=value_of, foreign_key_with_key=key_of),
        "join is given two foreign keys",
        "leave out one of them",
    ),
    "table.join(windows)": (
        lambda p: p.rows.join(p.others, both, NEAR),
        "KTable.join cannot tell what a JoinWindows is",
        "leave out the windows",
    ),
    "table.join(global)": (
        lambda p: p.rows.join(p.whole, both),
        "is a GlobalKTable",
        "read its topic with table()",
    ),
    "aggregate(list, append)": (
        lambda p: p.grouped.aggregate(list, lambda _k, v, seen: seen.append(v), store="s"),
        "aggregate's adder <lambda> never returns a value",
        "return the aggregate",
    ),
    "windows.aggregate(set, add)": (
        lambda p: p.grouped.windowed_by(MINUTES).aggregate(set, lambda _k, v, s: s.add(v)),
        "aggregate's adder <lambda> never returns a value",
        "return the aggregate",
    ),
    "right_join": (
        lambda p: p.left.right_join(p.right, both, NEAR),
        "has no 'right_join'",
        "other.left_join(this, joiner)",
    ),
    "join of different windows": (
        lambda p: p.counts(1).join(p.counts(2), both),
        "their windows differ",
        "the same windows: windowed_by(...)",
    ),
    "join of windows and none": (
        lambda p: p.counts(1).join(p.rows, both),
        "their windows differ",
        "to_stream(lambda window, value: window.key, key=...)",
    ),
    "windowed_by(size=)": (
        lambda p: p.grouped.windowed_by(size=MINUTE),
        "KGroupedStream.windowed_by has no size=",
        "write windowed_by(TimeWindows(size=",
    ),
    "windowed_by()": (
        lambda p: p.grouped.windowed_by(),
        "KGroupedStream.windowed_by needs windows=",
        "windows=TimeWindows(size=",
    ),
    "SessionWindows(gap=)": (
        lambda _: SessionWindows(gap=MINUTE, grace=NONE),  # type: ignore[call-arg] # pyright: ignore
        "SessionWindows has no gap=",
        "write inactivity_gap=timedelta(minutes=30)",
    ),
    "JoinWindows without grace": (
        lambda _: JoinWindows(before=MINUTE, after=MINUTE),  # type: ignore[call-arg] # pyright: ignore
        "JoinWindows needs grace=",
        "grace=timedelta(0)",
    ),
    "of_time_difference without grace": (
        lambda _: JoinWindows.of_time_difference(MINUTE),  # type: ignore[call-arg] # pyright: ignore
        "JoinWindows.of_time_difference needs grace=",
        "grace=timedelta(0)",
    ),
    "stream(topic, type, type)": (
        lambda p: p.builder.stream("t", str, int),
        "StreamsBuilder.stream cannot tell what <class 'int'> is",
        "write key=str, value=int",
    ),
    "Consumed(type, type)": (
        lambda _: Consumed(str, int),  # type: ignore[misc] # pyright: ignore
        "Consumed cannot tell what <class 'str'> is",
        "write key=str, value=int",
    ),
    "Suppressed without a buffer": (
        lambda _: Suppressed.until_window_closes(),  # type: ignore[call-arg] # pyright: ignore
        "Suppressed.until_window_closes needs buffer=",
        "write until_window_closes(..., buffer=",
    ),
    "BufferConfig.maxRecords": (
        lambda _: BufferConfig.maxRecords(5),  # type: ignore[attr-defined] # pyright: ignore
        "BufferConfig has no 'maxRecords'",
        "BufferConfig.max_records",
    ),
    "Stores.persistentKeyValueStore": (
        lambda _: Stores.persistentKeyValueStore("x"),  # type: ignore[attr-defined] # pyright: ignore
        "Stores has no 'persistentKeyValueStore'",
        "Stores.persistent_key_value_store",
    ),
    "window store with a flag by position": (
        lambda _: Stores.persistent_window_store("x", MINUTE, MINUTE, True),  # type: ignore[misc] # pyright: ignore
        "Stores.persistent_window_store cannot tell what True is",
        "retain_duplicates=",
    ),
    "App(config=)": (
        lambda _: App("x", config={"emit": "every"}).settings,
        "there is no setting 'config.emit'",
        "did you mean 'emit'?",
    ),
    "App(name, settings, session)": (
        lambda _: App("x", {}, "spark"),  # type: ignore[misc] # pyright: ignore
        "App cannot tell what 'spark' is",
        "session=",
    ),
    "app.setUncaughtExceptionHandler": (
        lambda _: App("x").setUncaughtExceptionHandler,  # type: ignore[attr-defined] # pyright: ignore
        "App has no 'setUncaughtExceptionHandler'",
        "app.error",
    ),
    "driver.createInputTopic": (
        lambda p: p.driver().createInputTopic("left", str, str),
        "TopologyTestDriver has no 'createInputTopic'",
        "create_input_topic",
    ),
    "driver.get_key_value_store()": (
        lambda p: p.driver().get_key_value_store(),
        "TopologyTestDriver.get_key_value_store needs name=",
        "name=",
    ),
    "TopologyTestDriver(config=)": (
        lambda p: TopologyTestDriver(p.builder, config={}),  # type: ignore[call-arg] # pyright: ignore
        "TopologyTestDriver has no config=",
        "write settings=",
    ),
    "pipe_input(timestamp_ms=)": (
        lambda p: p.piped().pipe_input("a", "b", timestamp_ms=5),
        "TestInputTopic.pipe_input has no timestamp_ms=",
        "write timestamp=",
    ),
    "pipe_input at seconds": (
        lambda p: p.piped().pipe_input("a", "b", timestamp=1.5),
        "1.5 is not a point in time",
        "milliseconds since 1970",
    ),
    "advance by text": (
        lambda p: p.driver().advance_wall_clock_time("5s"),
        "needs a timedelta, or whole milliseconds, as its span, not '5s'",
        "span=timedelta(minutes=5)",
    ),
    "output.readKeyValue": (
        lambda p: p.driver().create_output_topic("copies").readKeyValue(),
        "TestOutputTopic has no 'readKeyValue'",
        "read_key_value",
    ),
    "Record at seconds": (
        lambda _: Record("a", "b", 1_767_268_800.5),  # type: ignore[arg-type] # pyright: ignore
        "cannot have the timestamp 1767268800.5",
        "int(seconds * 1000)",
    ),
    "Record at a datetime of no zone": (
        lambda _: Record("a", "b", NOON.replace(tzinfo=None)),
        "cannot have the timestamp datetime",
        "tzinfo=UTC",
    ),
    "Record at text": (
        lambda _: Record("a", "b", "noon"),  # type: ignore[arg-type] # pyright: ignore
        "cannot have the timestamp 'noon'",
        "give milliseconds",
    ),
}


@pytest.mark.parametrize(("call", "said", "fix"), ANSWERED.values(), ids=list(ANSWERED))
def test_a_guess_that_cannot_work_is_answered(call: Call, said: str, fix: str) -> None:
    """By an error of Mustela's, with what to write."""
    with pytest.raises(UsageError) as caught:
        call(Program())
    assert said in caught.value.what
    assert fix in str(caught.value.fix)


def _verbs() -> list[tuple[str, str]]:
    program = Program()
    sessions = SessionWindows(inactivity_gap=MINUTE, grace=NONE)
    cogrouped = program.grouped.cogroup(lambda _key, value, total: total + value)
    stages = {
        "builder": program.builder,
        "stream": program.left,
        "table": program.rows,
        "grouped": program.grouped,
        "grouped-table": program.rows.group_by(lambda key, value: (value, key), key=str),
        "windows": program.grouped.windowed_by(MINUTES),
        "sessions": program.grouped.windowed_by(sessions),
        "cogrouped": cogrouped,
        "cogrouped-windows": cogrouped.windowed_by(MINUTES),
        "split": program.left.split(),
    }
    STAGES.update(stages)
    found: list[tuple[str, str]] = []
    for name, stage in stages.items():
        assert isinstance(stage, VerbStage)
        methods = inspect.getmembers(type(stage), inspect.isfunction)
        found += [(name, method) for method, _ in methods if not method.startswith("_")]
    return found


STAGES: dict[str, Any] = {}


@pytest.mark.parametrize(("stage", "verb"), _verbs())
def test_no_verb_answers_with_a_bare_type_error(stage: str, verb: str) -> None:
    """Whatever is wrong with a call, it names the class that the user has."""
    handle = STAGES[stage]
    method = getattr(handle, verb)
    with pytest.raises(BadCallError) as caught:
        method(*[object()] * 12, no_such_option=1)
    assert caught.value.what.startswith(f"{type(handle).__name__}.{verb} ")
    needed = [
        one
        for one in inspect.signature(method).parameters.values()
        if one.default is one.empty and one.kind in {one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY}
    ]
    if needed:
        with pytest.raises(BadCallError, match=f"{type(handle).__name__}.{verb} needs"):
            method()


def test_the_key_of_a_global_row_is_found_by_the_value() -> None:
    """As the key of a row of another table is."""
    program = Program()
    program.left.join(program.whole, both, foreign_key=value_of, value=str).to("out")
    with TopologyTestDriver(program.builder) as driver:
        driver.create_input_topic("whole").pipe_input("b", "!")
        driver.create_input_topic("left").pipe_input("a", "b")
        assert driver.create_output_topic("out").read_key_values_to_list() == [("a", "b!")]


def test_the_word_of_the_release_before_is_taken_with_a_warning() -> None:
    """For one release, at the user's line."""
    program = Program()
    with pytest.warns(DeprecationWarning, match="foreign_key_with_key=") as told:
        program.left.join(program.whole, both, key_mapper=key_of)
    assert told[0].filename == __file__


def test_a_record_has_the_milliseconds_of_a_datetime() -> None:
    """Wherever a record is given its time; one before 1970 is refused as before."""
    assert Record("a", "b", NOON).timestamp == NOON_MS
    assert Record("a", "b").with_timestamp(NOON).timestamp == NOON_MS
    fixed = fixed_key_record("a", "b", NOON)
    assert fixed.timestamp == NOON_MS
    assert fixed.with_timestamp(NOON).timestamp == NOON_MS
    assert type(Record("a", "b", True).timestamp) is int
    for before in (-1, datetime(1969, 12, 31, tzinfo=UTC)):
        with pytest.raises(NegativeTimestampError):
            Record("a", "b", before)
        with pytest.raises(NegativeTimestampError):
            fixed_key_record("a", "b", before)
    with pytest.raises(RecordTimeError):
        fixed_key_record("a", "b", 0.5)  # type: ignore[arg-type] # pyright: ignore


CHANGES_ONLY: dict[str, Callable[[Program], Any]] = {
    "table": lambda p: p.grouped.aggregate(
        lambda: [], lambda _k, v, seen: seen.append(v), store="s"
    ),
    "windows": lambda p: p.grouped.windowed_by(MINUTES).aggregate(
        lambda: [], lambda _k, v, seen: seen.append(v), store="s"
    ),
    "cogroup": lambda p: p.grouped.cogroup(lambda _k, v, seen: seen.append(v)).aggregate(
        list, store="s"
    ),
    "a set": lambda p: p.grouped.aggregate(
        lambda: {"first"}, lambda _k, v, seen: seen.add(v), store="s"
    ),
}


@pytest.mark.parametrize("write", CHANGES_ONLY.values(), ids=list(CHANGES_ONLY))
def test_a_lambda_that_appends_is_named_where_it_deletes_a_row(write: Call) -> None:
    """Where nothing was known when the topology was built: once, though each record does it."""
    program = Program()
    write(program)
    piped = program.piped()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        piped.pipe_key_value_list([("a", "1"), ("a", "2")], start=0)
    assert [one.category for one in told] == [MissingReturnWarning]
    assert "deleted the row" in str(told[0].message)


@pytest.mark.parametrize(
    "adder",
    [
        lambda _k, v, seen: seen.append(v) or seen,
        lambda _k, v, seen: (seen.append(v), seen)[1],
        lambda _k, v, seen: [*seen, v],
        lambda _k, _v, _seen: None,
    ],
)
def test_a_lambda_that_gives_what_it_means_is_not_named(adder: Any) -> None:
    """An aggregate, or None that is written there."""
    program = Program()
    program.grouped.aggregate(list, adder, store="s")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.piped().pipe_input("a", "1")
