"""Programs side by side on one broker, in turns: forwards, backwards, and so on.

Each works off the same topic, its output is held against the oracle, and where that is asked for it
keeps up with a fixed load. The first turn warms the broker up, and does not count.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.peers.base import Assignment
from benchmarks.peers.registry import Contestant
from benchmarks.trial import Bench, FixedLoad, assignment, catch_up, clean_up, fill, fixed_load
from benchmarks.workloads import Workload

__all__ = ["Numbers", "Turns", "in_turns", "latencies", "medians", "ratios_of"]

Numbers = dict[str, float]
_P50, _P95 = 9, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What is measured in each turn.

    Attributes:
        turns: How often, for each side.
        records: How many each works off.
        caught_up: Chooses of the numbers of a backlog.
        loaded: Chooses of those of a fixed load, before its topics are deleted; None for none.
    """

    turns: int
    records: int
    caught_up: Callable[[Numbers], Numbers]
    loaded: Callable[[Contestant, Assignment, FixedLoad], Numbers] | None = None


def in_turns(
    bench: Bench, workload: Workload, sides: Sequence[Contestant], what: Turns
) -> dict[str, list[Numbers]]:
    """Run all sides in turns; return the numbers of each turn that counts, by side."""
    topic = workload.input_topic(what.records)
    oracle = fill(bench, workload, topic, what.records)
    found: dict[str, list[Numbers]] = {side.peer: [] for side in sides}
    for turn in range(what.turns + 1):
        for side in sides if turn % 2 else reversed(sides):
            name = f"{side.peer}{turn}"
            todo = assignment(bench, workload, side, name, topic, what.records)
            numbers = what.caught_up(catch_up(bench, workload, side, todo, oracle).numbers())
            clean_up(bench, todo)
            if turn:
                if what.loaded is not None:
                    todo = assignment(bench, workload, side, f"{name}l", f"{name}.in", 0)
                    load = fixed_load(bench, workload, side, todo)
                    numbers |= what.loaded(side, todo, load)
                    clean_up(bench, todo)
                found[side.peer].append(numbers)
            print(name, json.dumps(numbers), file=sys.stderr, flush=True)
    return found


def ratios_of(mine: Sequence[Numbers], others: Sequence[Numbers]) -> dict[str, list[float]]:
    """Return the ratio of each number to the other side's in the same turn.

    Example:
        >>> ratios_of([{"cpu": 3.0}, {"cpu": 2.0}], [{"cpu": 2.0}, {"cpu": 2.0}])
        {'cpu': [1.5, 1.0]}
    """
    found: dict[str, list[float]] = {}
    for one, other in zip(mine, others, strict=True):
        for what, number in one.items():
            found.setdefault(what, []).append(round(number / max(other[what], 1e-9), 3))
    return found


def medians(ratios: dict[str, list[float]]) -> Numbers:
    """Return the medians over the turns."""
    return {what: round(statistics.median(each), 3) for what, each in ratios.items()}


def latencies(load: FixedLoad) -> Numbers:
    """Return the median and the 95th percentile of the times from a record to its result."""
    parts = statistics.quantiles(load.latencies_ms, n=20)
    return {"p50_ms": round(parts[_P50], 1), "p95_ms": round(parts[_P95], 1)}
