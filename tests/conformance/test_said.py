"""Aggregates by name against plain Python: for any records, any cut, in every way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from statistics import mean
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings, strategies as st

from mustela import SessionWindows, StreamsBuilder, TimeWindows
from mustela.aggregates import (
    ApproxCountDistinct,
    Avg,
    Count,
    CountDistinct,
    Latest,
    Max,
    MaxBy,
    Min,
    MinBy,
    Quantile,
    Sum,
    TopN,
)
from mustela.topology.graph import TopologyGraph
from tests.conformance.conftest import RunTopology
from tests.conformance.script import Sent

# The fixture only gives a function, which keeps nothing between examples.
EXAMPLES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

KEYS = st.sampled_from([None, "a", "b", "c"])
VALUES = st.one_of(st.none(), st.integers(-3, 3))
CUTS = st.lists(st.integers(1, 8), max_size=6)
GAP = 4


@st.composite
def sent(draw: st.DrawFn, topics: Sequence[str] = ("in",)) -> list[Sent]:
    """Draw records, each of a time of its own."""
    one = st.tuples(st.sampled_from(topics), KEYS, VALUES)
    drawn = draw(st.lists(one, max_size=20))
    times = draw(st.permutations(range(len(drawn))))
    return [Sent(*record, time) for record, time in zip(drawn, times, strict=True)]


def tens(value: int) -> int:
    return value // 2


def is_positive(value: int) -> bool:
    return value > 0


OF_STREAMS: dict[str, Any] = {
    "approx": ApproxCountDistinct(),
    "last": Latest(),
    "last_positive": Latest(where=is_positive),
}
OF_ALL: dict[str, Any] = {
    "number": Count(),
    "positive": Count(where=is_positive),
    "total": Sum(),
    "mean": Avg(),
    "least": Min(),
    "greatest": Max(),
    "least_by": MinBy(tens),
    "greatest_by": MaxBy(tens),
    "top": TopN(2),
    "lowest": TopN(2, by=tens, smallest=True),
    "distinct": CountDistinct(tens),
    "median": Quantile(0.5),
}


def expected_row(timed: Sequence[tuple[int, int]], *, stream: bool = True) -> dict[str, Any]:
    """Say what a row is, in the plainest way; values come as (time, value)."""
    values = [value for _, value in timed]
    in_bytes = sorted(values, key=lambda v: (tens(v), as_bytes(v)))
    by_time = sorted(timed)
    positive = [(time, value) for time, value in by_time if value > 0]
    row: dict[str, Any] = {
        "number": len(values),
        "positive": len(positive),
        "total": sum(values),
        "mean": mean(map(Fraction, values)) if values else None,
        "least": min(values, default=None),
        "greatest": max(values, default=None),
        "least_by": in_bytes[0] if values else None,
        "greatest_by": min(values, key=lambda v: (-tens(v), as_bytes(v)), default=None),
        "top": sorted(values, reverse=True)[:2],
        "lowest": in_bytes[:2],
        "distinct": len(set(map(tens, values))),
        "median": sorted(values)[(len(values) - 1) // 2] if values else None,
    }
    if stream:
        row["approx"] = len(set(values))
        row["last"] = by_time[-1][1] if values else None
        row["last_positive"] = positive[-1][1] if positive else None
    return row


def as_bytes(value: int) -> bytes:
    """Return what orders values of the same rank: the bytes of MessagePack, negative ones last."""
    return value.to_bytes(1, "big", signed=True)


def assert_row(row: Any, expected: dict[str, Any]) -> None:
    found = {name: getattr(row, name) for name in expected}
    for name in ("mean", "median"):
        if expected[name] is not None:
            assert abs(found[name] - float(expected[name])) <= 0.011 * abs(expected[name])
            found[name] = expected[name]
    assert found == expected


def by_key(records: Sequence[Sent]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for record in records:
        if record.key is not None and record.value is not None:
            found[record.key].append((record.timestamp, record.value))
    return found


def of_stream() -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    grouped = stream.group_by_key()
    grouped.aggregate(**OF_ALL, **OF_STREAMS, store="rows").to_stream().to("rows")
    grouped.count_distinct(store="distinct").to_stream().to("distinct")
    grouped.latest_by(store="latest").to_stream().to("latest")
    grouped.top_n(2, store="top").to_stream().to("top", value=list)
    # Of several key groups and lanes: what is combined before the shuffle meets there.
    moved = stream.group_by(
        lambda _key, value: None if value is None else str(tens(value)), key=str
    )
    moved.aggregate(**OF_ALL, **OF_STREAMS, store="moved").to_stream().to("moved")
    return builder.build()


@EXAMPLES
@given(records=sent(), sizes=CUTS, emit=st.sampled_from(["barrier", "every"]))
def test_rows_of_a_stream_are_what_plain_python_says(
    run_topology: RunTopology, records: list[Sent], sizes: list[int], emit: str
) -> None:
    """Whatever the times and the cut, and by verbs of their own too."""
    out = run_topology(of_stream(), records, epochs=sizes, settings={"emit": emit})
    values = by_key(records)
    last = dict(out["rows"])
    assert last.keys() == values.keys()
    for key, timed in values.items():
        assert_row(last[key], expected_row(timed))
    assert dict(out["distinct"]) == {k: len({v for _, v in t}) for k, t in values.items()}
    assert dict(out["latest"]) == {k: max(t)[1] for k, t in values.items()}
    assert dict(out["top"]) == {
        k: sorted((v for _, v in t), reverse=True)[:2] for k, t in values.items()
    }
    moved = by_key([r._replace(key=str(tens(r.value))) for r in records if r.value is not None])
    last = dict(out["moved"])
    assert last.keys() == moved.keys()
    for key, timed in moved.items():
        assert_row(last[key], expected_row(timed))


@EXAMPLES
@given(records=sent(("table",)), sizes=CUTS)
def test_rows_of_a_table_are_those_of_what_is_in_it(
    run_topology: RunTopology, records: list[Sent], sizes: list[int]
) -> None:
    """What was replaced or deleted is as if it had never been; an empty group stays, with zeros."""
    builder = StreamsBuilder()
    table = builder.table("table", key=str, value=int, store="table")
    grouped = table.group_by(lambda key, value: (str(tens(value)), value), key=str, value=int)
    grouped.aggregate(**OF_ALL, store="rows").to_stream().to("rows")
    in_time = [record._replace(timestamp=n) for n, record in enumerate(records)]
    out = run_topology(builder.build(), in_time, epochs=sizes, settings={"emit": "every"})
    now = {record.key: record.value for record in records if record.key is not None}
    groups: dict[str, list[tuple[int, int]]] = {
        str(tens(r.value)): [] for r in records if r.key is not None and r.value is not None
    }
    for value in now.values():
        if value is not None:
            groups[str(tens(value))].append((0, value))
    last = dict(out["rows"])
    assert last.keys() == groups.keys()
    for key, timed in groups.items():
        assert_row(last[key], expected_row(timed, stream=False))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@EXAMPLES
@given(kept=st.lists(FLOATS, max_size=5), gone=st.lists(FLOATS, max_size=5), sizes=CUTS)
def test_floats_that_leave_a_table_leave_nothing(
    run_topology: RunTopology, kept: list[float], gone: list[float], sizes: list[int]
) -> None:
    """The sum is the sum of what is there, rounded once, whatever was added and taken out."""
    builder = StreamsBuilder()
    table = builder.table("table", key=str, value=float, store="table")
    grouped = table.group_by(lambda _key, value: ("all", value), key=str, value=float)
    grouped.aggregate(total=Sum(), number=Count(), store="rows").to_stream().to("rows")
    numbers = [*gone, *kept]
    sent_first = [Sent("table", f"row-{n}", number, n) for n, number in enumerate(numbers)]
    deleted = [Sent("table", f"row-{n}", None, 100 + n) for n in range(len(gone))]
    out = run_topology(builder.build(), [*sent_first, *deleted], epochs=sizes)
    exact = sum(map(Fraction, kept), Fraction(0))
    if kept and abs(exact) < Fraction(1.7e308):
        row = dict(out["rows"])["all"]
        assert (row.total, row.number) == (float(exact), len(kept))


@EXAMPLES
@given(records=sent(("in", "other")), sizes=CUTS)
def test_each_stream_of_a_cogroup_gives_fields_of_its_own(
    run_topology: RunTopology, records: list[Sent], sizes: list[int]
) -> None:
    """A row has those of all, also of those that gave nothing yet."""
    builder = StreamsBuilder()
    one = builder.stream("in", key=str, value=int).group_by_key()
    other = builder.stream("other", key=str, value=int).group_by_key()
    both = one.cogroup(total=Sum(), last=Latest()).cogroup(other, top=TopN(2), number=Count())
    both.aggregate(store="rows").to_stream().to("rows")
    out = run_topology(builder.build(), records, epochs=sizes)
    left = by_key([record for record in records if record.topic == "in"])
    right = by_key([record for record in records if record.topic == "other"])
    last = dict(out["rows"])
    assert last.keys() == left.keys() | right.keys()
    for key, row in last.items():
        first, second = expected_row(left.get(key, [])), expected_row(right.get(key, []))
        found = (row.total, row.last, row.top, row.number)
        assert found == (first["total"], first["last"], second["top"], second["number"])


@EXAMPLES
@given(records=sent(), sizes=CUTS)
def test_each_window_and_session_has_a_row(
    run_topology: RunTopology, records: list[Sent], sizes: list[int]
) -> None:
    """Of its own records, also where sessions meet; a record without a value is only counted."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grace = timedelta(seconds=1)
    windows = TimeWindows(
        size=timedelta(milliseconds=8), advance=timedelta(milliseconds=4), grace=grace
    )
    sessions = SessionWindows(inactivity_gap=timedelta(milliseconds=GAP), grace=grace)
    fields = {name: one for name, one in (OF_ALL | OF_STREAMS).items() if name != "number"}
    grouped.windowed_by(windows).aggregate(**fields, store="w").to_stream().to("windows")
    grouped.windowed_by(sessions).aggregate(**fields, store="s").to_stream().to("sessions")
    out = run_topology(builder.build(), records, epochs=sizes)
    present = [record for record in records if record.key is not None]
    in_windows: dict[Any, list[Sent]] = defaultdict(list)
    for record in present:
        newest = record.timestamp - record.timestamp % 4
        for start in (newest - 4, newest):
            if start >= 0:
                in_windows[record.key, start, start + 8].append(record)
    in_sessions: dict[Any, list[Sent]] = {}
    for key in {record.key for record in present}:
        mine = sorted((r for r in present if r.key == key), key=lambda r: r.timestamp)
        group: list[Sent] = []
        for record in mine:
            if group and record.timestamp - group[-1].timestamp > GAP:
                in_sessions[key, group[0].timestamp, group[-1].timestamp] = group
                group = []
            group.append(record)
        in_sessions[key, group[0].timestamp, group[-1].timestamp] = group
    for topic, expected in (("windows", in_windows), ("sessions", in_sessions)):
        last = {(w.key, w.start, w.end): row for w, row in out[topic]}
        last = {window: row for window, row in last.items() if row is not None}
        assert last.keys() == expected.keys(), topic
        for window, mine in expected.items():
            of_window = by_key(mine).get(window[0], [])
            row = expected_row(of_window)
            del row["number"]
            assert_row(last[window], row)


