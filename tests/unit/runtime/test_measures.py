"""What tasks measured, over epochs."""

from __future__ import annotations

from mustela.plan.epoch import TaskReport
from mustela.plan.ranges import RangeReport
from mustela.runtime.status.measures import Measures
from mustela.state.interfaces import StoreSize


def lane(task: int, records: int, stage: int = 1) -> TaskReport:
    return TaskReport(stage=stage, task=task, counters={"records:x": records, "ticks:x": 99})


def test_the_skew_of_lanes_counts_those_that_had_nothing() -> None:
    """A lane that reported nothing is one with no records; stage 0 has no lanes."""
    seen = Measures().after([lane(0, 30), lane(0, 7, stage=0)], 0)
    assert seen.skew(4) == {1: 4.0}
    assert seen.after([lane(1, 30), lane(2, 30), lane(3, 30)], 0).skew(4) == {1: 1.0}


def test_skew_is_that_of_the_last_epochs() -> None:
    """What was long ago does not count."""
    seen = Measures().after([lane(0, 1_000)], 0)
    for _ in range(20):
        seen = seen.after([lane(0, 5), lane(1, 5)], 0)
    assert seen.skew(2) == {1: 1.0}
    assert seen.tasks[1, 0] == 1_100


def test_sizes_of_a_store_are_the_last_of_each_key_group() -> None:
    """Those that the restore saw too."""
    restored, written = TaskReport(stage=-1, task=0), TaskReport(stage=1, task=0)
    restored.measured.stores = {("counts", 0): StoreSize(5, 4096), ("counts", 1): StoreSize(1, 1)}
    written.measured.stores = {("counts", 1): StoreSize(2, 4096)}
    seen = Measures().restored([restored]).after([written], 0)
    assert seen.sizes() == {"counts": StoreSize(7, 8192)}


def test_the_age_of_a_record_is_never_below_nothing() -> None:
    """Its clock may be ahead of ours; a range without records or times tells nothing."""
    report = TaskReport(stage=0, task=0)
    report.ranges = [
        RangeReport(0, 0, 0, 4, 4, 9_000, 1, first_ms=9_000),
        RangeReport(0, 1, 0, 4, 4, 2_000, 1, first_ms=2_000),
        RangeReport(0, 2, 0, 4, 0, 2_000, 1, first_ms=2_000),
        RangeReport(0, 3, 0, 4, 4, -1, 1, first_ms=-1),
    ]
    seen = Measures().after([report], now_ms=5_000)
    assert (seen.ages.count, seen.ages.total_s) == (2, 3.0)


def test_who_spoke_last_is_the_last_client() -> None:
    """Clients of several processes may have the same name."""
    seen = Measures().heard(1, {"consumer a": {"x": 1.0}}).heard(2, {"consumer a": {"x": 2.0}})
    seen = seen.heard(1, {"consumer a": {"x": 3.0}})
    assert list(seen.clients.items()) == [
        ((2, "consumer a"), {"x": 2.0}),
        ((1, "consumer a"), {"x": 3.0}),
    ]
