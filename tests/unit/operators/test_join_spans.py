"""Joins in which each left record has a window of its own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, strategies as st

from mustela import JoinWindows, Record, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError, FunctionError
from mustela.kernel.core.failures import ProcessingError
from mustela.planner.planner import plan
from mustela.topology.graph import TopologyGraph
from mustela.topology.meaning_changes import compare_meanings
from tests.epochs import cut, ms, pipe_in_epochs

MOST = 12
LEFT_STORE = "j-this-join-store"


class Sent(NamedTuple):
    """A record; a left one's value says its window."""

    topic: str
    key: str | None
    value: tuple[int, int, int]
    timestamp: int


def before(record: Record[str, Any]) -> timedelta:
    return ms(record.value[0])


def after(record: Record[str, Any]) -> timedelta:
    return ms(record.value[1])


def pair(left: Any, right: Any) -> list[Any]:
    return [left, right]


OWN = JoinWindows(before=before, after=after, before_max=ms(MOST), after_max=ms(MOST), grace=ms(99))
WIDEST = JoinWindows(before=ms(MOST), after=ms(MOST), grace=ms(99))
VALUE = tuple[int, int, int]


def topology(kind: str, windows: JoinWindows, *, itself: bool = False) -> TopologyGraph:
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=VALUE)
    right = left if itself else builder.stream("right", key=str, value=VALUE)
    join: Any = getattr(left, kind)
    join(right, pair, windows=windows, name="j").to("out", value=list[Any])
    return builder.build()


def run(
    built: TopologyGraph, records: Sequence[Sent], sizes: Sequence[int], **options: Any
) -> list[tuple[Any, Any, Any, int]]:
    """Return key, left value, right value and time of each result, when all windows are closed."""
    with TopologyTestDriver(built, initial_wall_clock=60_000, **options) as driver:
        pipe_in_epochs(driver, cut(records, sizes))
        for number in range(2):
            for topic in {"left", *(sent.topic for sent in records)}:
                last = driver.create_input_topic(topic)
                last.pipe_input("last", (0, 0, 0), timestamp=1_000 + 500 * number)
        found = driver.create_output_topic("out").read_records_to_list()
    shown = [(r.key, *(side and tuple(side) for side in r.value), r.timestamp) for r in found]
    return [cast("Any", row) for row in shown if row[0] != "last"]


SPAN = st.sampled_from([-2, 0, 1, 4, MOST])
RECORDS = st.lists(
    st.builds(
        Sent,
        st.sampled_from(["left", "right"]),
        st.sampled_from(["a", "a", "b", None]),
        st.tuples(SPAN, SPAN.filter(lambda span: span >= 2 or span == 0), st.just(0)).map(
            lambda spans: (max(spans[0], -spans[1]), spans[1], 0)
        ),
        st.integers(0, 40),
    ),
    max_size=25,
).map(
    lambda sent: [one._replace(value=(*one.value[:2], n)) for n, one in enumerate(sent)]
)  # each value is of its own
LANES = [{}, {"key_groups": 8, "lanes": 3, "crash_after_every_record": True}]


def within(sent: dict[int, Sent], left: VALUE, right: VALUE) -> bool:
    """Say whether a right record is in the window of a left one."""
    time, other = sent[left[2]].timestamp, sent[right[2]].timestamp
    return time - left[0] <= other <= time + left[1]


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
@given(
    records=RECORDS,
    sizes=st.lists(st.integers(1, 8), max_size=8),
    lanes=st.sampled_from(LANES),
)
def test_results_are_those_of_the_widest_window_that_are_in_the_records_own(
    kind: str, event_time: str, records: list[Sent], sizes: list[int], lanes: dict[str, Any]
) -> None:
    """And who met nobody in his own is a result without a partner, once."""
    options = {"settings": {"event_time": event_time}, **lanes}
    if kind != "join":  # a record that comes behind its window is alone, whoever comes after it
        records = sorted(records, key=lambda one: one.timestamp)
    if event_time == "stream-time" and kind != "join":  # what closes windows is in one key group
        options.pop("key_groups", None)
    got = run(topology(kind, OWN), records, sizes, **options)
    sent = {one.value[2]: one for one in records}
    wide = run(topology("join", WIDEST), records, sizes, **options)
    expected = [row for row in wide if within(sent, row[1], row[2])]
    outer = {"join": set[str](), "left_join": {"left"}, "outer_join": {"left", "right"}}[kind]
    met = {row[1][2] for row in expected} | {row[2][2] for row in expected}
    for number, one in sent.items():
        if one.topic in outer and number not in met:
            left = one.value if one.topic == "left" else None
            expected.append((one.key, left, None if left else one.value, one.timestamp))
    assert sorted(got, key=repr) == sorted(expected, key=repr)


