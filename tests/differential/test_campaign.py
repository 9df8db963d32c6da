"""How the long run chooses what it draws, and what a known divergence explains."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest

from tests.differential.campaign import Report, directed, sought
from tests.differential.contents import Asked
from tests.differential.divergences import Written, divergence_of
from tests.differential.draw import Example, Input
from tests.differential.pairs import alone, composable
from tests.differential.sides import Row


def test_pairs_that_are_not_met_come_until_they_are() -> None:
    """Here each is met the second time it comes, and one never is."""
    report, never = Report(), composable()[7]
    chains = sought(report, directed(3), 3, examples=6000)
    came = set[tuple[str, ...]]()
    for chain in chains:
        report.examples += 1
        for pair in pairwise(chain):
            if pair in came and pair != never:
                report.pairs[pair] += 1
            came.add(pair)
    assert report.unmet() == [never]
    assert report.examples == 6000


def test_what_is_met_is_not_drawn_again_before_all_is() -> None:
    """A pair that is left comes by itself then."""
    report, left = Report(), composable()[9]
    report.pairs.update(pair for pair in composable() if pair != left)
    chains = sought(report, directed(3, report.pairs), 3, examples=6000)
    came = list(islice(chains, len(alone()) + 10))
    assert came[-10:] == [left] * 10


def _cogrouped(*inputs: Input) -> Example:
    window = {"type": "time", "size": 5, "advance": 5, "grace": 0}
    steps = (
        {"id": "s0", "op": "stream", "topic": "t0"},
        {"id": "s1", "op": "stream", "topic": "t1"},
        {"id": "s2", "op": "cogroup", "f": "concat", "window": window, "in": ["s0", "s1"]},
        {"id": "s3", "op": "to_stream_key", "f": "same", "in": ["s2"]},
        {"id": "s4", "op": "to", "topic": "o0", "in": ["s3"]},
    )
    return Example(steps, inputs, ("cogroup_hopping",), steps, Asked("a", "b", 0, 0, [], []))


@pytest.mark.parametrize(
    ("ways", "explains"),
    [("t0 t1", True), ("t0 t0", False), ("t1 t0", True), ("t1 t1", False)],
)
def test_only_a_record_that_is_late_by_another_way_shows_that_cogroups_share_time(
    ways: str, explains: bool
) -> None:
    """One that is late by its own way is late in Kafka Streams too."""
    first, second = ways.split()
    example = _cogrouped(Input(first, "a", "1", 5), Input(second, "a", "2", 4))
    nothing: Written = [[[]], [[]]]
    told: Written = [[[]], [[Row("[a@0/5]", "0,2", 4, ())]]]
    found = divergence_of(example, told, nothing, 1)
    assert found == (("cogroup-shares-stream-time", "rest") if explains else None)


def test_a_difference_in_time_for_a_window_that_is_open_is_not_explained() -> None:
    """However the records come."""
    example = _cogrouped(Input("t0", "a", "1", 9), Input("t1", "a", "2", 6))
    nothing: Written = [[[]], [[]]]
    told: Written = [[[]], [[Row("[a@5/10]", "0,1/1/2", 9, ())]]]
    assert divergence_of(example, told, nothing, 1) is None
