"""Windowed aggregations against models in plain Python, in both time modes and however cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from mustela import (
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
)
from mustela.plan.keygroups import key_group
from mustela.topology.graph import TopologyGraph
from mustela.topology.sink import SinkNode
from mustela.windows import EmitStrategy
from tests.epochs import cut, ms, pipe, pipe_in_epochs
from tests.unit.operators.window_models import Model, SessionModel, SlidingModel, TimeModel

MINUTE = 60_000


class Sent(NamedTuple):
    key: str | None
    value: int | None
    timestamp: int


@dataclass(frozen=True)
class Case:
    """Windows with the model of them."""

    windows: Any
    model: Callable[[Callable[[Any], int]], Model]


def tumbling(size: int, advance: int, grace: int) -> Case:
    windows = TimeWindows(size=ms(size), advance=ms(advance), grace=ms(grace))
    return Case(windows, lambda group_of: TimeModel(size, advance, grace, group_of))


def sliding(difference: int, grace: int) -> Case:
    windows = SlidingWindows(time_difference=ms(difference), grace=ms(grace))
    return Case(windows, lambda group_of: SlidingModel(difference, grace, group_of))


def session(gap: int, grace: int) -> Case:
    windows = SessionWindows(inactivity_gap=ms(gap), grace=ms(grace))
    return Case(windows, lambda group_of: SessionModel(gap, grace, group_of))


GRACE = st.sampled_from([0, 1, 4, 15, 100])
CASES = {
    "tumbling": st.builds(lambda n, grace: tumbling(n, n, grace), st.integers(1, 12), GRACE),
    "hopping": st.builds(
        lambda advance, more, grace: tumbling(advance + more, advance, grace),
        st.integers(1, 6),
        st.integers(1, 12),
        GRACE,
    ),
    "sliding": st.builds(sliding, st.integers(0, 12), GRACE),
    "session": st.builds(session, st.integers(1, 8), GRACE),
}
VALUES = st.one_of(st.none(), st.integers(0, 9))
RECORDS = st.lists(
    st.builds(Sent, st.sampled_from(["a", "a", "b", "c", None]), VALUES, st.integers(0, 40)),
    max_size=30,
)
CUTS = st.lists(st.integers(1, 8), max_size=8)


def collect(values: list[Any], value: Any) -> list[Any]:
    """Change the aggregate in place, as careless functions do."""
    values.append(value)
    return values


def absorb(left: list[Any], right: list[Any]) -> list[Any]:
    left.extend(right)
    right.clear()
    return left


def most(left: int | None, right: int | None) -> int | None:
    """Return the largest value; a null is less than any."""
    return max((x for x in (left, right) if x is not None), default=None)


def topology(windows: Any) -> TopologyGraph:
    """Collect and count in windows, on update and on close, beside branches that spoil values."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    windowed: Any = grouped.windowed_by(windows)
    adders: list[Any] = [list, lambda _k, v, values: collect(values, v)]
    if isinstance(windows, SessionWindows):
        adders.append(lambda _k, left, right: absorb(left, right))
    final = windowed.emit_strategy(EmitStrategy.on_window_close())
    lists = windowed.aggregate(*adders, value=list, store="lists")
    lists.map_values(lambda values: collect(values, 99), value=list).to_stream().to("spoilt")
    lists.to_stream().to("lists")
    windowed.count(store="counts").to_stream().to("counts")
    if not isinstance(windows, SessionWindows):  # a session whose result is null is gone
        windowed.reduce(most, associative=True, store="most").to_stream().to("most")
        merged = windowed.aggregate(*adders, merger=lambda _k, x, y: absorb(x, y), name="merged")
        merged.to_stream().to("merged", value=list)
    final.aggregate(*adders, value=list, store="final-lists").to_stream().to("final-lists")
    final.count(store="final-counts").to_stream().to("final-counts")
    return builder.build()


class Got(NamedTuple):
    rows: dict[str, list[tuple[Any, Any, int]]]
    metrics: dict[str, int]


