"""Kinds of stores that the library does not know, in every way in which a topology runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import Materialized, Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError
from mustela.plan.keygroups import key_group
from mustela.processors import ContextualProcessor
from mustela.serdes.primitives import StrSerde
from mustela.state.interfaces import StoreSpec
from mustela.stores import StoreBuilder
from mustela.topology.graph import TopologyGraph
from tests.conformance.conftest import RunTopology
from tests.conformance.own_kinds import BAGS, CARTS, INDEXED, Bags, Indexed
from tests.conformance.script import Sent


class Fill(ContextualProcessor[str, str, str, str]):
    """Puts values into a bag, takes those out that begin with a minus, and tells what is in it."""

    def process(self, record: Record[str, str]) -> None:
        carts: Bags = self.context.state_store("carts")
        if record.value.startswith("-"):
            carts.discard(record.key, record.value[1:])
        else:
            carts.add(record.key, record.value)
        self.context.forward(record.with_value(repr(carts.bag(record.key))))


class Ask(ContextualProcessor[str, int, str, list[str]]):
    """Tells which keys have a number, of all lanes."""

    def process(self, record: Record[str, int]) -> None:
        counts: Indexed = self.context.any_key_store("counts")
        self.context.forward(record.with_value(counts.keys_of(record.value)))


class Meet(ContextualProcessor[str, int, str, bool]):
    """Tells whether the table's own lane finds the key of a change by its number."""

    def process(self, record: Record[str, int]) -> None:
        counts: Indexed = self.context.state_store("counts")
        self.context.forward(record.with_value(record.key in counts.keys_of(record.value)))


class Look(ContextualProcessor[str, str, str, str]):
    """Tells what is in the bag of any key, as it was before the epoch."""

    def process(self, record: Record[str, str]) -> None:
        carts: Bags = self.context.any_key_store("carts")
        self.context.forward(record.with_value(repr(carts.bag(record.value))))


def topology() -> TopologyGraph:
    """One step fills bags, another one looks into those of other keys."""
    builder = StreamsBuilder()
    bought = builder.stream("in", key=str, value=str)
    bought.process(Fill, stores=[CARTS], name="fill").to("out", key=str, value=str)
    asked = builder.stream("asked", key=str, value=str)
    asked.process(Look, reads=["carts"], name="look").to("seen", key=str, value=str)
    return builder.build()


SENT = [
    *(Sent("in", "ann", "pear", 1), Sent("in", "ann", "apple", 2), Sent("in", "cid", "pear", 3)),
    *(Sent("in", "ann", "pear", 4), Sent("asked", "x", "ann", 5), Sent("in", "ann", "-pear", 6)),
    *(Sent("in", "anna", "fig", 7), Sent("asked", "y", "cid", 8), Sent("asked", "z", "nil", 9)),
]


def test_a_kind_of_ones_own_is_kept_as_the_librarys_are(run_topology: RunTopology) -> None:
    """Written in a processor, read by any key, restored from its changelog after a crash."""
    produced = run_topology(topology(), SENT)
    assert sorted(produced["out"], key=lambda row: row[0]) == [
        ("ann", "{'pear': 1}"),
        ("ann", "{'apple': 1, 'pear': 1}"),
        ("ann", "{'apple': 1, 'pear': 2}"),
        ("ann", "{'apple': 1}"),
        ("anna", "{'fig': 1}"),
        ("cid", "{'pear': 1}"),
    ]
    assert sorted(produced["seen"]) == [
        ("x", "{'apple': 1, 'pear': 2}"),
        ("y", "{'pear': 1}"),
        ("z", "{}"),
    ]


def indexed_topology() -> TopologyGraph:
    """A count in a table with an index, which two processors ask for the keys of a count."""
    builder = StreamsBuilder()
    supplier = StoreSpec(name="counts", own_kind=INDEXED)
    words = builder.stream("in", key=str, value=str).group_by_key()
    counts = words.count(materialized=Materialized(supplier=supplier)).to_stream()
    counts.process(Meet, stores=["counts"], name="meet").to("met", key=str, value=bool)
    asked = builder.stream("asked", key=str, value=int)
    asked.process(Ask, reads=["counts"], name="ask").to("told", key=str, value=list[str])
    return builder.build()


def test_a_step_of_the_library_writes_an_index_beside_its_rows(run_topology: RunTopology) -> None:
    """A count that knows of no index keeps it: it writes rows as the kind wants them."""
    sent = [
        *(Sent("in", key, "", 1) for key in ("ann", "cid", "ann", "eve", "cid")),
        *(Sent("asked", "who", count, 2) for count in (1, 2, 3)),
        Sent("in", "ann", "", 3),
        *(Sent("asked", "who", count, 4) for count in (1, 2, 3)),
    ]
    produced = run_topology(indexed_topology(), sent)
    told = [["eve"], ["ann", "cid"], [], ["eve"], ["cid"], ["ann"]]
    assert [keys for _, keys in produced["told"]] == told
    assert [met for _, met in produced["met"]] == [True] * 6


def test_the_driver_shows_it_and_restores_it_from_its_changelog() -> None:
    """As its own class, over all key groups; a disk that is lost is nothing to it."""
    with TopologyTestDriver(topology(), key_groups=8, lanes=3) as driver:
        carts: Any = driver.get_state_store("carts")
        assert isinstance(carts, Bags)
        assert len({key_group(key, 8) for key in (b"ann", b"cid")}) == 2
        for sent in SENT[:4]:
            driver.create_input_topic(sent.topic).pipe_input(sent.key, sent.value)
        carts.add("cid", "fig")
        driver.crash(lose_state=True)
        assert carts.bag("ann") == {"apple": 1, "pear": 2}
        assert carts.bag("cid") == {"fig": 1, "pear": 1}
        assert sorted(carts.all()) == [("ann", 1), ("ann", 2), ("cid", 1), ("cid", 1)]


@pytest.mark.parametrize(
    "supplier", [StoreSpec(name="facts", own_kind=INDEXED), Stores.lru_map("facts", 2)]
)
def test_a_copy_of_a_topic_keeps_no_more_than_the_topic(supplier: StoreSpec) -> None:
    """Where an index or a limit would be left out in silence, it is refused at the user's line."""
    builder = StreamsBuilder()
    with pytest.raises(BadOptionError, match="byte for byte"):
        builder.global_table("in", key=str, value=str, materialized=Materialized(supplier=supplier))
    store = StoreBuilder(supplier=supplier, key=StrSerde(), value=StrSerde())
    with pytest.raises(BadOptionError, match="byte for byte"):
        builder.add_global_store(store, "in", Fill)


def test_a_table_is_told_what_its_kind_does_not_have() -> None:
    """At the user's line, and not by the store alone."""
    stream = StreamsBuilder().stream("in", key=str, value=int)
    supplier = StoreSpec(name="facts", own_kind=INDEXED)
    with pytest.raises(BadOptionError, match="stores of kind 'indexed' have no time to live"):
        stream.to_table(materialized=Materialized(supplier=supplier, ttl=timedelta(1)))
    with pytest.raises(BadOptionError, match=r"use StoreBuilder\(supplier=\.\.\."):
        Stores.key_value_store_builder(StoreSpec(name="carts", own_kind=BAGS))
