"""Partial results of time windows: which records travel together, and which alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mustela import DataError, StreamsBuilder, TimeWindows
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.stage import StageRunner
from mustela.kernel.windows import window_combine
from mustela.plan.batch import Batch
from mustela.plan.plan import Plan
from mustela.plan.time import EpochTime
from mustela.planner.explain import explain
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.topology.graph import TopologyGraph
from tests.epochs import ms
from tests.unit.kernel.stages import batch

BY_WATERMARK = PlanOptions(event_time="watermark")


def hopping(size: int = 10, advance: int = 5, grace: int = 0) -> TimeWindows:
    return TimeWindows(size=ms(size), advance=ms(advance), grace=ms(grace))


def topology(windows: TimeWindows, fold: str = "count") -> TopologyGraph:
    builder = StreamsBuilder()
    windowed = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows)
    if fold == "count":
        windowed.count(name="t")
    elif fold == "reduce":
        windowed.reduce(lambda x, y: x + y, associative=True, name="t")
    else:
        windowed.aggregate(
            lambda: 0,
            lambda _k, v, total: total + 100 // v,
            merger=lambda _k, x, y: x + y,
            name="t",
        )
    return builder.build()


def combined(
    physical: Plan,
    *parts: Sequence[tuple[str, Any, int]],
    before: int = -1,
    **options: Any,
) -> list[tuple[str, Any, int, int]]:
    """Run the source stage; return key, value, time and order time of the rows that travel."""
    runner = StageRunner(
        physical.stages[0],
        topics=physical.topics,
        options=KernelOptions(key_groups=1, **options),
        time=EpochTime(before=before, watermark=before),
    )
    for part in parts:
        rows = batch([row[:2] for row in part], [row[2] for row in part])
        runner.run({"in": rows})
    runner.finish()
    (sent,) = runner.take_output().exchanges.values()
    joined = Batch.merge(sent)
    order = joined.order or []
    return [
        (key, value, time, place[0])
        for key, value, time, place in zip(
            joined.keys, joined.values, joined.timestamps, order, strict=True
        )
    ]


def test_records_of_a_slice_between_two_starts_travel_as_one() -> None:
    """With the latest time and the first order; those of several batches too."""
    physical = plan(topology(hopping(grace=50)), options=BY_WATERMARK)
    got = combined(
        physical,
        [("a", 1, 1), ("a", 1, 4), ("b", 1, 4), ("a", 1, 5), ("a", 1, 2)],
        [("a", 1, 3), ("b", None, 4)],
    )
    assert got == [("a", 4, 4, 1), ("b", 2, 4, 4), ("a", 1, 5, 5)]


def test_a_record_that_may_be_late_travels_alone() -> None:
    """By its own order time, or by the watermark of the epoch before."""
    physical = plan(topology(hopping(size=10, advance=10)), options=BY_WATERMARK)
    rows = [("a", 1, 1), ("a", 1, 2), ("a", 1, 10), ("a", 1, 3), ("a", 1, 4)]
    assert combined(physical, rows) == [
        ("a", 2, 2, 1),
        ("a", 1, 10, 10),
        ("a", 1, 3, 10),
        ("a", 1, 4, 10),
    ]
    assert combined(physical, rows[:2], before=10) == [("a", 1, 1, 1), ("a", 1, 2, 2)]


def test_nulls_of_a_reduce_travel_alone() -> None:
    """A reducer gets them, but a null is no partial result."""
    physical = plan(topology(hopping(grace=50), "reduce"), options=BY_WATERMARK)
    got = combined(physical, [("a", 3, 1), ("a", None, 2), ("a", 4, 3)])
    assert got == [("a", 7, 3, 1), ("a", None, 2, 2)]


def test_failing_records_are_left_out() -> None:
    """Whether they travel together or alone; their times leave no trace."""
    physical = plan(topology(hopping(grace=0), "aggregate"), options=BY_WATERMARK)
    rows = [("a", 4, 1), ("a", 0, 2), ("a", 10, 9), ("a", 0, 1), ("a", 20, 2)]
    got = combined(physical, rows, processing_handler="continue")
    assert got == [("a", 25, 1, 1), ("a", 10, 9, 9), ("a", 5, 2, 9)]
    with pytest.raises(DataError):
        combined(physical, rows)


def test_combining_stops_where_it_saves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many partial results as records are only work."""
    monkeypatch.setattr(window_combine, "_SAMPLE", 10)
    physical = plan(topology(hopping(grace=50)), options=BY_WATERMARK)
    different = [(f"k{n}", 1, 1) for n in range(10)]
    same = [("a", 1, 1)] * 3
    got = combined(physical, different, same)
    assert [row for row in got if row[0] == "a"] == [("a", 1, 1, 1)] * 3
    few = [("a", 1, 1)] * 10
    assert combined(physical, few, same) == [("a", 13, 1, 1)]


def test_a_full_combiner_hands_on_what_it_has() -> None:
    """It holds no more keys than it may."""
    physical = plan(topology(hopping(grace=50)), options=BY_WATERMARK)
    first, second = [("a", 1, 1), ("b", 1, 1)], [("a", 1, 2)]
    got = combined(physical, first, second, combine_keys_max=1)
    assert sorted(got) == [("a", 1, 1, 1), ("a", 1, 2, 2), ("b", 1, 1, 1)]


@pytest.mark.parametrize(
    ("options", "windows"),
    [
        (PlanOptions(event_time="stream-time"), hopping()),
        (PlanOptions(event_time="watermark", emit="every"), hopping()),
        (BY_WATERMARK, hopping(size=7, advance=5)),
    ],
    ids=["stream-time", "every", "uneven"],
)
def test_records_travel_one_by_one_where_that_matters(
    options: PlanOptions, windows: TimeWindows
) -> None:
    """Where order decides who is late, where each is told, where slices share no windows."""
    assert "combine" not in explain(plan(topology(windows), options=options))
    assert "combine" in explain(plan(topology(hopping()), options=BY_WATERMARK))