def run(
    built: TopologyGraph, records: Sequence[Sent], sizes: Sequence[int] | None, **options: Any
) -> Got:
    """Run records in epochs of the sizes given; each in its own where none are."""
    rows: dict[str, list[tuple[Any, Any, int]]] = defaultdict(list)
    topics = ("lists", "spoilt", "counts", "most", "merged", "final-lists", "final-counts")
    with TopologyTestDriver(built, initial_wall_clock=MINUTE, **options) as driver:
        pipe_in_epochs(driver, cut(records, sizes), topic="in")
        sinks = {str(node.topic) for node in built if isinstance(node, SinkNode)}
        for topic in sinks.intersection(topics):
            for record in driver.create_output_topic(topic).read_records_to_list():
                rows[topic].append((record.key, record.value, record.timestamp))
        return Got(dict(rows), driver.metrics)


def group_of(options: dict[str, Any]) -> Callable[[Any], int]:
    """Say which keys share stream time: those of a key group, or all by the watermark."""
    if options["settings"]["event_time"] == "watermark":
        return lambda _key: 0
    return lambda key: key_group(key.encode(), options.get("key_groups", 1))


def modelled(case: Case, records: Sequence[Sent], options: dict[str, Any]) -> Model:
    model = case.model(group_of(options))
    for sent in records:
        if options["settings"]["event_time"] == "watermark":  # moved by records of any kind
            model.moved(None, sent.timestamp)
        if sent.key is not None:
            model.add(*sent)
    return model


def settings(event_time: str, emit: str) -> dict[str, str]:
    return {"event_time": event_time, "emit": emit}


LANES = [{}, {"key_groups": 8, "lanes": 3, "crash_after_every_record": True}]
both_times = pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
each_kind = pytest.mark.parametrize("kind", sorted(CASES))


@each_kind
@both_times
@given(data=st.data(), records=RECORDS, sizes=CUTS)
def test_tables_and_closed_windows_are_the_models_however_epochs_are_cut(
    kind: str, event_time: str, data: st.DataObject, records: list[Sent], sizes: list[int]
) -> None:
    """Late records included, crashes too; mutating functions spoil nothing."""
    case = data.draw(CASES[kind])
    emit = data.draw(st.sampled_from(["barrier", "every"]))
    options = {"settings": settings(event_time, emit), **data.draw(st.sampled_from(LANES))}
    got = run(topology(case.windows), records, sizes, **options)
    model = modelled(case, records, options)
    last = {key: (value, time) for key, value, time in got.rows.get("lists", [])}
    table = {key: (tuple(v), t) for key, (v, t) in last.items() if v is not None}
    assert table == model.rows
    counts = {key: value for key, value, _ in got.rows.get("counts", []) if value is not None}
    gone = {key for key, (value, _) in last.items() if value is None}
    assert {k: v for k, v in counts.items() if k not in gone} == {
        key: len(values) for key, (values, _) in model.rows.items()
    }
    final = [(key, (tuple(v), t)) for key, v, t in got.rows.get("final-lists", [])]
    assert len(final) == len(dict(final)), "a window is told twice"
    assert dict(final) == model.over()
    told = {key: value for key, value, _ in got.rows.get("final-counts", [])}
    assert told == {key: len(values) for key, (values, _) in model.over().items()}
    if kind != "session":
        maxima = {key: value for key, value, _ in got.rows.get("most", [])}
        for key, (values, _) in model.rows.items():
            assert maxima.get(key) == max((v for v in values if v is not None), default=None)
        merged = {k: (sorted(v, key=str), t) for k, v, t in got.rows.get("merged", [])}
        assert merged == {k: (sorted(v, key=str), t) for k, (v, t) in model.rows.items()}
    spoilt = {key: v for key, v, _ in got.rows.get("spoilt", []) if v is not None}
    assert {k: v for k, v in spoilt.items() if k not in gone} == {
        key: [*values, 99] for key, (values, _) in model.rows.items()
    }


