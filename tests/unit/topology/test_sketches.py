"""Summaries of many values: near the truth, and the same however they were put together."""

from __future__ import annotations

import random
from collections import Counter
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.topology.sketches import (
    add_distinct,
    bucket_of,
    distinct_count,
    merge_distinct,
    new_distinct,
    quantile_of,
)


def distinct_of(values: Any) -> Any:
    registers = new_distinct()
    for value in values:
        registers = add_distinct(registers, value)
    return registers


@pytest.mark.parametrize("number", [0, 1, 10, 100, 1_000, 10_000, 100_000])
def test_a_count_of_distinct_values_is_near_the_truth(number: int) -> None:
    """Within four standard errors of 1.6 percent, from none on; each value comes three times."""
    estimate = distinct_count(distinct_of(f"user-{n % number}" for n in range(3 * number)))
    assert abs(estimate - number) <= 0.065 * number


@given(st.lists(st.integers(0, 5_000), max_size=400), st.integers(0, 400), st.integers(0, 3_000))
def test_distinct_values_are_the_same_however_they_were_spread(
    values: list[int], at: int, more: int
) -> None:
    """In any order, in one part or two, few or so many that registers are kept otherwise."""
    values = [*values, *range(10_000, 10_000 + more)]
    shuffled = random.Random(at).sample(values, len(values))
    parts = merge_distinct(distinct_of(shuffled[at:]), distinct_of(shuffled[:at]))
    whole = distinct_of(values)
    assert parts == whole
    assert type(parts) is type(whole)
    assert distinct_count(parts) == distinct_count(whole)


def place_of(value: float, accuracy: float) -> int:
    """Return the bucket of what is a number."""
    place = bucket_of(value, accuracy)
    assert place is not None
    return place


def test_values_of_different_types_are_different() -> None:
    """And those that have no bytes of their own are told by their text."""
    assert distinct_count(distinct_of([1, "1", 1.5, b"1", ("1",), {"a": 1}, object])) == 7


@given(
    st.lists(st.floats(-1e12, 1e12).filter(lambda x: x == 0 or abs(x) > 1e-9), min_size=1),
    st.floats(0, 1),
    st.sampled_from([0.001, 0.01, 0.1]),
)
def test_a_quantile_is_off_by_no_more_than_its_accuracy(
    values: list[float], share: float, accuracy: float
) -> None:
    """From the value of that rank, whichever sign it has."""
    buckets = Counter(place_of(value, accuracy) for value in values)
    found = quantile_of(buckets, share, accuracy)
    rank = int(share * (len(values) - 1))
    exact = sorted(values)[rank]
    assert found is not None
    assert abs(found - exact) <= accuracy * abs(exact) * (1 + 1e-9)


def test_odd_numbers_have_their_places() -> None:
    """NaN has none, and what is infinite is beyond all others."""
    assert bucket_of(nan, 0.01) is None
    places = [place_of(x, 0.01) for x in (-inf, -2.0, -1.0, 0, 5e-324, 1, 1e308, inf)]
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    for value in (-inf, 0.0, inf):
        assert quantile_of({place_of(value, 0.01): 1}, 0.5, 0.01) == value
    assert quantile_of({}, 0.5, 0.01) is None
