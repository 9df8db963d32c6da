"""Cogroups against a fold over the merged input, plain and in windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import (
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    UsageError,
    Windowed,
)
from mustela.api.errors import (
    BadOptionError,
    FunctionError,
    InitializerError,
    JoinKeysError,
    OtherBuilderError,
)
from mustela.streams import CogroupedKStream
from mustela.topology.graph import TopologyGraph
from tests.epochs import by_key
from tests.unit.operators.table_models import Given, Out, in_order, run

WAYS = [
    {},
    {"key_groups": 8, "lanes": 3},
    {"key_groups": 4, "lanes": 2, "crash_after_every_record": True},
]
EVERY = {"emit": "every"}

TOPICS = ("one", "two", "words")
NUMBERS = st.builds(
    Given,
    topic=st.sampled_from(TOPICS[:2]),
    key=st.one_of(st.none(), st.sampled_from("abc")),
    value=st.one_of(st.none(), st.integers(0, 9)),
    timestamp=st.integers(0, 40),
)
RECORDS = st.one_of(
    NUMBERS,
    st.builds(
        Given,
        topic=st.just("words"),
        key=st.just("k"),
        value=st.sampled_from("abc"),
        timestamp=st.integers(0, 40),
    ),
)
EPOCHS = st.lists(st.lists(RECORDS, min_size=1, max_size=8), max_size=6)


def push(_key: str, value: int, total: list[Any]) -> list[Any] | None:
    """Change the aggregate in place; a zero deletes the row."""
    total.append(value)
    return total if value else None


def push_negative(_key: str, value: int, total: list[Any]) -> list[Any]:
    total.append(-value)
    return total


def push_count(_key: str, value: int, total: list[Any]) -> list[Any]:
    total.append(f"n{value}")
    return total


def cogrouped(builder: StreamsBuilder) -> CogroupedKStream[str, list[Any]]:
    """Three streams of one key: two from topics, one that comes from a table of another stage."""
    one = builder.stream("one", key=str, value=int).group_by_key()
    two = builder.stream("two", key=str, value=int).group_by_key()
    words = builder.stream("words", key=str, value=str).group_by(lambda _key, word: word, key=str)
    counts = words.count(store="counts").to_stream().group_by_key()
    both = one.cogroup(push).cogroup(two, push_negative)
    return both.cogroup(counts, push_count)


def topology() -> TopologyGraph:
    builder = StreamsBuilder()
    table = cogrouped(builder).aggregate(list, value=list, store="all")
    table.to_stream().map_values(lambda total: total and [*total]).to("out", key=str, value=list)
    spoilt = table.map_values(lambda total: total.clear() or total, value=list)
    spoilt.to_stream().to("spoilt")
    return builder.build()


def expected(records: Sequence[Given]) -> list[Out]:
    """Fold the merged input, record by record."""
    rows: dict[str, tuple[list[Any], int]] = {}
    counts: dict[str, tuple[int, int]] = {}
    found: list[Out] = []
    for record in records:
        key, value, time = record.key, record.value, record.timestamp
        if record.topic == "words":
            count, latest = counts.get(value, (0, -1))
            counts[value] = count + 1, max(latest, time)
            key, value, time = value, f"n{count + 1}", counts[value][1]
        elif record.topic == "two" and value is not None:
            value = -value
        if key is None or value is None:
            continue
        total, latest = rows.get(key, ([], -1))
        time = max(time, latest)
        if record.topic == "one" and value == 0:
            rows.pop(key, None)
            found.append(Out(key, None, time))
        else:
            rows[key] = [*total, value], time
            found.append(Out(key, rows[key][0], time))
    return found


def final(rows: Sequence[Out]) -> dict[Any, Any]:
    last = {row.key: (row.value, row.timestamp) for row in rows}
    return {key: row for key, row in last.items() if row[0] is not None}


@given(way=st.sampled_from(WAYS), epochs=EPOCHS)
def test_each_update_is_a_fold_over_the_merged_input(
    way: dict[str, Any], epochs: list[list[Given]]
) -> None:
    """With emit = every each record of each stream makes one update of the same row."""
    found = run(topology(), epochs, "out", settings=EVERY, **way)
    assert by_key(found["out"]) == by_key(expected(in_order(epochs)))


@given(way=st.sampled_from(WAYS), epochs=st.lists(RECORDS, max_size=25))
def test_the_barrier_ends_with_the_same_rows(way: dict[str, Any], epochs: list[Given]) -> None:
    """One record of each epoch is what Kafka Streams sees; the rows are those of the fold.

    Records of several topics in one epoch are merged by time, and a count tells its last number
    only, so there the rows depend on the cut, as they do in Kafka Streams with its cache on.
    """
    single = [[record] for record in epochs]
    found = run(topology(), single, "out", **way)
    assert final(found["out"]) == final(expected(epochs))


WINDOWS = {
    "time": TimeWindows(size=timedelta(milliseconds=10), grace=timedelta(seconds=1)),
    "sliding": SlidingWindows(
        time_difference=timedelta(milliseconds=5), grace=timedelta(seconds=1)
    ),
}


@pytest.mark.parametrize("kind", WINDOWS)
@given(
    way=st.sampled_from(WAYS),
    emit=st.sampled_from(["every", "barrier"]),
    records=st.lists(NUMBERS, max_size=20),
)
def test_windows_hold_the_records_of_all_streams(
    kind: str, way: dict[str, Any], emit: str, records: list[Given]
) -> None:
    """A cogroup in windows is an aggregation of the merged streams in the same windows."""
    windows: Any = WINDOWS[kind]
    builder = StreamsBuilder()
    one = builder.stream("one", key=str, value=int)
    two = builder.stream("two", key=str, value=int)
    both = one.group_by_key().cogroup(keep("one")).cogroup(two.group_by_key(), keep("two"))
    table = both.windowed_by(windows).aggregate(list, value=list)
    table.to_stream().to("out", value=list)
    merged = one.map_values(tag("one")).merge(two.map_values(tag("two")))
    alike = merged.group_by_key(key=str, value=list).windowed_by(windows)
    plain = alike.aggregate(list, lambda _key, value, total: [*total, value], value=list)
    plain.to_stream().to("alike", value=list)
    single = [[record] for record in records]
    found = run(builder.build(), single, "out", "alike", settings={"emit": emit}, **way)
    assert by_key(found["out"]) == by_key(found["alike"])


def keep(name: str) -> Any:
    return lambda _key, value, total: [*total, tag(name)(value)]


def tag(name: str) -> Any:
    return lambda value: None if value is None else [name, value]


def add(_key: str, value: int, total: int) -> int:
    return total + value


def add_hundredfold(_key: str, value: int, total: int) -> int:
    return total + 100 * value


def test_sessions_are_merged_over_streams() -> None:
    """A record of one stream can join two sessions of another."""
    builder = StreamsBuilder()
    one = builder.stream("one", key=str, value=int).group_by_key()
    two = builder.stream("two", key=str, value=int).group_by_key()
    both = one.cogroup(add).cogroup(two, add_hundredfold)
    gap = SessionWindows(inactivity_gap=timedelta(milliseconds=5), grace=timedelta(seconds=1))
    table = both.windowed_by(gap).aggregate(int, lambda _key, x, y: x + y, value=int)
    table.to_stream().to("out")
    records = [Given("one", "a", 1, 0), Given("one", "a", 2, 9), Given("two", "a", 3, 5)]
    found = run(builder.build(), [[record] for record in records], "out")["out"]
    assert final(found) == {Windowed(key="a", start=0, end=9): (303, 9)}


def test_a_window_is_over_for_all_streams_at_once() -> None:
    """A late record is late whatever stream it comes by (cogroup-shares-stream-time)."""
    builder = StreamsBuilder()
    one = builder.stream("one", key=str, value=int).group_by_key()
    two = builder.stream("two", key=str, value=int).group_by_key()
    windows = TimeWindows(size=timedelta(milliseconds=5), grace=timedelta(0))
    table = one.cogroup(add).cogroup(two, add_hundredfold).windowed_by(windows)
    table.aggregate(int, value=int).to_stream().to("out")
    records = [Given("one", "a", 1, 5), Given("two", "a", 2, 4), Given("two", "a", 3, 6)]
    found = run(builder.build(), [[record] for record in records], "out")["out"]
    window = Windowed(key="a", start=5, end=10)
    assert found == [Out(window, 1, 5), Out(window, 301, 6)]


def test_a_stream_that_is_cogrouped_twice_is_folded_by_both_aggregators() -> None:
    """Kafka Streams forgets the first (cogroup-takes-a-stream-twice)."""
    builder = StreamsBuilder()
    one = builder.stream("one", key=str, value=int).group_by_key()
    table = one.cogroup(add).cogroup(one, add_hundredfold).aggregate(int, value=int)
    table.to_stream().to("out")
    records = [Given("one", "a", 1, 5), Given("one", "b", 2, 6)]
    found = run(builder.build(), [[record] for record in records], "out", settings=EVERY)["out"]
    assert found == [Out("a", 1, 5), Out("a", 101, 5), Out("b", 2, 6), Out("b", 202, 6)]


def wrong(what: str) -> None:
    builder = StreamsBuilder()
    one = builder.stream("one", key=str, value=int).group_by_key()
    two = builder.stream("two", key=int, value=int).group_by_key()
    match what:
        case "arity":
            one.cogroup(lambda _value, total: total)  # type: ignore[arg-type,misc]  # pyright: ignore[reportArgumentType]
        case "keys":
            numbers: Any = two
            one.cogroup(add).cogroup(numbers, add)
        case "builder":
            other = StreamsBuilder().stream("two", key=str, value=int).group_by_key()
            one.cogroup(add).cogroup(other, add)
        case "stream":
            stream: Any = builder.stream("three", key=str, value=int)
            one.cogroup(add).cogroup(stream, add)
        case "initializer":
            first: Any = []
            one.cogroup(add).aggregate(first)
        case _:
            windows: Any = timedelta(seconds=1)
            one.cogroup(add).windowed_by(windows)


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("arity", FunctionError),
        ("keys", JoinKeysError),
        ("builder", OtherBuilderError),
        ("stream", BadOptionError),
        ("initializer", InitializerError),
        ("windows", BadOptionError),
    ],
)
def test_what_is_wrong_is_said_when_it_is_written(what: str, error: type[UsageError]) -> None:
    """Wrong compositions fail at the user's line, with a fix."""
    with pytest.raises(error) as caught:
        wrong(what)
    assert caught.value.fix
    assert caught.value.at is not None
    assert caught.value.at.file == __file__
