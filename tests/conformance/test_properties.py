"""What holds for any records and any cut into epochs, in every way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mustela import StreamsBuilder
from mustela.topology.graph import TopologyGraph
from tests.conformance.conftest import RunTopology
from tests.conformance.script import Sent
from tests.epochs import cut

# The fixture only gives a function, which keeps nothing between examples.
EXAMPLES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

KEYS = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d"]))
NUMBERS = st.one_of(st.none(), st.integers(-3, 3))


@st.composite
def sent(draw: st.DrawFn, topics: Sequence[str] = ("in",)) -> list[Sent]:
    """Draw records; times of a topic may go back."""
    one = st.tuples(st.sampled_from(topics), KEYS, NUMBERS, st.integers(0, 30))
    return [Sent(*record) for record in draw(st.lists(one, max_size=25))]


CUTS = st.lists(st.integers(1, 8), max_size=6)


def collect(total: list[int], value: int) -> list[int]:
    """Change the aggregate in place, as careless functions do."""
    total.append(value)
    return total


def every_table() -> TopologyGraph:
    """Several tables over one stream, each next to branches that spoil what they are given."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    by_key = stream.group_by_key()
    by_key.count(store="count").to_stream().to("count")
    by_key.reduce(lambda x, y: x + y, associative=True, store="sum").to_stream().to("sum")
    by_key.reduce(lambda x, y: x * 3 + y, store="fold").to_stream().to("fold")
    lists = by_key.aggregate(list, lambda _k, v, t: collect(t, v), value=list, store="list")
    lists.map_values(lambda t: collect(t, 99), value=list).to_stream().to("spoilt")
    lists.to_stream().to("list")
    lists.filter(lambda _k, t: len(t) % 2 == 0).to_stream().to("even", key=str, value=list)
    merged = by_key.aggregate(
        dict,
        lambda _k, v, t: t.update({str(v): v}) or t,
        merger=lambda _k, x, y: x.update(y) or x,
        value=dict,
        store="dict",
    )
    merged.to_stream().to("dict")
    table = builder.table("in2", key=str, value=int, store="table")
    table.filter(lambda _k, v: v > 0).to_stream().to("positive", key=str, value=int)
    return builder.build()


def reference(records: Sequence[Sent]) -> dict[str, dict[str, Any]]:
    """Say what the tables are at the end, in the plainest way."""
    values: dict[str, list[int]] = defaultdict(list)
    for record in records:
        if record.topic == "in" and record.key is not None and record.value is not None:
            values[record.key].append(record.value)
    folds: dict[str, int] = {}
    for key, numbers in values.items():
        folds[key] = numbers[0]
        for number in numbers[1:]:
            folds[key] = folds[key] * 3 + number
    rows = {r.key: r.value for r in records if r.topic == "in2" and r.key is not None}
    return {
        "count": {key: len(numbers) for key, numbers in values.items()},
        "sum": {key: sum(numbers) for key, numbers in values.items()},
        "fold": folds,
        "list": dict(values),
        "spoilt": {key: [*numbers, 99] for key, numbers in values.items()},
        "even": {key: numbers for key, numbers in values.items() if len(numbers) % 2 == 0},
        "dict": {key: {str(n): n for n in numbers} for key, numbers in values.items()},
        "positive": {key: value for key, value in rows.items() if value is not None and value > 0},
    }


@EXAMPLES
@given(records=sent(("in", "in2")), sizes=CUTS, emit=st.sampled_from(["barrier", "every"]))
def test_tables_do_not_depend_on_where_epochs_are_cut(
    run_topology: RunTopology, records: list[Sent], sizes: list[int], emit: str
) -> None:
    """Each table's last changes are the table, whatever the cut, and mutation spoils nothing."""
    out = run_topology(every_table(), in_time(records), epochs=sizes, settings={"emit": emit})
    for topic, rows in reference(in_time(records)).items():
        last = {key: value for key, value in out[topic] if value is not None}
        gone = {key for key, value in dict(out[topic]).items() if value is None}
        assert {k: v for k, v in last.items() if k not in gone} == rows, topic


def in_time(records: Sequence[Sent]) -> list[Sent]:
    """Give each topic times that ascend, so that merged order is the order of sending."""
    return [record._replace(timestamp=n) for n, record in enumerate(records)]


@EXAMPLES
@given(records=sent(), sizes=CUTS)
def test_records_of_a_key_keep_their_order(
    run_topology: RunTopology, records: list[Sent], sizes: list[int]
) -> None:
    """Through a re-keying, whatever their times are and whichever lane they go to."""
    numbered = [record._replace(value=n) for n, record in enumerate(records)]
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    grouped = stream.group_by(lambda key, _value: key and key.upper(), key=str)
    seen = grouped.aggregate(list, lambda _k, v, t: collect(t, v), value=list, store="seen")
    seen.to_stream().to("seen")
    out = run_topology(builder.build(), numbered, epochs=sizes)
    expected: dict[str, list[int]] = defaultdict(list)
    for record in numbered:
        if record.key is not None:
            expected[record.key.upper()].append(record.value)
    assert dict(out["seen"]) == expected


