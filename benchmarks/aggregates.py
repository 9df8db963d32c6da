"""Aggregates by name beside the fold that one writes by hand: ``python -m benchmarks.aggregates``.

Both fold the same records to the same rows; that they do is seen first, against plain Python. Then
the two take turns, and what is printed is the median of the ratios of neighbours: above 1 the
aggregates by name are the faster ones. No broker, no Spark, as in `benchmarks.kernel`.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.kernel import Records, run_lane, run_sources, travelled
from mustela import StreamsBuilder, TopologyTestDriver
from mustela.aggregates import Avg, Count, CountDistinct, Max, MaxBy, Min, Sum, TopN
from mustela.plan.plan import Plan
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan

Value = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same result, said and written.

    Attributes:
        fields: The aggregates.
        first: What the written fold begins with.
        add: Adds a value to it.
        merge: Makes one of two.
        row: Makes the row of it.
        truth: The row of values, in plain Python.
    """

    fields: dict[str, Any]
    first: Callable[[], Any]
    add: Callable[[str, Value, Any], Any]
    merge: Callable[[str, Any, Any], Any]
    row: Callable[[Any], Value]
    truth: Callable[[list[Value]], Value]


def add_sum(_key: str, value: Value, total: int) -> int:
    return total + value["amount"]


def add_five(_key: str, value: Value, state: Value) -> Value:
    amount = value["amount"]
    state["number"] += 1
    state["total"] += amount
    state["least"] = min(state["least"], amount)
    state["greatest"] = max(state["greatest"], amount)
    return state


def merge_five(_key: str, left: Value, right: Value) -> Value:
    left["number"] += right["number"]
    left["total"] += right["total"]
    left["least"] = min(left["least"], right["least"])
    left["greatest"] = max(left["greatest"], right["greatest"])
    return left


def add_best(_key: str, value: Value, best: Value) -> Value:
    return value if not best or value["amount"] > best["amount"] else best


def add_top(_key: str, value: Value, top: list[Value]) -> list[Value]:
    if len(top) < 10 or value["amount"] > top[-1]["amount"]:
        top.append(value)
        top.sort(key=lambda one: -one["amount"])
        del top[10:]
    return top


def merge_top(key: str, left: list[Value], right: list[Value]) -> list[Value]:
    for value in right:
        add_top(key, value, left)
    return left


def add_user(_key: str, value: Value, users: Value) -> Value:
    users[value["user"]] = 1
    return users


def amounts(values: Iterable[Value]) -> list[int]:
    return [value["amount"] for value in values]


PAIRS = {
    "sum": Pair(
        fields={"total": Sum("amount")},
        first=int,
        add=add_sum,
        merge=lambda _key, left, right: left + right,
        row=lambda total: {"total": total},
        truth=lambda values: {"total": sum(amounts(values))},
    ),
    "five of a field": Pair(
        fields={
            "number": Count(),
            "total": Sum("amount"),
            "mean": Avg("amount"),
            "least": Min("amount"),
            "greatest": Max("amount"),
        },
        first=lambda: {"number": 0, "total": 0, "least": 1 << 62, "greatest": -1},
        add=add_five,
        merge=merge_five,
        row=lambda state: {**state, "mean": state["total"] / state["number"]},
        truth=lambda values: {
            "number": len(values),
            "total": sum(amounts(values)),
            "mean": sum(amounts(values)) / len(values),
            "least": min(amounts(values)),
            "greatest": max(amounts(values)),
        },
    ),
    "best": Pair(
        fields={"best": MaxBy("amount")},
        first=dict,
        add=add_best,
        merge=lambda key, left, right: add_best(key, right, left),
        row=lambda best: {"best": best},
        truth=lambda values: {"best": max(values, key=lambda value: value["amount"])},
    ),
    "top ten": Pair(
        fields={"top": TopN(10, by="amount")},
        first=list,
        add=add_top,
        merge=merge_top,
        row=lambda top: {"top": top},
        truth=lambda values: {"top": sorted(values, key=lambda one: -one["amount"])[:10]},
    ),
    "distinct": Pair(
        fields={"users": CountDistinct("user")},
        first=dict,
        add=add_user,
        merge=lambda _key, left, right: left.update(right) or left,
        row=lambda users: {"users": len(users)},
        truth=lambda values: {"users": len({value["user"] for value in values})},
    ),
}


def said(pair: Pair) -> StreamsBuilder:
    """Write the topology with aggregates by name."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=dict).group_by_key()
    grouped.aggregate(**pair.fields, value=dict, store="t").to_stream().to("out")
    return builder


def written(pair: Pair) -> StreamsBuilder:
    """Write it with functions."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=dict).group_by_key()
    folded = grouped.aggregate(pair.first, pair.add, merger=pair.merge, store="t")
    folded.map_values(pair.row, value=dict).to_stream().to("out")
    return builder


def values_of(count: int, keys: int) -> list[tuple[str, Value]]:
    """Draw records; no two have the same amount, so that the best is one alone."""
    rng = random.Random(5)
    drawn = rng.sample(range(10 * count), count)
    return [
        (f"key-{rng.randrange(keys)}", {"amount": amount, "user": f"user-{rng.randrange(50)}"})
        for amount in drawn
    ]


def check(pair: Pair) -> None:
    """See that both are what plain Python says.

    Raises:
        AssertionError: If one is not.
    """
    records = values_of(2_000, 20)
    by_key: dict[str, list[Value]] = {}
    for key, value in records:
        by_key.setdefault(key, []).append(value)
    truth = {key: pair.truth(values) for key, values in by_key.items()}
    for write in (said, written):
        with TopologyTestDriver(write(pair).build()) as driver:
            topic = driver.create_input_topic("in")
            for key, value in records:
                topic.pipe_input(key, value)
            rows = driver.create_output_topic("out").read_key_values_to_map()
        assert rows == truth, (write.__name__, pair.fields)


def seconds_of(physical: Plan, records: Records) -> float:
    """Return the CPU time of the source stage and the lane together."""
    started = time.process_time()
    sent = run_sources(physical, records)
    stage = physical.stages[1]
    inputs = {exchange: travelled(batches) for exchange, batches in sent.items()}
    run_lane(stage, physical.topics, inputs)
    return time.process_time() - started


def ratio(pair: Pair, count: int, keys: int, times: int) -> float:
    """Return how many times faster the aggregates by name are: the median of neighbours."""
    drawn = values_of(count, keys)
    records = Records(
        [key.encode() for key, _ in drawn], [json.dumps(value).encode() for _, value in drawn]
    )
    options = PlanOptions(event_time="watermark")
    plans = [plan(write(pair).build(), options=options) for write in (said, written)]
    found: list[float] = []
    for turn in range(times):
        order = plans if turn % 2 else plans[::-1]
        taken = {id(physical): seconds_of(physical, records) for physical in order}
        found.append(taken[id(plans[1])] / taken[id(plans[0])])
    return statistics.median(found)


def main() -> None:
    """Print a line for each pair: with few keys, where folding counts, and with many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=7)
    options = parser.parse_args()
    for name, pair in PAIRS.items():
        check(pair)
        few = ratio(pair, options.records, 100, options.times)
        many = ratio(pair, options.records, options.records // 10, options.times)
        print(f"{name:20} {few:6.2f} times with 100 keys {many:6.2f} times with a tenth")


if __name__ == "__main__":
    main()
