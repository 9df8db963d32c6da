"""Values as bytes that sort as they do."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.state.faults import StoreError
from mustela.state.ordered_value import descending, ordered_bytes

NUMBERS = st.integers() | st.floats(allow_nan=False) | st.integers(-9, 9)
PLAIN = (
    NUMBERS
    | st.none()
    | st.booleans()
    | st.text()
    | st.text("ab\x00")
    | st.binary()
    | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5))]))
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)


def rank(value: Any) -> tuple[int, Any]:
    """Return what Python compares as the contract says."""
    if value is None or isinstance(value, bool):
        return (0, 0 if value is None else 1 + value)
    if isinstance(value, tuple):
        return (9, [rank(one) for one in value])
    kinds = [(int, float), (str,), (bytes,), (datetime,)]
    return (1 + next(at for at, kind in enumerate(kinds) if isinstance(value, kind)), value)


@given(VALUES, VALUES)
def test_bytes_sort_as_values_do(one: Any, other: Any) -> None:
    """Both ways round; equal values have equal bytes, and no others have."""
    first, second = ordered_bytes(one), ordered_bytes(other)
    assert (first < second) == (rank(one) < rank(other))
    assert (first == second) == (rank(one) == rank(other))
    assert (descending(first) < descending(second)) == (rank(other) < rank(one))


@given(VALUES, VALUES, st.binary(), st.binary())
def test_bytes_may_follow(one: Any, other: Any, tail: bytes, rest: bytes) -> None:
    """What comes after a value decides only between equal ones."""
    first, second = ordered_bytes(one) + tail, ordered_bytes(other) + rest
    if rank(one) != rank(other):
        assert (first < second) == (rank(one) < rank(other))


@pytest.mark.parametrize("value", [object(), [1], math.nan, datetime(2026, 1, 1), {"a": 1}])  # noqa: DTZ001 - what is refused
def test_what_has_no_order_is_refused(value: object) -> None:
    """With what can be used instead."""
    with pytest.raises(StoreError, match=r"no order|no time zone"):
        ordered_bytes(value)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, "01"),
        (True, "03"),
        (0, "1002"),
        (1, "1003800000000000"),
        (-1, "10017fffffffffff"),
        (1.5, "100380000000800000"),
        ("a\x00", "206100ff0000"),
        (b"a", "28610000"),
        (datetime(1970, 1, 1, tzinfo=UTC), "308000000000000000"),
        ((1, None), "4010038000000000000100"),
    ],
)
def test_the_bytes_are_a_promise(value: object, data: str) -> None:
    """They are on disks and in changelogs."""
    assert ordered_bytes(value).hex() == data
