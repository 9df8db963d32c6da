"""The join of two streams, against a model in plain Python and record by record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mustela import JoinWindows, StreamsBuilder, TopologyTestDriver
from mustela.plan.keygroups import key_group
from mustela.topology.graph import Topology
from tests.unit.kernel.stream_join_model import (
    Came,
    Result,
    StreamJoinModel,
    WatermarkJoinModel,
    in_merged_order,
    with_order_times,
)

Kind = Literal["inner", "left", "outer"]
Spans = tuple[int, int, int]

KINDS: tuple[Kind, ...] = ("inner", "left", "outer")
every_kind = pytest.mark.parametrize("kind", KINDS)
QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

RECORD = st.builds(
    Came,
    st.sampled_from([0, 1]),
    st.sampled_from([1, 2, 3, 1, 2, None]),
    st.sampled_from(["v", "w", "x", "y", None]),
    st.integers(0, 60),
)
RECORDS = st.lists(RECORD, max_size=40)
SPANS = st.tuples(st.integers(-8, 20), st.integers(-8, 20), st.sampled_from([0, 0, 3, 30])).filter(
    lambda spans: spans[0] + spans[1] >= 0
)


def numbered(records: Sequence[Came]) -> list[Came]:
    """Give each value a number, so that none is like another."""
    return [
        record._replace(value=record.value and f"{record.value}{number}")
        for number, record in enumerate(records)
    ]


def milliseconds(spans: Spans) -> JoinWindows:
    before, after, grace = (timedelta(milliseconds=span) for span in spans)
    return JoinWindows(before=before, after=after, grace=grace)


def topology(kind: Kind, spans: Spans) -> Topology:
    builder = StreamsBuilder()
    left = builder.stream("in.0", key=int, value=str)
    right = builder.stream("in.1", key=int, value=str)
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    join(right, lambda a, b: [a, b], windows=milliseconds(spans), store="j", value=list).to("out")
    return builder.build()


def run(
    joined: Topology, epochs: Sequence[Sequence[Came]], *, emit: str = "every", **options: Any
) -> list[Result]:
    values = {"event_time": "stream-time", "emit": emit, **options.pop("values", {})}
    with TopologyTestDriver(joined, settings=values, **options) as driver:
        topics = [driver.create_input_topic(f"in.{side}") for side in (0, 1)]
        for epoch in epochs:
            with driver.epoch():
                for side, key, value, time in epoch:
                    topics[side].pipe_input(key, value, timestamp=time)
        out = driver.create_output_topic("out", key=int, value=list)
        return [
            Result(record.key, record.value[0], record.value[1], record.timestamp)
            for record in out.read_records_to_list()
        ]


def model(kind: Kind, spans: Spans, *, groups: int = 1) -> StreamJoinModel:
    before, after, grace = spans
    return StreamJoinModel(
        kind,
        before=before,
        after=after,
        grace=grace,
        group_of=lambda key: key_group(key, groups),
    )


def one_by_one(records: Sequence[Came]) -> list[list[Came]]:
    return [[record] for record in records]


@every_kind
@given(records=RECORDS, spans=SPANS, emit=st.sampled_from(["every", "barrier"]))
@QUICK
def test_one_record_an_epoch_is_kafka_streams_to_the_letter(
    kind: Kind, records: list[Came], spans: Spans, emit: str
) -> None:
    """Same results in the same order, whatever is late, doubled or null."""
    records = numbered(records)
    expected = model(kind, spans).all(records)
    assert run(topology(kind, spans), one_by_one(records), emit=emit) == expected


@every_kind
@given(records=RECORDS, spans=SPANS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_crash_after_every_record_changes_nothing(
    kind: Kind, records: list[Came], spans: Spans
) -> None:
    """Nor do key groups and lanes, but that each group has its own time."""
    records = numbered(records)
    expected = model(kind, spans, groups=8).all(records)
    options = {"crash_after_every_record": True, "key_groups": 8, "lanes": 3}
    assert run(topology(kind, spans), one_by_one(records), **options) == expected


@every_kind
@given(records=RECORDS, spans=SPANS, cuts=st.lists(st.integers(1, 12), max_size=5))
@QUICK
def test_many_records_an_epoch_are_handled_in_merged_order(
    kind: Kind, records: list[Came], spans: Spans, cuts: list[int]
) -> None:
    """A batch gives what its records would give one by one in that order."""
    records = numbered(records)
    epochs = cut(records, cuts)
    expected = model(kind, spans).all(in_merged_order(epochs))
    assert run(topology(kind, spans), epochs) == expected


def cut(records: Sequence[Came], cuts: Sequence[int]) -> list[list[Came]]:
    """Cut records into epochs of the given sizes; the last takes the rest."""
    epochs: list[list[Came]] = []
    start = 0
    for size in cuts:
        epochs.append(list(records[start : start + size]))
        start += size
    epochs.append(list(records[start:]))
    return [epoch for epoch in epochs if epoch]


# --- by watermark ---------------------------------------------------------------------------------


def run_by_watermark(
    joined: Topology, records: Sequence[Came], times: Sequence[int], **options: Any
) -> list[Result]:
    """Run epochs that end at the given times, and then let all windows close."""
    values = {"event_time": "watermark", "emit": options.pop("emit", "barrier")}
    with TopologyTestDriver(joined, settings=values, **options) as driver:
        topics = [driver.create_input_topic(f"in.{side}") for side in (0, 1)]
        for topic in topics:  # both have a time from the beginning
            topic.pipe_input(None, None, timestamp=0)
        left = with_order_times(records)
        for until in [*sorted(times), 1_000]:
            with driver.epoch(until=until):
                for _, (side, key, value, time) in (one for one in left if one[0] < until):
                    topics[side].pipe_input(key, value, timestamp=time)
            left = [one for one in left if one[0] >= until]
        out = driver.create_output_topic("out", key=int, value=list)
        return [
            Result(record.key, record.value[0], record.value[1], record.timestamp)
            for record in out.read_records_to_list()
        ]


@every_kind
@given(records=RECORDS, spans=SPANS, times=st.lists(st.integers(0, 70), max_size=5))
@QUICK
def test_by_watermark_any_cut_in_time_gives_the_same(
    kind: Kind, records: list[Came], spans: Spans, times: list[int]
) -> None:
    """The same results in the same order, late records included."""
    records = numbered(records)
    before, after, grace = spans
    model = WatermarkJoinModel(kind, before=before, after=after, grace=grace)
    expected = model.all(with_order_times(records))
    assert run_by_watermark(topology(kind, spans), records, times) == expected


@every_kind
@given(records=RECORDS, spans=SPANS, times=st.lists(st.integers(0, 70), max_size=5))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_by_watermark_crashes_groups_and_lanes_change_nothing(
    kind: Kind, records: list[Came], spans: Spans, times: list[int]
) -> None:
    """All key groups have one time, so only results of different keys may change places."""
    records = numbered(records)
    before, after, grace = spans
    model = WatermarkJoinModel(kind, before=before, after=after, grace=grace)
    expected = model.all(with_order_times(records))
    options = {"crash_after_every_record": True, "key_groups": 8, "lanes": 3, "emit": "every"}
    got = run_by_watermark(topology(kind, spans), records, times, **options)
    for key in (1, 2, 3, None):
        assert [one for one in got if one.key == key] == [one for one in expected if one.key == key]


def test_by_watermark_a_window_closes_though_no_record_comes() -> None:
    """The watermark alone closes it, in each key group."""
    settings_ = {"event_time": "watermark"}
    with TopologyTestDriver(
        topology("outer", (10, 20, 5)), settings=settings_, key_groups=8, lanes=2
    ) as driver:
        left, right = (driver.create_input_topic(f"in.{side}") for side in (0, 1))
        with driver.epoch():
            left.pipe_input(1, "a", timestamp=100)
            right.pipe_input(2, "b", timestamp=100)
        out = driver.create_output_topic("out", key=int, value=list)
        driver.advance_watermark(115)
        assert out.is_empty
        driver.advance_watermark(116)
        assert out.read_key_values_to_list() == [(2, [None, "b"])]
        driver.advance_watermark(125)
        assert out.is_empty
        driver.advance_watermark(126)
        assert out.read_key_values_to_list() == [(1, ["a", None])]