@each_kind
@given(data=st.data(), records=RECORDS)
def test_each_change_is_told_as_kafka_streams_tells_it(
    kind: str, data: st.DataObject, records: list[Sent]
) -> None:
    """With its own time and each update told; the order inside a record is that of the windows."""
    case = data.draw(CASES[kind])
    options = {"settings": settings("stream-time", "every"), "key_groups": 1}
    got = run(topology(case.windows), records, None, **options)
    model = case.model(lambda _key: 0)
    keyed = [sent for sent in records if sent.key is not None]
    expected = [change for sent in keyed for change in model.add(*sent)]
    told = [(key, None if v is None else tuple(v), t) for key, v, t in got.rows.get("lists", [])]
    if kind == "sliding":  # the same windows, newest first
        told, expected = sorted(told, key=repr), sorted(map(tuple, expected), key=repr)
    assert told == [tuple(change) for change in expected]
    late = [n for name, n in got.metrics.items() if name.startswith("dropped_late")]
    assert set(late) <= {model.late}
    assert bool(late) is bool(model.late)


@each_kind
def test_closed_windows_come_by_start_then_key(kind: str) -> None:
    """Each once, with the time of its last record; in a session, of its end."""
    cases = {
        "tumbling": tumbling(10, 10, 0),
        "hopping": tumbling(10, 5, 0),
        "sliding": sliding(10, 0),
        "session": session(4, 0),
    }
    records = [Sent(key, 1, time) for time, key in [(3, "b"), (1, "a"), (12, "a"), (11, "b")]]
    records.append(Sent("c", 1, 1000))
    options = {"settings": settings("stream-time", "barrier")}
    got = run(topology(cases[kind].windows), records, [5], **options).rows["final-lists"]
    keys = [(key.start, key.key) for key, _, _ in got]
    assert keys == sorted(keys)
    assert len(got) >= 4
    assert Windowed("c", 1000, 1000) not in [key for key, _, _ in got]


def two_topics(windows: Any) -> TopologyGraph:
    """Count, sum and collect records of two topics, which need not come at the same pace."""
    builder = StreamsBuilder()
    both = builder.stream("fast", key=str, value=int).merge(
        builder.stream("slow", key=str, value=int)
    )
    windowed: Any = both.group_by_key().windowed_by(windows)
    windowed.count(name="counts").to_stream().to("counts")
    windowed.reduce(most, associative=True, name="most").to_stream().to("most")
    final = windowed.emit_strategy(EmitStrategy.on_window_close())
    final.count(name="final").to_stream().to("final")
    return builder.build()


def tables(
    built: TopologyGraph, sent: Sequence[tuple[str, Sent]], sizes: Sequence[int], rules_off: str
) -> dict[str, Any]:
    """Return the last row of each window, what was told as final, and what came late."""
    settings = {"event_time": "watermark", "topology": {"rules_off": rules_off}}
    options: dict[str, Any] = {"settings": settings, "key_groups": 4, "lanes": 2}
    found: dict[str, Any] = {}
    with TopologyTestDriver(built, initial_wall_clock=MINUTE, **options) as driver:
        for epoch in cut(sent, sizes):
            with driver.epoch():
                for topic, row in epoch:
                    pipe(driver, row, topic)
        driver.mark_idle("slow")
        for topic in ("counts", "most"):
            rows = driver.create_output_topic(topic).read_records_to_list()
            found[topic] = {row.key: (row.value, row.timestamp) for row in rows}
        rows = driver.create_output_topic("final").read_records_to_list()
        found["final"] = sorted((row.key, row.value, row.timestamp) for row in rows)
        late = ((n, c) for n, c in driver.metrics.items() if n.startswith("dropped_late"))
        found["late"] = sorted(late)
    return found


@pytest.mark.parametrize("kind", ["tumbling", "hopping"])
@given(
    data=st.data(),
    sent=st.lists(
        st.tuples(
            st.sampled_from(["fast", "slow"]),
            st.builds(Sent, st.sampled_from(["a", "b"]), VALUES, st.integers(0, 40)),
        ),
        max_size=25,
    ),
    sizes=CUTS,
)
def test_combining_before_the_shuffle_changes_nothing(
    kind: str, data: st.DataObject, sent: list[tuple[str, Sent]], sizes: list[int]
) -> None:
    """Not which records are late either, though they travel together."""
    case = data.draw(CASES[kind])
    built = two_topics(case.windows)
    plainly = tables(built, sent, sizes, "combine_before_shuffle")
    assert tables(built, sent, sizes, "") == plainly
