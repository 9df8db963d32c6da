"""Epochs grow and shrink until one takes about as long as it should."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mustela.runtime.cutting.sizing import EpochBudget, EpochLimits


def _run(
    budget: EpochBudget, *, fixed: float, each: float, size: int = 100, epochs: int = 30
) -> float:
    """Run epochs over an endless backlog; return how long the last one took."""
    seconds = 0.0
    for _ in range(epochs):
        records = budget.records
        seconds = fixed + records * each
        budget.learn(records=records, size=records * size, seconds=seconds)
    return seconds


@given(st.floats(0.02, 0.25), st.floats(1e-6, 1e-4))
def test_with_a_backlog_an_epoch_comes_to_take_the_target(fixed: float, each: float) -> None:
    """Whatever an epoch and a record cost, the budget settles near the target."""
    budget = EpochBudget(EpochLimits(max_records=10**7, max_bytes=1 << 40, target_seconds=0.8))
    seconds = _run(budget, fixed=fixed, each=each)
    assert 0.4 <= seconds <= 1.2


@pytest.mark.parametrize("each", [1e-5, 1e-4])
def test_when_records_become_dearer_epochs_become_smaller(each: float) -> None:
    """The budget follows the work."""
    budget = EpochBudget(EpochLimits(max_records=10**7, max_bytes=1 << 40, target_seconds=0.8))
    _run(budget, fixed=0.1, each=each / 8)
    before = budget.records
    assert 0.4 <= _run(budget, fixed=0.1, each=each) <= 1.2
    assert budget.records < before / 4


@given(st.floats(0.3, 0.6), st.floats(1e-5, 5e-5))
def test_an_epoch_that_costs_much_whatever_it_reads_is_longer(fixed: float, each: float) -> None:
    """So that it reads more for that; but never more than about three times as long."""
    budget = EpochBudget(EpochLimits(max_records=10**7, max_bytes=1 << 40, target_seconds=0.8))
    seconds = _run(budget, fixed=fixed, each=each)
    assert fixed / seconds <= 0.4
    assert seconds <= 3 * 0.8 * 1.2


@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_one_epoch_unlike_the_others_teaches_little(factor: float) -> None:
    """The machine was busy, or records were waiting: sizes are soon what they were."""
    budget = EpochBudget(EpochLimits(target_seconds=0.8))
    _run(budget, fixed=0.45, each=3e-5)
    before = budget.records
    budget.learn(records=before, size=before, seconds=factor * (0.45 + before * 3e-5))
    _run(budget, fixed=0.45, each=3e-5, epochs=4)
    assert 0.6 <= budget.records / before <= 1.7


def test_on_a_full_machine_small_epochs_are_slow_and_become_larger_all_the_same() -> None:
    """Most of such an epoch is waiting for a processor, which says nothing of larger ones."""
    budget = EpochBudget(EpochLimits(target_seconds=0.8), first=1_000)
    for _ in range(8):
        records = budget.records
        worked = 0.1 + records * 1e-5
        budget.learn(records=records, size=records, seconds=0.9 + worked, worked=worked)
    assert budget.records > 50_000


@given(st.floats(1.0, 60.0), st.floats(0.0, 60.0))
def test_an_epoch_that_is_too_slow_makes_none_larger(seconds: float, worked: float) -> None:
    """Whatever was worked in it."""
    budget = EpochBudget(EpochLimits(target_seconds=0.1), first=5_000)
    budget.learn(records=5_000, size=5_000, seconds=1.0)
    budget.learn(records=5_000, size=5_000, seconds=seconds, worked=min(worked, seconds))
    assert budget.records <= 5_000


def test_a_slow_record_is_not_taken_for_a_slow_epoch() -> None:
    """Epochs that take longer because they read more do not become longer than the target."""
    budget = EpochBudget(EpochLimits(target_seconds=0.8))
    assert _run(budget, fixed=0.02, each=4e-4) <= 0.8 * 1.2


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5), st.floats(0.0, 100.0))))
def test_the_limits_hold_whatever_happens(epochs: list[tuple[int, int, float]]) -> None:
    """At least one record, at most what the settings say in records and about in bytes."""
    limits = EpochLimits(max_records=5_000, max_bytes=1 << 20)
    budget = EpochBudget(limits)
    for records, size, seconds in epochs:
        budget.learn(records=records, size=records * size, seconds=seconds)
        assert 1 <= budget.records <= limits.max_records
        if records:
            assert budget.records == 1 or budget.records * size <= limits.max_bytes * 1.001


def test_a_failed_epoch_halves_the_next_one_down_to_one_record() -> None:
    """It says when it cannot get smaller."""
    budget = EpochBudget(EpochLimits(max_records=64), first=64)
    sizes = [budget.records]
    while budget.halve():
        sizes.append(budget.records)
    assert sizes == [64, 32, 16, 8, 4, 2, 1]


def test_halving_begins_from_what_the_bytes_allowed() -> None:
    """Large records had kept the epoch small already."""
    budget = EpochBudget(EpochLimits(max_records=10_000, max_bytes=1_000), first=10_000)
    budget.learn(records=10, size=1_000, seconds=0.1)
    assert budget.records == 10
    assert budget.halve()
    assert budget.records == 5


def test_the_first_epoch_teaches_nothing_about_time() -> None:
    """It imports, connects and opens: its seconds say nothing about the next."""
    budget = EpochBudget(EpochLimits(), first=1_000)
    budget.learn(records=1_000, size=1_000, seconds=30.0)
    assert budget.records == 1_000


def test_a_small_quick_epoch_says_nothing_about_large_ones() -> None:
    """Little was waiting: that is no reason to grow."""
    budget = EpochBudget(EpochLimits(), first=1_000)
    for _ in range(20):
        budget.learn(records=3, size=300, seconds=0.1)
    assert budget.records == 1_000


def test_epochs_that_are_cut_by_time_let_the_budget_grow_too() -> None:
    """They use little more than half of it: the cut stops where half is found."""
    budget = EpochBudget(EpochLimits(), first=1_000)
    for _ in range(8):
        records = budget.records * 53 // 100
        budget.learn(records=records, size=records * 100, seconds=0.1 + records * 2e-6)
    assert budget.records > 100_000


def test_a_quick_epoch_never_makes_the_budget_smaller() -> None:
    """Also where it used only some of it."""
    budget = EpochBudget(EpochLimits(), first=10_000)
    budget.learn(records=10_000, size=1_000_000, seconds=1.0)
    for records in (4_100, 6_000, 9_000):
        before = budget.records
        budget.learn(records=records, size=records * 100, seconds=0.7)
        assert budget.records >= before
