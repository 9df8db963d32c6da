"""The text of plans, and each rule of the planner before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from mustela.api.join_windows import JoinWindows
from mustela.api.joined import Joined
from mustela.api.suppression import BufferConfig, Suppressed
from mustela.api.windows import TimeWindows
from mustela.dsl.builder import StreamsBuilder
from mustela.planner.explain import explain
from mustela.planner.options import PlanOptions
from mustela.planner.planner import RULES, plan
from mustela.topology.graph import TopologyGraph

Golden = Callable[[str, str], None]


def word_count() -> TopologyGraph:
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split, name="words").group_by(by_value, key=str, name="word")
    words.count(store="counts", name="count").to_stream(name="changes").to("counts", name="out")
    return builder.build()


def known_keys() -> TopologyGraph:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str)
    changes = clicks.group_by_key().count(name="count").to_stream(name="changes")
    changes.group_by_key().reduce(int.__mul__, name="product").to_stream(name="out")
    changes.select_key(by_value, name="by-count").group_by_key(key=int).reduce(max, name="most")
    return builder.build()


def filtered_tables() -> TopologyGraph:
    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=int, store="prices")
    prices.map_values(abs, name="abs").filter(by_value, name="dear").to_stream(name="dear-changes")
    stock = builder.table("stock", key=str, value=int)
    stock.filter(by_value, name="there").to_stream(name="there-changes")
    return builder.build()


def several_stages() -> TopologyGraph:
    builder = StreamsBuilder()
    orders = builder.stream(["orders.us", "orders.eu"], key=str, value=int, name="orders")
    totals = orders.group_by_key().reduce(int.__add__, name="totals").to_stream(name="changes")
    totals.merge(orders, name="both").to(lambda _key, _value, _context: "x", name="out")
    sizes = totals.select_key(by_value, name="size").group_by_key(key=int)
    sizes.aggregate(
        int,
        lambda _key, value, total: total + value,
        merger=lambda _key, left, right: left + right,
        store="sizes",
        name="sizes",
    )
    return builder.build()


def lookups() -> TopologyGraph:
    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=int)
    prices.to_stream(name="changes").to("changes", name="out")
    orders = builder.stream("orders", key=str, value=int)
    orders.join(prices.map_values(abs, name="abs"), int.__mul__, name="costs")
    by_hand = orders.group_by_key().reduce(int.__add__, name="totals").to_stream(as_text)
    by_hand.left_join(prices, either, name="again", joined=Joined(key=str))
    return builder.build()


def as_text(_key: str, value: int) -> str:
    return str(value)


def either(left: int, right: int | None) -> int:
    return left if right is None else right


def by_value(_key: object, value: object) -> object:
    return value


def last_click(_user: str, click: str) -> str:
    return click


def foreign_keys() -> TopologyGraph:
    """The right tables travel once, to where the joins are: stored or not, or seen by a filter."""
    builder = StreamsBuilder()
    orders = builder.table("orders", key=int, value=str)
    for name, right in {
        "users": builder.table("users", key=str, value=str),
        "towns": builder.table("towns", key=str, value=str, store="towns"),
        "shops": builder.table("shops", key=str, value=str).filter(by_value, name="open"),
    }.items():
        joined = orders.join(right, str.__add__, foreign_key=str.lower, name=f"of-{name}")
        joined.to_stream(name=f"changes-of-{name}")
    return builder.build()


def a_table_that_waits() -> TopologyGraph:
    """A table that only a join behind another stage reads is kept where the join is."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str).group_by_key().reduce(max, name="last")
    moved = clicks.to_stream(name="changes").select_key(last_click, name="by-value")
    names = builder.table("names", key=str, value=str, store="names")
    moved.join(names, str.__add__, name="named", joined=Joined(key=str))
    return builder.build()


def same_key_twice() -> TopologyGraph:
    builder = StreamsBuilder()
    spread = builder.stream("clicks", key=str, value=str).select_key(by_value, name="by-value")
    grouped = spread.group_by_key(key=str)
    grouped.reduce(max, name="most")
    grouped.reduce(min, name="least")
    return builder.build()


def with_itself() -> TopologyGraph:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str)
    near = JoinWindows.of_time_difference(timedelta(seconds=5), grace=timedelta(0))
    clicks.join(clicks, str.__add__, windows=near, name="pairs", value=str).to("pairs", name="out")
    return builder.build()


def closed_windows() -> TopologyGraph:
    builder = StreamsBuilder()
    minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    counts = builder.stream("clicks", key=str).group_by_key().windowed_by(minutes).count(name="n")
    last = Suppressed.until_window_closes(BufferConfig.unbounded())
    counts.suppress(last, name="closed").to_stream(name="changes")
    return builder.build()


EXAMPLE_OF_RULE: dict[str, Callable[[], TopologyGraph]] = {
    "close_in_window_store": closed_windows,
    "combine_before_shuffle": word_count,
    "each_change": lookups,
    "inline_expressions": a_table_that_waits,
    "keep_known_keys": known_keys,
    "materialize_lookup": lookups,
    "merge_repartitions": same_key_twice,
    "send_old_values": filtered_tables,
    "single_store_self_join": with_itself,
}


@pytest.mark.parametrize(
    "example",
    [
        word_count,
        known_keys,
        filtered_tables,
        several_stages,
        lookups,
        foreign_keys,
        a_table_that_waits,
    ],
    ids=lambda e: e.__name__,
)
def test_a_plan_is_explained(golden: Golden, example: Callable[[], TopologyGraph]) -> None:
    """With every rule on, as an application runs it."""
    golden(f"plan/{example.__name__}.txt", explain(plan(example())))


def test_a_plan_is_explained_where_each_update_is_emitted(golden: Golden) -> None:
    """``emit = every`` sees each record."""
    made = plan(several_stages(), options=PlanOptions(emit="every"))
    golden("plan/several_stages_every.txt", explain(made))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_seen_before_and_after(golden: Golden, rule: str) -> None:
    """What the rule changes, all other rules being on."""
    topology = EXAMPLE_OF_RULE[rule]()
    on = PlanOptions(event_time="watermark")
    before = explain(plan(topology, options=replace(on, rules_off=frozenset({rule}))))
    after = explain(plan(topology, options=on))
    assert before != after
    golden(f"plan/rule_{rule}.txt", f"--- before\n{before}\n\n--- after\n{after}\n")
