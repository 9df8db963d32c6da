"""Which topics a store is made of."""

from __future__ import annotations

from mustela.dsl.builder import StreamsBuilder
from mustela.plan.feeds import topics_behind
from mustela.planner.planner import plan


def test_topics_behind_a_store_are_all_whose_records_reach_it() -> None:
    """Over joins, re-keyings and merges."""

    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=str, store="prices")
    lines = builder.stream("lines", key=str, value=str).merge(
        builder.stream("more", key=str, value=str)
    )
    joined = lines.join(prices, lambda a, b: a + b, name="joined")
    joined.group_by(lambda _key, word: word, key=str).count(store="counts")

    assert topics_behind(plan(builder.build())) == {
        "prices": ("prices",),
        "counts": ("lines", "more", "prices"),
    }
