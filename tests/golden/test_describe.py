"""The text of a topology: what people read, and what other tools of Kafka Streams parse."""

from __future__ import annotations

from collections.abc import Callable

from mustela.dsl.builder import StreamsBuilder

Golden = Callable[[str, str], None]


def test_word_count_is_described(golden: Golden) -> None:
    """The first program anybody writes."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word)
    words.count(store="counts").to_stream().to("counts", key=str, value=int)
    golden("describe/word_count.txt", builder.build().describe())


def test_every_kind_of_node_is_described(golden: Golden) -> None:
    """Two sub-topologies with every verb there is."""
    builder = StreamsBuilder()
    orders = builder.stream(["orders.us", "orders.eu"], key=str, value=int, name="orders")
    large = orders.filter(lambda _key, total: total > 99, name="large")
    large.merge(orders.filter_not(lambda _key, total: total > 99)).to("all-orders")
    large.peek(print).foreach(print)
    large.to(lambda _key, _total, context: f"{context.topic}.large")
    pairs = orders.map(lambda key, total: (total, key)).flat_map(lambda key, total: [(total, key)])
    pairs.select_key(max).group_by_key().aggregate(list, lambda _k, v, seen: [*seen, v], name="all")
    values = orders.map_values(abs).map_values_with_key(lambda _key, value: value)
    values.flat_map_values(range).flat_map_values_with_key(lambda _key, value: [value])
    prices = builder.table("prices", key=str, value=int, store="prices")
    dear = prices.filter(lambda _key, price: price > 9).filter_not(lambda _k, price: price > 99)
    dear.map_values(str, store="labels").map_values_with_key(max).to_stream(max)
    builder.table("stock", key=str, value=int).to_stream().group_by_key().reduce(max, name="most")
    golden("describe/every_verb.txt", builder.build().describe())
