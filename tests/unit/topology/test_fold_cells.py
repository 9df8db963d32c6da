"""What cells hold depends on the values alone, not on how they came and went."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import inf, isnan, nan

import pytest
from hypothesis import given, strategies as st

from mustela.topology.fold_cells import (
    add_exact,
    add_ranked,
    add_top,
    best_last,
    best_of,
    exact_total,
    merge_top,
    remove_ranked,
    subtract_exact,
)

FINITE = st.floats(-1e300, 1e300)


@given(st.lists(FINITE), st.lists(FINITE))
def test_an_exact_total_is_rounded_once(kept: list[float], gone: list[float]) -> None:
    """Whatever was added before and taken out again."""
    cell = None
    for number in [*gone, *kept]:
        cell = add_exact(cell, number)
    for number in gone:
        cell = subtract_exact(cell, number)
    assert exact_total(cell) == float(sum(map(Fraction, kept), Fraction(0)))


def test_a_total_of_infinities_comes_back_when_they_leave() -> None:
    """As if they had never been; both together are no number."""
    cell = add_exact(add_exact(None, 1.5), inf)
    assert exact_total(cell) == inf
    assert isnan(exact_total(add_exact(cell, -inf)))
    cell = subtract_exact(subtract_exact(cell, -inf), inf)
    assert exact_total(cell) == 1.5
    assert isnan(exact_total(add_exact(cell, nan)))


def test_a_total_too_large_for_a_float_is_infinite() -> None:
    """And a float again when it is not."""
    cell = add_exact(add_exact(None, 1.7e308), 1.7e308)
    assert exact_total(cell) == inf
    assert exact_total(subtract_exact(cell, 1.7e308)) == 1.7e308


@pytest.mark.parametrize("numbers", [[1, 2], [Decimal("0.1"), Decimal("0.2")], [10**30, 1]])
def test_numbers_that_are_no_floats_are_added_as_they_are(numbers: list[int]) -> None:
    """And none of them leaves an int 0, as of nothing."""
    cell = add_exact(add_exact(None, numbers[0]), numbers[1])
    assert exact_total(cell) == sum(numbers)
    assert type(exact_total(cell)) is type(numbers[0])
    assert exact_total(subtract_exact(subtract_exact(cell, numbers[0]), numbers[1])) == 0
    assert exact_total(None) == 0


RANKED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)


@given(RANKED, RANKED, st.integers(1, 4), st.booleans())
def test_the_first_ranks_are_those_of_all_values(
    one: list[tuple[int, int]], other: list[tuple[int, int]], number: int, largest: bool
) -> None:
    """In one part or two; of equal ranks those whose values sort first."""
    parts: list[list[list[int]]] = [[], []]
    for part, values in zip(parts, (one, other), strict=True):
        for rank, value in values:
            add_top(part, rank, value, number, largest)
    merge_top(parts[0], parts[1], number, largest)
    sign = -1 if largest else 1
    assert parts[0] == sorted(map(list, [*one, *other]), key=lambda e: (sign * e[0], e[1]))[:number]


@given(RANKED, RANKED, st.integers(1, 4))
def test_what_is_removed_was_never_there(
    kept: list[tuple[int, int]], gone: list[tuple[int, int]], number: int
) -> None:
    """And the best are those of what is left."""
    entries: list[list[int]] = []
    for rank, value in [*gone, *kept]:
        add_ranked(entries, rank, value)
    for rank, value in gone:
        remove_ranked(entries, rank, value)
    remove_ranked(entries, 9, 9)
    assert entries == sorted(map(list, kept))
    best = [value for _, value in sorted(kept, key=lambda e: (-e[0], e[1]))]
    assert best_of(entries, number) == best[:number]
    assert best_last(entries) == (best[0] if best else None)


def test_nan_has_no_rank() -> None:
    """It is neither kept nor found."""
    entries: list[list[float]] = []
    add_top(entries, nan, "a", 2, True)
    add_ranked(entries, nan, "a")
    remove_ranked(entries, nan, "a")
    assert entries == []
