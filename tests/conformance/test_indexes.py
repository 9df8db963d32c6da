"""Indexed stores, in every way in which a topology runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from mustela import Materialized, Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.state.faults import IndexTakenError
from mustela.stores import Index
from mustela.topology.graph import TopologyGraph
from tests.conformance.conftest import RunTopology
from tests.conformance.script import Sent


@dataclass(frozen=True)
class Shop:
    """A shop, in a city, with so many articles."""

    city: str | None
    articles: int


class Open(ContextualProcessor[str, Shop, str, list[str]]):
    """Writes a shop and tells which shops of its city its key group has."""

    def process(self, record: Record[str, Shop]) -> None:
        shops = self.context.state_store("shops")
        shops.put(record.key, record.value)
        same = [key for key, _ in shops.by("city").get(record.value.city)]
        self.context.forward(record.with_value(same))


class Ask(ContextualProcessor[str, str, str, list[str]]):
    """Tells which shops are in a city, and all by how many articles they have, of all lanes."""

    def process(self, record: Record[str, str]) -> None:
        shops: Any = self.context.any_key_store("shops")
        ranked = shops.by("articles").range(2, reverse=True)
        counted: Any = self.context.any_key_store("counts")
        told = [
            *(f"{key} {shop.articles}" for key, shop in shops.by("city").get(record.value)),
            *(f"{shop.articles} {key}" for key, shop in ranked),
            *counted.by("often").keys(2),
        ]
        self.context.forward(record.with_value(told))


def topology() -> TopologyGraph:
    """A processor's store and a count, each with an index, and a processor that reads both."""
    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("shops"), key=str, value=Shop
    ).with_index(city="city", articles=lambda shop: shop.articles)
    shops = builder.stream("in", key=str, value=Shop)
    opened = shops.process(Open, stores=[store], name="open")
    opened.to("out", key=str, value=list[str])
    often = Materialized(store="counts", index={"often": lambda count: count})
    shops.group_by_key().count(materialized=often)
    asked = builder.stream("asked", key=str, value=str)
    asked.process(Ask, reads=["shops", "counts"], name="ask").to("told", key=str, value=list[str])
    return builder.build()


SENT = [
    *(Sent("in", "a", Shop("Rome", 3), 1), Sent("in", "b", Shop("Oslo", 2), 2)),
    *(Sent("in", "a", Shop("Rome", 4), 3), Sent("in", "c", Shop("Rome", 1), 4)),
    *(Sent("asked", "x", "Rome", 5), Sent("in", "a", Shop("Oslo", 2), 6)),
    *(Sent("in", "b", Shop(None, 9), 7), Sent("asked", "y", "Oslo", 8)),
]


def test_an_indexed_store_is_kept_as_all_stores_are(run_topology: RunTopology) -> None:
    """Read by its own step within the epoch, by others by any key, and after every crash."""
    produced = run_topology(topology(), SENT)
    assert sorted(produced["told"]) == [
        ("x", ["a 4", "c 1", "4 a", "2 b", "a"]),
        ("y", ["a 2", "9 b", "2 a", "b", "a"]),
    ]
    assert [key in same for key, same in produced["out"]] == [True, True, True, True, True, False]


def test_the_second_key_of_a_unique_entry_goes_to_the_handler(run_topology: RunTopology) -> None:
    """As what a processor raises does: it can take it, and tell."""
    produced = run_topology(_names(), [Sent("names", "all", name, 1) for name in ("b", "a", "b")])
    assert [value for _, value in produced["said"]] == ["b", "a", "b is taken by 0"]


class Name(ContextualProcessor[str, str, str, str]):
    """Gives each name a number, and no name two."""

    def process(self, record: Record[str, str]) -> None:
        names: Any = self.context.state_store("names")
        taken = names.by("name").one(record.value)
        try:
            names.put(len(names), record.value)
            self.context.forward(record)
        except IndexTakenError:
            self.context.forward(record.with_value(f"{record.value} is taken by {taken[0]}"))


def _names() -> TopologyGraph:
    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("names"), key=int, value=str
    ).with_index(name=Index(lambda name: name, unique=True))
    names = builder.stream("names", key=str, value=str)
    names.process(Name, stores=[store], name="name").to("said", key=str, value=str)
    return builder.build()


@pytest.mark.parametrize("headers", [False, True])
def test_a_table_with_an_index_is_a_table(run_topology: RunTopology, headers: bool) -> None:
    """With times and headers, deleted and written again, joined, and asked by its index."""
    builder = StreamsBuilder()
    options = Materialized(store="t", index={"size": len}, with_headers=headers)
    table = builder.table("t", key=str, value=str, materialized=options)
    asked = builder.stream("q", key=str, value=int)
    asked.join(table, lambda size, word: f"{size}{word}").to("joined", key=str, value=str)
    asked.process(_Sizes, reads=["t"], name="sizes").to("sizes", key=str, value=list[str])
    sent = [
        *(Sent("t", "a", "pear", 1), Sent("t", "b", "fig", 2), Sent("t", "c", "plum", 3)),
        *(Sent("t", "a", None, 4), Sent("t", "b", "nuts", 5), Sent("q", "b", 4, 9)),
    ]
    produced = run_topology(builder.build(), sent)
    assert produced["joined"] == [("b", "4nuts")]
    assert produced["sizes"] == [("b", ["b nuts", "c plum"])]


class _Sizes(ContextualProcessor[str, int, str, list[str]]):
    def process(self, record: Record[str, int]) -> None:
        words: Any = self.context.any_key_store("t")
        told = [f"{key} {row.value}" for key, row in words.by("size").get(record.value)]
        self.context.forward(record.with_value(told))
