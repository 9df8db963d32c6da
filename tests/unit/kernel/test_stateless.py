"""Steps that keep nothing: their meaning, and what a failing record does to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.kernel.core.failures import ProcessingError
from mustela.plan.batch import Batch
from mustela.plan.plan import Exchange, Stage
from mustela.plan.step import Step
from mustela.topology.node import Node
from mustela.topology.stateless import (
    FilterNode,
    FlatMapNode,
    FlatMapValuesNode,
    ForeachNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    SelectKeyNode,
)
from tests.unit.kernel.stages import ANY, batch, out_batch, rows_of, run, runner

ROWS = [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (MapValuesNode(name="s", mapper=lambda v: v * 10), [("a", 10), ("b", 20), ("c", 30)]),
        (
            MapValuesNode(name="s", mapper=lambda k, v: k * v, with_key=True),
            [("a", "a"), ("b", "bb"), ("c", "ccc")],
        ),
        (
            FlatMapValuesNode(name="s", mapper=lambda v: [v] * (v - 1)),
            [("b", 2), ("c", 3), ("c", 3)],
        ),
        (
            FlatMapValuesNode(name="s", mapper=lambda v: (v + n for n in range(2))),
            [("a", 1), ("a", 2), ("b", 2), ("b", 3), ("c", 3), ("c", 4)],
        ),
        (
            FlatMapValuesNode(name="s", mapper=lambda k, v: {k}, with_key=True),
            [("a", "a"), ("b", "b"), ("c", "c")],
        ),
        (MapNode(name="s", mapper=lambda k, v: (v, k)), [(1, "a"), (2, "b"), (3, "c")]),
        (
            FlatMapNode(name="s", mapper=lambda k, v: [(k, n) for n in range(v - 1)]),
            [("b", 0), ("c", 0), ("c", 1)],
        ),
        (SelectKeyNode(name="s", mapper=lambda k, v: v), [(1, 1), (2, 2), (3, 3)]),
        (FilterNode(name="s", predicate=lambda k, v: v > 1), [("b", 2), ("c", 3)]),
        (FilterNode(name="s", predicate=lambda k, v: v > 1, negate=True), [("a", 1)]),
        (FilterNode(name="s", predicate=lambda k, v: [] if v > 1 else "x"), [("a", 1)]),
        (PeekNode(name="s", action=lambda k, v: None), ROWS),
        (ForeachNode(name="s", action=lambda k, v: None), []),
        (MergeNode(name="s"), ROWS),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Node) else "",
)
def test_each_step_means_what_it_says(node: Node, expected: list[tuple[Any, Any]]) -> None:
    """A step gives these rows for three records."""
    assert run(node, ROWS) == expected


def test_what_a_record_carries_stays_with_it() -> None:
    """Time and order follow a record through filters and flat maps."""
    stage = runner(
        FilterNode(name="odd", predicate=lambda _k, v: v % 2),
        FlatMapValuesNode(name="twice", mapper=lambda v: [v, v]),
    )
    stage.run({"in": batch([("a", 1), ("b", 2), ("c", 3)], [10, 20, 30])})
    out = out_batch(stage.take_output())
    assert out.timestamps == [10, 10, 30, 30]
    order = out.order
    assert order is not None
    assert [place[3] for place in order] == [0, 0, 2, 2]


def test_null_keys_and_values_reach_stateless_functions() -> None:
    """A null is an ordinary value here."""
    node = MapValuesNode(name="s", mapper=lambda v: v is None)
    assert run(node, [(None, None), ("a", 1)]) == [(None, True), ("a", False)]


def failing_at(bad: set[int], seen: list[int], good: Callable[[int], Any]) -> Callable[..., Any]:
    """Make a function of the last argument that notes each call and raises for some."""

    def function(*arguments: Any) -> Any:
        value = arguments[-1]
        seen.append(value)
        if value in bad:
            msg = f"no {value}"
            raise ValueError(msg)
        return good(value)

    return function


STEPS: dict[str, tuple[Callable[[Any], Node], Callable[[int], Any], Callable[[int], Any]]] = {
    "map_values": (lambda f: MapValuesNode(name="s", mapper=f), lambda v: v, lambda v: [v]),
    "flat_map_values": (
        lambda f: FlatMapValuesNode(name="s", mapper=f),
        lambda v: [v, v],
        lambda v: [v, v],
    ),
    "map": (lambda f: MapNode(name="s", mapper=f), lambda v: (0, v), lambda v: [v]),
    "flat_map": (
        lambda f: FlatMapNode(name="s", mapper=f),
        lambda v: [(0, v)] * 2,
        lambda v: [v, v],
    ),
    "select_key": (lambda f: SelectKeyNode(name="s", mapper=f), lambda v: v, lambda v: [v]),
    "filter": (lambda f: FilterNode(name="s", predicate=f), lambda v: True, lambda v: [v]),
    "filter_not": (
        lambda f: FilterNode(name="s", predicate=f, negate=True),
        lambda v: False,
        lambda v: [v],
    ),
    "peek": (lambda f: PeekNode(name="s", action=f), lambda v: None, lambda v: [v]),
    "foreach": (lambda f: ForeachNode(name="s", action=f), lambda v: None, lambda v: []),
}


@given(bad=st.sets(st.integers(0, 11)), count=st.integers(1, 12), which=st.sampled_from([*STEPS]))
def test_a_failing_record_meets_the_handler_alone(bad: set[int], count: int, which: str) -> None:
    """The function runs exactly once for each record; the others go on, in order."""
    make, good, gives = STEPS[which]
    seen: list[int] = []
    stage = runner(make(failing_at(bad, seen, good)), processing_handler="dead_letter")
    stage.run({"in": batch([(0, value) for value in range(count)])})
    output = stage.take_output()
    assert seen == list(range(count))
    kept = [value for value in range(count) if value not in bad]
    assert [v for _, v in rows_of(output)] == [v for value in kept for v in gives(value)]
    gone = [value for value in range(count) if value in bad]
    assert output.counters["failed_records:s"] == len(gone)
    offsets = [dict(headers)["mustela.error.offset"] for headers in output.dead_letters.headers]
    assert offsets == [str(value).encode() for value in gone]


def test_a_failing_generator_yields_nothing() -> None:
    """What a generator gave before it failed is dropped with its record."""

    def numbers(value: int) -> Any:
        yield value
        if value == 2:
            msg = "two"
            raise ValueError(msg)

    node = FlatMapValuesNode(name="s", mapper=numbers)
    assert run(node, ROWS, processing_handler="continue") == [("a", 1), ("c", 3)]


def test_a_generator_runs_to_its_end_before_the_next_record() -> None:
    """Effects come in the order of the records, as in a loop."""
    log: list[str] = []

    def numbers(value: int) -> Any:
        log.append(f"begin {value}")
        yield value
        log.append(f"end {value}")

    run(FlatMapValuesNode(name="s", mapper=numbers), ROWS[:2])
    assert log == ["begin 1", "end 1", "begin 2", "end 2"]


def test_stop_iteration_is_an_error_like_any_other() -> None:
    """A function that calls next() on an empty iterator must not end the batch in silence."""
    node = MapValuesNode(name="s", mapper=lambda v: next(iter([] if v == 2 else [v])))
    with pytest.raises(ProcessingError, match="raised StopIteration"):
        run(node, ROWS)
    assert run(node, ROWS, processing_handler="continue") == [("a", 1), ("c", 3)]


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (MapNode(name="s", mapper=lambda k, v: None), "pair .*, not a NoneType"),
        (MapNode(name="s", mapper=lambda k, v: "ab"), "pair .*, not a str"),
        (MapNode(name="s", mapper=lambda k, v: (k, v, 1)), "pair .*, not a tuple of 3"),
        (FlatMapNode(name="s", mapper=lambda k, v: [(k, v), k]), "pair .*, not a str"),
        (FlatMapNode(name="s", mapper=lambda k, v: None), "not a list of results"),
        (FlatMapValuesNode(name="s", mapper=lambda v: "text"), "a str, not a list of results"),
        (FlatMapValuesNode(name="s", mapper=lambda v: v), "returned int, not a list"),
    ],
)
def test_a_result_of_the_wrong_shape_is_told(node: Node, told: str) -> None:
    """What a step cannot use is an error of the record, with the shape it wants."""
    with pytest.raises(ProcessingError, match=told):
        run(node, ROWS)
    assert run(node, ROWS, processing_handler="continue") == []


def test_only_the_wrong_results_fall_out() -> None:
    """A wrong shape at one record leaves the others alone, whichever comes first."""
    node = FlatMapValuesNode(name="s", mapper=lambda v: v if v == 2 else [v])
    assert run(node, ROWS, processing_handler="continue") == [("a", 1), ("c", 3)]
    lazily = FlatMapValuesNode(name="s", mapper=lambda v: iter([v]) if v != 2 else 7)
    assert run(lazily, ROWS, processing_handler="continue") == [("a", 1), ("c", 3)]
    mixed = FlatMapValuesNode(name="s", mapper=lambda v: iter([v]) if v == 2 else [v])
    assert run(mixed, ROWS) == ROWS
    pairs = FlatMapNode(name="s", mapper=lambda k, v: [(k, v)] if v != 2 else [(k, v), 3])
    assert run(pairs, ROWS, processing_handler="continue") == [("a", 1), ("c", 3)]


def test_an_answer_without_a_truth_fails_its_record() -> None:
    """A predicate that returns an array fails where it is asked for its truth."""

    class Array:
        def __bool__(self) -> bool:
            msg = "ambiguous"
            raise ValueError(msg)

    for negate in (False, True):
        answers = {1: not negate, 2: Array(), 3: not negate}
        node = FilterNode(name="s", predicate=lambda _k, v, a=answers: a[v], negate=negate)
        assert run(node, ROWS, processing_handler="continue") == [("a", 1), ("c", 3)]


def test_merging_follows_the_order_of_the_records() -> None:
    """Rows of several inputs come in time order, whichever input they are of."""
    left = SelectKeyNode(name="left", mapper=lambda _k, _v: "left")
    merge = MergeNode(name="merge")
    steps = (
        Step(name="left", inputs=("in",), node=left),
        Step(name="merge", inputs=("left", "in"), node=merge),
    )
    base = runner().stage
    out = Exchange(name="out", step="merge", key=ANY, target=2, keep_null_keys=True)
    stage = Stage(index=0, sources=base.sources, steps=steps, exchanges=(out,))
    runs = type(runner())(stage, topics=("in",), options=runner().options)
    runs.run({"in": batch([("a", 1), ("b", 2)])})
    got = rows_of(runs.take_output())
    assert got == [("left", 1), ("a", 1), ("left", 2), ("b", 2)]


def test_a_merge_of_a_stream_with_itself_gives_each_record_twice() -> None:
    """Two inputs may be the same step."""
    steps = (Step(name="merge", inputs=("in", "in"), node=MergeNode(name="merge")),)
    out = Exchange(name="out", step="merge", key=ANY, target=2)
    stage = Stage(index=0, sources=runner().stage.sources, steps=steps, exchanges=(out,))
    runs = type(runner())(stage, topics=("in",), options=runner().options)
    runs.run({"in": batch([("a", 1), ("b", 2)])})
    assert rows_of(runs.take_output()) == [("a", 1), ("a", 1), ("b", 2), ("b", 2)]


def test_an_empty_batch_does_nothing() -> None:
    """No function sees it and nothing leaves."""
    stage = runner(MapValuesNode(name="s", mapper=lambda v: 1 / 0))
    stage.run({"in": Batch.empty()})
    stage.finish()
    assert stage.take_output().exchanges == {}