@EXAMPLES
@given(records=sent(), sizes=CUTS, bad=st.sets(st.integers(0, 24), max_size=6))
def test_failing_records_are_as_if_they_had_never_been(
    run_topology: RunTopology, records: list[Sent], sizes: list[int], bad: set[int]
) -> None:
    """With the handler ``continue``: in stateless steps, before the shuffle and behind it."""
    numbered = [record._replace(value=n) for n, record in enumerate(records)]

    def spoil(total: list[int], value: int) -> list[int]:
        total.append(value)
        if value in bad:
            msg = f"no {value}"
            raise ValueError(msg)
        return total

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.map_values(lambda v: spoil([], v)[0]).to("mapped", value=int)
    by_key = stream.group_by_key()
    seen = by_key.aggregate(list, lambda _k, v, t: spoil(t, v), value=list, store="seen")
    seen.to_stream().to("seen")
    both = by_key.aggregate(
        list,
        lambda _k, v, t: spoil(t, v),
        merger=lambda _k, x, y: sorted([*x, *y]),
        value=list,
        store="both",
    )
    both.to_stream().to("both")
    options = {"settings": {"processing_handler": "continue"}}
    out = run_topology(builder.build(), numbered, epochs=sizes, **options)
    good = [record for record in numbered if record.value not in bad]
    assert [value for _, value in out["mapped"]] == [record.value for record in good]
    expected: dict[str, list[int]] = defaultdict(list)
    for record in good:
        if record.key is not None:
            expected[record.key].append(record.value)
    assert dict(out["seen"]) == expected
    assert {key: sorted(value) for key, value in out["both"]} == expected


@EXAMPLES
@given(lines=st.lists(st.text("ab \n", max_size=8), max_size=12), sizes=CUTS)
def test_a_word_count_is_a_counter(
    run_topology: RunTopology, lines: list[str], sizes: list[int]
) -> None:
    """Against the standard library's."""
    builder = StreamsBuilder()
    stream = builder.stream("lines", key=str, value=str)
    words = stream.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
    words.count(store="counts").to_stream().to("counts")
    records = [Sent("lines", None, line, n) for n, line in enumerate(lines)]
    out = run_topology(builder.build(), records, epochs=sizes)
    assert dict(out["counts"]) == Counter(word for line in lines for word in line.split())


@pytest.mark.parametrize("groups", [1, 2, 32])
@pytest.mark.parametrize("lanes", [1, 3])
def test_lanes_and_key_groups_change_no_result(
    run_topology: RunTopology, groups: int, lanes: int
) -> None:
    """Not even the order of a key's changes."""
    records = [Sent("in", "abcd"[n % 4], n % 7, (n * 7) % 20) for n in range(40)]
    options = {"key_groups": groups, "lanes": lanes}
    out = run_topology(every_table(), records, epochs=[9, 9, 9], **options)
    plain = run_topology(every_table(), records, epochs=[9, 9, 9])
    for topic in ("count", "sum", "fold", "list", "dict"):
        assert by_key(out[topic]) == by_key(plain[topic])


@EXAMPLES
@given(records=sent(), sizes=CUTS, lanes=st.sampled_from([2, 3, 8]))
def test_order_behind_a_lane_does_not_depend_on_lanes(
    run_topology: RunTopology, records: list[Sent], sizes: list[int], lanes: int
) -> None:
    """A fold in the second stage sees the changes of the first in one order."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    first = stream.group_by_key().reduce(lambda x, y: x * 3 + y, store="first")
    grouped = first.to_stream().group_by(lambda _key, _value: "all", key=str, value=int)
    second = grouped.aggregate(list, lambda _k, v, t: collect(t, v), value=list, store="second")
    second.to_stream().to("out")
    options = {"key_groups": 8, "epochs": sizes}
    out = run_topology(builder.build(), records, lanes=lanes, **options)
    assert out["out"] == run_topology(builder.build(), records, lanes=1, **options)["out"]


def by_key(rows: list[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Sort rows by key; each key's stay in order."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return found


def test_records_are_cut_as_asked() -> None:
    """What is left is one epoch more."""
    records = [Sent("in", "a", n, n) for n in range(5)]
    assert [len(part) for part in cut(records, [2, 1])] == [2, 1, 2]
    assert [len(part) for part in cut(records, None)] == [1] * 5
