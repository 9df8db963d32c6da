"""The join of two streams, against a model in plain Python and record by record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from mustela import DataError, JoinWindows, StreamsBuilder, TopologyTestDriver
from mustela.plan.keygroups import key_group
from mustela.plan.plan import Plan
from mustela.planner.options import PlanOptions
from mustela.state.kinds import list_bytes, waiting
from mustela.testing import driver as driver_module
from mustela.topology.graph import TopologyGraph
from tests.unit.operators.stream_join_model import (
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


def topology(kind: Kind, spans: Spans) -> TopologyGraph:
    builder = StreamsBuilder()
    left = builder.stream("in.0", key=int, value=str)
    right = builder.stream("in.1", key=int, value=str)
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    join(right, lambda a, b: [a, b], windows=milliseconds(spans), store="j", value=list).to("out")
    return builder.build()


def run(
    joined: TopologyGraph, epochs: Sequence[Sequence[Came]], *, emit: str = "every", **options: Any
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


@pytest.mark.slow
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
    joined: TopologyGraph, records: Sequence[Came], times: Sequence[int], **options: Any
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


@pytest.mark.parametrize(
    ("spans", "left", "right"),
    [((10, 0, 0), 100, 90), ((0, 0, 0), 100, 100), ((-5, 10, 0), 100, 110)],
)
def test_by_watermark_the_edge_of_a_window_belongs_to_it(
    spans: Spans, left: int, right: int
) -> None:
    """Also when both sides have gone on; with stream time Kafka Streams' store has forgotten it."""
    first, second = sorted([Came(0, 1, "a", left), Came(1, 1, "b", right)], key=lambda c: c[3])
    far = Came(first.side, 2, "x", second.timestamp)
    records = [first, far, second]
    expected = [Result(1, "a", "b", max(left, right))]
    assert run_by_watermark(topology("inner", spans), records, []) == expected
    assert run(topology("inner", spans), one_by_one(records)) == []


# --- a stream with itself -------------------------------------------------------------------------


def self_topology(spans: Spans) -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("in.0", key=int, value=str)
    windows = milliseconds(spans)
    stream.join(stream, lambda a, b: [a, b], windows=windows, store="j", value=list).to("out")
    builder.stream("in.1", key=int, value=str)
    return builder.build()


@contextmanager
def rules_off(*names: str) -> Iterator[None]:
    """Let the driver plan without some rules."""
    plain = driver_module.plan

    def planned(topology: TopologyGraph, *, options: PlanOptions) -> Plan:
        return plain(topology, options=replace(options, rules_off=frozenset(names)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver_module, "plan", planned)
        yield


@given(
    records=RECORDS.map(lambda records: [record._replace(side=0) for record in records]),
    spans=SPANS,
    cuts=st.lists(st.integers(1, 12), max_size=5),
)
@QUICK
def test_a_stream_with_itself_is_each_record_twice(
    records: list[Came], spans: Spans, cuts: list[int]
) -> None:
    """First as a left one, then as a right one; with one store or with two."""
    records = numbered(records)
    epochs = cut(records, cuts)
    both = [one for record in in_merged_order(epochs) for one in (record, record._replace(side=1))]
    expected = model("inner", spans).all(both)
    joined = self_topology(spans)
    assert run(joined, epochs) == expected
    with rules_off("single_store_self_join"):
        assert run(joined, epochs) == expected
    assert run(joined, epochs, crash_after_every_record=True) == expected


def test_a_left_join_of_a_stream_with_itself_works_too() -> None:
    """It keeps two stores, since records wait by side."""
    builder = StreamsBuilder()
    stream = builder.stream("in.0", key=int, value=str)
    later = JoinWindows(
        before=timedelta(milliseconds=-1), after=timedelta(milliseconds=10), grace=timedelta(0)
    )
    stream.left_join(stream, lambda a, b: [a, b], windows=later, store="j", value=list).to("out")
    builder.stream("in.1", key=int, value=str)
    records = [Came(0, 1, "a", 100), Came(0, 1, "b", 105), Came(0, 2, "c", 130)]
    assert run(builder.build(), one_by_one(records)) == [
        Result(1, "a", "b", 105),
        Result(1, "b", None, 105),
    ]


# --- what comes along -----------------------------------------------------------------------------


def test_a_joiner_may_change_what_it_is_given() -> None:
    """What is kept are bytes: each result begins with the values as they came."""
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=list)
    right = builder.stream("right", key=str, value=list)
    windows = milliseconds((10, 10, 0))

    def spoil(a: list[int], b: list[int]) -> list[int]:
        b.append(99)
        return a + b

    left.join(right, spoil, windows=windows, store="j", value=list).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for time in (1, 2):
            driver.create_input_topic("right").pipe_input("k", [time], timestamp=time)
        with driver.epoch():
            for time in (3, 4):
                driver.create_input_topic("left").pipe_input("k", [time], timestamp=time)
        out = driver.create_output_topic("out")
        assert out.read_values_to_list() == [[3, 1, 99], [3, 2, 99], [4, 1, 99], [4, 2, 99]]