@given(records=RECORDS, sizes=st.lists(st.integers(1, 8), max_size=8))
def test_a_stream_meets_itself_in_its_own_windows(records: list[Sent], sizes: list[int]) -> None:
    """Each record as a left one has the window."""
    records = [one._replace(topic="left") for one in records]
    got = run(topology("join", OWN, itself=True), records, sizes)
    wide = run(topology("join", WIDEST, itself=True), records, sizes)
    sent = {one.value[2]: one for one in records}
    expected = [row for row in wide if within(sent, row[1], row[2])]
    assert sorted(got, key=repr) == sorted(expected, key=repr)


def test_the_window_is_that_of_when_the_record_came() -> None:
    """A function that gives something else later changes nothing for what is kept."""
    spans = [ms(10), ms(0)]
    windows = JoinWindows(
        before=ms(0), after=lambda _record: spans.pop(0), after_max=ms(10), grace=ms(0)
    )
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=int)
    right = builder.stream("right", key=str, value=int)
    left.join(right, pair, windows=windows, name="j").to("out", value=list[int])
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("left").pipe_input("a", 1, timestamp=0)
        driver.crash(lose_state=True)
        driver.create_input_topic("left").pipe_input("a", 2, timestamp=1)
        driver.create_input_topic("right").pipe_input("a", 3, timestamp=10)
        assert driver.create_output_topic("out").read_values_to_list() == [[1, 3]]


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (ms(13), "13 ms, more than before_max, which is 12 ms"),
        (5, "returned int 5, not a timedelta"),
        (timedelta(microseconds=1), "whole milliseconds"),
        (ms(-1), "ends before it begins"),
    ],
)
def test_a_record_whose_window_is_none_meets_the_handler(span: Any, told: str) -> None:
    """It is dropped or buried alone, or stops the application with its place and a way on."""

    def mine(record: Record[str, int]) -> timedelta:
        return span if record.value == 7 else ms(1)

    windows = JoinWindows(before=mine, before_max=ms(MOST), after=ms(0), grace=ms(0))
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=int)
    right = builder.stream("right", key=str, value=int)
    left.left_join(right, pair, windows=windows, name="j").to("out", value=list[Any])
    with TopologyTestDriver(builder) as driver, pytest.raises(ProcessingError) as raised:
        driver.create_input_topic("left").pipe_input("a", 7)
    assert told in str(raised.value)
    assert "larger maximum" in str(raised.value)
    settings = {"processing_handler": "dead_letter", "dead_letter_topic": "dead"}
    with TopologyTestDriver(builder, settings=settings) as driver:
        for value in (7, 8):
            driver.create_input_topic("left").pipe_input("a", value, timestamp=value)
        driver.create_input_topic("right").pipe_input("a", 9, timestamp=7)
        assert driver.create_output_topic("out").read_values_to_list() == [[8, 9]]
        (letter,) = driver.create_output_topic("dead", key=str).read_records_to_list()
        assert dict(letter.headers)["mustela.error.class"] == b"SpanError"


def test_windows_say_what_they_need() -> None:
    """At the user's line."""
    zero = ms(0)
    with pytest.raises(BadOptionError, match="write before_max="):
        JoinWindows(before=before, after=zero, grace=zero)
    with pytest.raises(BadOptionError, match="leave out after_max="):
        JoinWindows(before=zero, after=zero, after_max=ms(5), grace=zero)
    with pytest.raises(FunctionError):
        JoinWindows(before=lambda: ms(5), before_max=ms(5), after=zero, grace=zero)  # type: ignore[arg-type]
    with pytest.raises(BadOptionError, match="ends before it begins"):
        JoinWindows(before=before, before_max=ms(-5), after=zero, grace=zero)
    assert OWN.size == ms(2 * MOST)


def test_the_gate_knows_that_windows_are_the_records_own() -> None:
    """Rows without a window of their own are no rows with one."""
    own, wide = (plan(topology("join", one)).meanings[LEFT_STORE] for one in (OWN, WIDEST))
    changes = compare_meanings(wide, own)
    assert [change.field for change in changes if not change.compatible] == ["value", "window"]
