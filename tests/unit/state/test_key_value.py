"""Typed key-value stores over bytes."""

from __future__ import annotations

import pytest

from mustela.serdes.resolve import resolve_serde
from mustela.state.faults import StoreError
from mustela.state.interfaces import Committed, StoreSpec
from mustela.state.kinds.key_value import (
    KeyValueStore,
    TimestampedKeyValueStore,
    ValueAndTimestamp,
)
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from tests.unit.state.environments import make_spec


def make_view(spec: StoreSpec):
    environment = MemoryEnvironment(make_spec(stores=(spec,)))
    return Overlay(environment.snapshot(Committed())).store(spec.name)


@pytest.fixture(params=["key_value", "timestamped_key_value"])
def store(request) -> KeyValueStore[str, int]:
    spec = StoreSpec(
        name="s", kind=request.param, key_serde=resolve_serde(str), value_serde=resolve_serde(int)
    )
    return KeyValueStore(make_view(spec), spec)


def test_it_reads_what_was_put(store):
    """A store has Kafka's methods and a mapping's, and they agree."""
    store.put("a", 1)
    store["b"] = 2
    store.put_all([("c", 3), ("a", None)])
    assert store.get("a") is None
    assert store.get("a", 0) == 0
    assert store["b"] == 2
    assert "c" in store
    assert None not in store
    assert list(store) == ["b", "c"]
    assert len(store) == store.approximate_num_entries() == 2
    assert store.get_many(["c", "x"]) == [3, None]
    with pytest.raises(KeyError):
        store["a"]


def test_delete_returns_what_was_there(store):
    """Deleting an absent key is fine and returns None; del raises as a dict does."""
    store.put("a", 1)
    assert store.delete("a") == 1
    assert store.delete("a") is None
    with pytest.raises(KeyError):
        del store["a"]


def test_put_if_absent_keeps_the_first_value(store):
    """The value that is there stays and is returned."""
    assert store.put_if_absent("a", 1) is None
    assert store.put_if_absent("a", 2) == 1
    assert store["a"] == 1


def test_ranges_are_inclusive_and_go_both_ways(store):
    """Both bounds belong to a range; None leaves a side open."""
    store.put_all([(key, index) for index, key in enumerate("abcd")])
    assert [key for key, _ in store.range("b", "c")] == ["b", "c"]
    assert [key for key, _ in store.reverse_range(None, "b")] == ["b", "a"]
    assert [key for key, _ in store.reverse_all()] == list("dcba")
    assert list(store.range("c", "b")) == []


def test_prefix_scan_takes_a_prefix_of_the_keys_bytes(store):
    """Only keys that start with the prefix are found."""
    store.put_all([("ab", 1), ("b", 2), ("aa", 3)])
    assert list(store.prefix_scan("a")) == [("aa", 3), ("ab", 1)]
    assert list(store.reverse_prefix_scan("a")) == [("ab", 1), ("aa", 3)]


def test_none_is_no_key(store):
    """A None key is refused with the store's name."""
    with pytest.raises(StoreError, match="None as a key"):
        store.put(None, 1)


def test_an_empty_store_is_true(store):
    """`if store` asks whether there is one, not whether it holds something."""
    assert store


def test_a_value_that_changes_later_does_not_change_the_store():
    """Stores hold bytes, so old values stay what they were."""
    spec = StoreSpec(name="s")
    store: KeyValueStore[str, list] = KeyValueStore(make_view(spec), spec)
    value = [1]
    store.put("a", value)
    value.append(2)
    assert store["a"] == [1]


def test_timestamps_are_beside_values():
    """The layout is Kafka's: eight bytes of milliseconds, then the value."""
    spec = StoreSpec(name="s", key_serde=resolve_serde(str), value_serde=resolve_serde(int))
    view = make_view(spec)
    store: TimestampedKeyValueStore[str, int] = TimestampedKeyValueStore(view, spec)
    store.put("a", 7, timestamp=1_000)
    assert store["a"] == ValueAndTimestamp(7, 1_000)
    assert view.get(b"a") == (1_000).to_bytes(8, "big") + (7).to_bytes(8, "big")
    plain: KeyValueStore[str, int] = KeyValueStore(view, spec)
    assert plain["a"] == 7
    plain["a"] = 8
    assert store["a"] == ValueAndTimestamp(8, -1)


def test_a_plain_store_has_no_timestamps():
    """A store without timestamps cannot be read as one with them."""
    spec = StoreSpec(name="s", kind="key_value")
    with pytest.raises(StoreError, match="keeps no timestamps"):
        TimestampedKeyValueStore(make_view(spec), spec)