class Totals(NamedTuple):
    """Rows of a type that the program names."""

    total: int
    last: int | None
    top: list[int]


def test_rows_are_the_same_on_every_engine(run_topology: RunTopology) -> None:
    """Of streams, of windows and of tables; of a type of their own and of one that is named."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    grouped = stream.group_by(lambda key, _value: key, key=str)
    fields = {"total": Sum(), "last": Latest(), "top": TopN(2)}
    grouped.aggregate(**fields, value=Totals, store="rows").to_stream().to("rows")
    windows = TimeWindows(size=timedelta(seconds=60), grace=timedelta(seconds=60))
    by_minute = grouped.windowed_by(windows).aggregate(**OF_ALL, **OF_STREAMS, store="minutes")
    by_minute.to_stream(lambda window, _row: window.key).to("minutes", key=str)
    table = builder.table("table", key=str, value=int, store="table")
    odd = table.group_by(lambda _key, value: ("odd" if value % 2 else "even", value), key=str)
    odd.aggregate(number=Count(), greatest=Max(), store="odd").to_stream().to("odd", key=str)
    records = [Sent("in", "ab"[n % 2], n % 5 - 2, 10 + (7 * n) % 12) for n in range(12)]
    rows = [Sent("table", f"row-{n % 3}", None if n == 5 else n, 50 + n) for n in range(6)]
    out = run_topology(builder.build(), [*records, *rows], epochs=[4, 5, 6])
    last, minutes = dict(out["rows"]), dict(out["minutes"])
    for key, timed in by_key(records).items():
        expected = expected_row(timed)
        assert last[key] == Totals(expected["total"], expected["last"], expected["top"])
        assert_row(minutes[key], expected)
    odd_rows = {key: (row.number, row.greatest) for key, row in out["odd"]}
    assert odd_rows == {"odd": (1, 3), "even": (1, 4)}
