"""What of a filter the scan of a store can use."""

from datetime import UTC, datetime
from operator import and_, eq, ge, gt, invert, le, lt, ne, or_

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from mustela.sql.bounds import bounds_of
from mustela.sql.columns import Part
from mustela.sql.ranges import range_of

KEY = frozenset({"key"})


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.sampled_from(["==", "<"]))
def test_text_is_read_as_it_was(text, comparison):
    """Quotes, backslashes, line ends and words such as ``and`` in a value change nothing."""
    other = pc.field("total") > 3
    mine = pc.field("key") == text if comparison == "==" else pc.field("key") < text
    found = bounds_of(mine & other, KEY)
    assert found == [("key", comparison, text)]


def test_plain_text_numbers_and_moments_are_read():
    """What statements compare keys and windows with is understood."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
    key, start = pc.field("key"), pc.field("window_start")
    assert bounds_of(key == 'a "b" and (c)\\', KEY) == [("key", "==", 'a "b" and (c)\\')]
    assert bounds_of((key >= 3) & (key < -4), KEY) == [("key", ">=", 3), ("key", "<", -4)]
    scalar = pa.scalar(moment, pa.timestamp("us", tz="UTC"))
    [(_, comparison, value)] = bounds_of(start <= scalar, frozenset({"window_start"}))
    assert (comparison, value) == ("<=", int(moment.timestamp() * 1_000_000))


@pytest.mark.parametrize("values", [["a"], ['x",\n  "y', "..."], [str(n) for n in range(100)]])
def test_a_list_of_keys_is_read(values):
    """All of the list, whatever is in it."""
    assert bounds_of(pc.field("key").isin(values), KEY) == [("key", "in", values)]


def test_alternatives_of_one_column_are_its_values_or_the_range_around_them():
    """A list of keys, however it is written; what is true of one alternative alone is not used."""
    key, total = pc.field("key"), pc.field("total")
    either = (key == "a") | (key == "c") | key.isin(["b", "a"])
    assert bounds_of(either, KEY) == [("key", "in", ["a", "c", "b"])]
    assert bounds_of(((key >= "b") & (key < "d")) | (key == "x"), KEY) == [
        ("key", ">=", "b"),
        ("key", "<=", "x"),
    ]
    assert bounds_of((key >= "b") | (key == "x"), KEY) == [("key", ">=", "b")]
    assert bounds_of(((key == "a") & (total > 3)) | ((key == "b") & (total < 1)), KEY) == [
        ("key", "in", ["a", "b"])
    ]
    assert bounds_of(((key == "a") | (total > 3)) & (key <= "c"), KEY) == [("key", "<=", "c")]


CONDITIONS = st.recursive(
    st.builds(
        lambda column, compare, value: compare(pc.field(column), value),
        st.sampled_from(["key", "total"]),
        st.sampled_from([ge, gt, le, lt, eq, ne, lambda field, value: field.isin([value, 9])]),
        st.integers(0, 9),
    ),
    lambda inner: st.one_of(
        st.builds(and_, inner, inner), st.builds(or_, inner, inner), st.builds(invert, inner)
    ),
    max_leaves=8,
)


@given(CONDITIONS)
def test_each_row_that_meets_a_condition_meets_its_bounds(condition):
    """However conditions are joined: the scan never leaves out a row that is wanted."""
    numbers = range(10)
    every = [{"key": key, "total": total} for key in numbers for total in numbers]
    wanted = pa.Table.from_pylist(every).filter(condition).to_pylist()
    does = {"==": eq, ">=": ge, ">": gt, "<=": le, "<": lt, "in": lambda x, values: x in values}
    for column, comparison, value in bounds_of(condition, frozenset({"key", "total"})):
        assert all(does[comparison](row[column], value) for row in wanted)


@pytest.mark.parametrize(
    "condition",
    [
        (pc.field("key") == "a") | (pc.field("other") == "b"),
        (pc.field("key") == "a") | (pc.field("key") == 3),
        ~(pc.field("key") == "a"),
        pc.field("key") != "a",
        pc.field("other") == "a",
        pc.field("key").is_null(),
        pc.field("key", "part") == "a",
        pc.field("key") == True,  # noqa: E712
        (pc.field("key") == "a") == (pc.field("key") == "b"),
    ],
)
def test_what_does_not_hold_for_each_row_is_no_bound(condition):
    """Alternatives, negations and other columns leave the scan whole."""
    assert bounds_of(condition, KEY) == []


def test_negative_numbers_come_last_in_a_store_and_bounds_know_it():
    """The bytes of -1 are after those of 1, so that an upper bound alone is none."""
    parts = {"key": Part.KEY}

    def sides(*bounds):
        found = range_of(list(bounds), parts, {}, None)
        return found.low, found.high

    assert sides(("key", "<=", 5)) == (None, None)
    assert sides(("key", ">=", -5)) == (None, None)
    assert sides(("key", ">=", 2)) == (2, None)
    assert sides(("key", "<=", 5), ("key", ">=", 2)) == (2, 5)


def test_times_of_windows_and_sessions_become_what_their_stores_can_search():
    """A window that is wanted by its end is found by its start; a session by end and start."""
    parts = {"window_start": Part.START, "window_end": Part.END}
    end = ("window_end", ">=", 30_000_000)
    start = ("window_start", "<", 40_000_000)
    assert range_of([end, start], parts, {}, 10_000).times == [20_000, 40_000]
    assert range_of([end, start], parts, {}, None).times == [30_000, 40_000]
    assert range_of([("window_start", ">=", 5_000)], parts, {}, None).times == [None, None]
    assert range_of([("window_end", "<", 30_000_000)], parts, {}, 10_000).times == [None, 20_000]
