"""Indexes as users say them, and what is refused at their line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    Materialized,
    Record,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.api.errors import BadOptionError
from mustela.processors import ContextualProcessor
from mustela.state.faults import IndexEntryError, IndexTakenError, StoreError
from mustela.stores import Index
from mustela.topology.meaning_changes import compare_meanings
from mustela.topology.store_meaning import StoreMeaning, store_meaning


def people(**indexes: Any) -> Any:
    """Return a store of people by name."""
    supplier = Stores.persistent_key_value_store("people")
    built = Stores.key_value_store_builder(supplier, key=str, value=dict)
    return built.with_index(**indexes)


class Keep(ContextualProcessor[str, Any, str, str]):
    """Keeps what comes."""

    def process(self, record: Record[str, Any]) -> None:
        self.context.state_store("people").put(record.key, record.value)


def keeping(**indexes: Any) -> StreamsBuilder:
    """Return a topology that keeps people."""
    builder = StreamsBuilder()
    kept = builder.stream("in", key=str, value=dict)
    kept.process(Keep, stores=[people(**indexes)], name="keep")
    return builder


def test_the_driver_writes_reads_and_restores_an_indexed_store() -> None:
    """Over all key groups, in the order of the entries; a test's own writes count."""
    with TopologyTestDriver(keeping(age="age", city="home.city"), key_groups=8) as driver:
        topic = driver.create_input_topic("in")
        for number, name in enumerate("abcdefghijkl"):
            home = {"city": ["Rome", "Oslo"][number % 2]}
            topic.pipe_input(name, {"age": 40 - number, "home": home})
        store: Any = driver.get_key_value_store("people")
        assert list(store.by("age").keys(31, 35)) == ["j", "i", "h", "g", "f"]
        assert list(store.by("city").keys("Oslo", reverse=True)) == list("kigecaljhfdb")
        store.put("a", {"age": 33, "home": {"city": "Oslo"}})
        driver.crash(lose_state=True)
        assert [key for key, _ in store.by("age").get(33)] == ["a", "h"]
        assert store.by("city").count("Oslo", "Oslo") == 7
        assert store.by("city").one("Bonn") is None


def test_failures_of_indexes_go_to_the_handler_of_the_processor() -> None:
    """The record is left out as a whole; the fix of either error helps."""
    unique = Index(lambda person: person["mail"], unique=True)
    settings = {"processing.exception.handler": "continue"}
    with TopologyTestDriver(keeping(mail=unique), key_groups=1, settings=settings) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("ann", {"mail": "x"})
        topic.pipe_input("bob", {"mail": "x"})
        topic.pipe_input("cid", {})
        store: Any = driver.get_key_value_store("people")
        assert list(store) == ["ann"]
        with pytest.raises(IndexTakenError, match="delete the other row first"):
            store.put("bob", {"mail": "x"})
        store.delete("ann")
        store.put("bob", {"mail": "x"})
        with pytest.raises(IndexEntryError, match="return None for values that have no entry"):
            store.put("cid", {})
    forgiving = Index(lambda person: person.get("mail"))
    with TopologyTestDriver(keeping(mail=forgiving)) as driver:
        driver.create_input_topic("in").pipe_input("cid", {})
        assert list(driver.get_key_value_store("people").by("mail").keys()) == []


def test_what_cannot_have_an_index_is_refused_at_the_users_line() -> None:
    """With what can."""
    stream = StreamsBuilder().stream("in", key=str, value=str).group_by_key()
    hour = timedelta(hours=1)
    with pytest.raises(BadOptionError, match="'t' cannot have indexes"):
        stream.count(materialized=Materialized(store="t", ttl=hour, index={"size": len}))
    supplier = Stores.lru_map("t", 9)
    with pytest.raises(BadOptionError, match="'t' cannot have indexes"):
        stream.count(materialized=Materialized(supplier=supplier, index={"size": len}))
    windows = stream.windowed_by(TimeWindows(size=hour, grace=hour))
    with pytest.raises(BadOptionError, match="it is a window store"):
        windows.count(materialized=Materialized(store="t", index={"size": len}))
    with pytest.raises(BadOptionError, match="forgets rows"):
        people(city="city").with_ttl(hour).with_index(city="city")
    for wrong in (3, "a..b", ""):
        with pytest.raises(BadOptionError, match="is not an index"):
            people(city=wrong)
    with pytest.raises(BadOptionError, match="is not an index"):
        stream.count(materialized=Materialized(store="t", index=["city"]))  # type: ignore[arg-type]


def test_a_store_without_an_index_says_so() -> None:
    """And one with another one names it."""
    with TopologyTestDriver(keeping()) as driver, pytest.raises(StoreError, match="no index"):
        driver.get_key_value_store("people").by("city")


def test_indexes_come_and_go_without_a_stop() -> None:
    """What the rows mean stays: the epoch record names them, and the gate tells the difference."""

    def meaning(**indexes: Any) -> StoreMeaning:
        spec = people(**indexes).spec()
        return store_meaning(spec, owner="keep", operation="process")

    then, now = meaning(), meaning(city="home.city", mail=Index(len, unique=True))
    assert now.indexes == ("city 'home.city'", "mail unique")
    assert StoreMeaning.from_dict(now.as_dict()) == now
    (change,) = compare_meanings(then, now)
    assert (change.field, change.then, change.now, change.compatible) == (
        *("indexes", "none", "city 'home.city', mail unique", True),
    )
    prints = [keeping(**one).build().fingerprint for one in ({}, {"city": "home.city"})]
    assert prints[0] == prints[1]
