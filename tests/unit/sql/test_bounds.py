"""What of a filter the scan of a store can use."""

from datetime import UTC, datetime

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


@pytest.mark.parametrize(
    "condition",
    [
        (pc.field("key") == "a") | (pc.field("key") == "b"),
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