@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_a_joiner_that_fails_meets_the_handler_once_for_each_result(handler: str) -> None:
    """Other results of the same record are none the worse."""
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=int)
    right = builder.stream("right", key=str, value=int)
    windows = milliseconds((10, 10, 0))
    left.join(right, lambda a, b: a // b, windows=windows, store="j", value=int).to("out")
    values = {"processing_handler": handler, "dead_letter_topic": "dead"}
    with TopologyTestDriver(builder.build(), settings=values) as driver:
        for time, value in enumerate((2, 0, 4)):
            driver.create_input_topic("right").pipe_input("k", value, timestamp=time)
        record = driver.create_input_topic("left")
        if handler == "fail":
            with pytest.raises(DataError) as caught:
                record.pipe_input("k", 8, timestamp=5)
            assert caught.value.fields["topic"] == "left"
            assert caught.value.fields["cause"] == "ZeroDivisionError"
            return
        record.pipe_input("k", 8, timestamp=5)
        assert driver.create_output_topic("out").read_values_to_list() == [4, 2]
        dead = driver.create_output_topic("dead")
        assert dead.queue_size == (handler == "dead_letter")


def test_a_result_has_the_headers_of_the_record_that_caused_it() -> None:
    """Also that of a window which the record closes, as in Kafka Streams."""
    with TopologyTestDriver(topology("left", (10, 10, 0))) as driver:
        left, right = (driver.create_input_topic(f"in.{side}") for side in (0, 1))
        left.pipe_input(1, "a", timestamp=0, headers=(("h", b"a"),))
        left.pipe_input(2, "b", timestamp=1, headers=(("h", b"b"),))
        right.pipe_input(1, "c", timestamp=2, headers=(("h", b"c"),))
        left.pipe_input(3, "d", timestamp=12, headers=(("h", b"d"),))
        out = driver.create_output_topic("out", key=int, value=list)
        assert [
            (record.key, record.value, record.headers) for record in out.read_records_to_list()
        ] == [(1, ["a", "c"], (("h", b"c"),)), (2, ["b", None], (("h", b"d"),))]


def test_null_keys_and_values_are_counted() -> None:
    """Only those that have no result."""
    with TopologyTestDriver(topology("left", (10, 10, 0))) as driver:
        left, right = (driver.create_input_topic(f"in.{side}") for side in (0, 1))
        left.pipe_input(None, "a")
        left.pipe_input(None, None)
        left.pipe_input(1, None)
        right.pipe_input(None, "b")
        step = "in.0.left_join"
        assert driver.metrics[f"dropped_null_key:{step}"] == 2
        assert driver.metrics[f"dropped_null_value:{step}"] == 1
        assert driver.create_output_topic("out").queue_size == 1


@pytest.mark.slow
@pytest.mark.parametrize("event_time", ["stream-time", "watermark"])
def test_what_is_over_is_dropped_from_the_stores(event_time: str) -> None:
    """However long the streams go on, the stores hold a few windows."""
    values = {"event_time": event_time}
    with TopologyTestDriver(topology("outer", (10, 10, 0)), settings=values) as driver:
        topics = [driver.create_input_topic(f"in.{side}") for side in (0, 1)]
        sizes: list[int] = []
        for time in range(0, 40_000, 100):
            for topic in topics:
                topic.pipe_input(time, "v", timestamp=time)
            sizes.append(sum(len(rows) for rows in stored(driver).values()))
        assert max(sizes) < 80, max(sizes)


def stored(driver: TopologyTestDriver) -> dict[str, list[bytes]]:
    """Return the keys of the rows of each store."""
    cluster = driver._cluster
    found: dict[str, list[bytes]] = {}
    for place, environment in cluster.environments.items():
        snapshot = environment.snapshot(cluster.committed(place))
        for spec in environment.spec.stores:
            found[spec.name] = [key for key, _ in snapshot.range(spec.name, None, None)]
        snapshot.close()
    return found


# --- keys with a great many records ---------------------------------------------------------------


@every_kind
@given(records=RECORDS, spans=SPANS, cuts=st.lists(st.integers(1, 12), max_size=8))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_long_lists_are_handled_in_parts(
    kind: Kind, records: list[Came], spans: Spans, cuts: list[int]
) -> None:
    """A list that grew too long is sealed, and that does not show."""
    records = numbered(records)
    epochs = cut(records, cuts)
    expected = model(kind, spans).all(in_merged_order(epochs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_bytes, "ROW_BYTES_MAX", 60)
        patch.setattr(waiting, "BLOCK_ROWS", 2)
        got = run(topology(kind, spans), epochs, crash_after_every_record=True)
    assert got == expected


@pytest.mark.slow
@every_kind
@given(records=RECORDS, spans=SPANS, times=st.lists(st.integers(0, 70), max_size=12))
@example(  # the earlier of two records of one place is merged, the later one is not
    records=[Came(1, 1, "v", 44), Came(1, 3, "v", 45), Came(1, 3, "v", 45)],
    spans=(13, 0, 3),
    times=[59, 61],
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_waits_is_handled_in_parts_and_merged(
    kind: Kind, records: list[Came], spans: Spans, times: list[int]
) -> None:
    """However small its blocks are, and however often they are merged."""
    records = numbered(records)
    before, after, grace = spans
    model = WatermarkJoinModel(kind, before=before, after=after, grace=grace)
    expected = model.all(with_order_times(records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "BLOCK_ROWS", 2)
        patch.setattr(waiting, "PARTS_MAX", 0)
        options = {"crash_after_every_record": True}
        assert run_by_watermark(topology(kind, spans), records, times, **options) == expected


def test_what_a_frequent_key_costs_does_not_grow_with_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each epoch writes a row of bounded length, however long the list is."""
    monkeypatch.setattr(list_bytes, "ROW_BYTES_MAX", 1_000)
    with TopologyTestDriver(topology("inner", (1, 1, 60_000))) as driver:
        left, right = (driver.create_input_topic(f"in.{side}") for side in (0, 1))
        for time in range(400):
            left.pipe_input(1, "x" * 50, timestamp=time)
        rows = [
            row
            for (store, _), log in driver._cluster.changelogs.items()
            if store == "j-this-join-store"
            for row in log
        ]
        assert max(len(value or b"") for _, value in rows) < 1_200
        right.pipe_input(1, "y", timestamp=200)
        out = driver.create_output_topic("out", key=int, value=list)
        assert len(out.read_values_to_list()) == 3
        # Everything is dropped when its time is over, what was sealed too.
        left.pipe_input(1, "z", timestamp=1_000_000)
        right.pipe_input(1, "z", timestamp=1_000_000)
        sizes = {store: len(keys) for store, keys in stored(driver).items()}
        # The record, as a block or settled, the number of the next block, and the time.
        assert sizes == {"j-this-join-store": 4, "j-other-join-store": 3}
