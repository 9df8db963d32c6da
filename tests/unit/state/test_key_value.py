"""Typed key-value stores over bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.serdes.resolve import resolve_serde
from mustela.state.faults import StoreError
from mustela.state.interfaces import Committed, StoreSpec
from mustela.state.kinds.key_value import KeyValueStore, TimestampedKeyValueStore
from mustela.state.kinds.timed import ValueAndTimestamp
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
    assert list(store) == list(store.keys()) == ["b", "c"]
    assert list(store.values()) == [2, 3]
    assert dict(store) == dict(store.items()) == {"b": 2, "c": 3}
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


def no_number(_old: object, _more: object = None) -> int:
    raise ValueError


class _Model(dict[str, int]):
    """A dict with the same operations."""

    def compute(self, key: str, more: int, limit: int) -> int | None:
        total = self.get(key, 0) + more
        return self.keep(key, None if total > limit else total)

    def keep(self, key: str, value: int | None) -> int | None:
        if value is None:
            self.pop(key, None)
        else:
            self[key] = value
        return value


operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "compute", "merge", "put_if_absent", "delete"]),
        st.sampled_from("abc"),
        st.integers(0, 9),
    ),
    max_size=20,
)


@pytest.mark.parametrize("kind", ["key_value", "timestamped_key_value"])
@pytest.mark.parametrize("timed", [False, True])
@given(script=operations)
def test_atomic_operations_do_what_a_dict_would(
    kind: str, timed: bool, script: list[tuple[str, str, int]]
) -> None:
    """compute, merge, put_if_absent and delete, each with what it returns."""
    spec = StoreSpec(
        name="s", kind=kind, key_serde=resolve_serde(str), value_serde=resolve_serde(int)
    )
    if timed and kind == "key_value":
        return
    view = make_view(spec)
    store: Any = (TimestampedKeyValueStore if timed else KeyValueStore)(view, spec)
    plain, model = KeyValueStore[str, int](view, spec), _Model()
    for what, key, number in script:
        before = model.get(key)
        if what == "put":
            store.put(key, number)
            model[key] = number
        elif what == "compute":
            found = store.compute(key, lambda old, n=number: limited((old or 0) + n))
            assert found == model.compute(key, number, LIMIT)
        elif what == "merge":
            found = store.merge(key, number, lambda old, new: limited(old * new))
            new = number if before is None else limited(before * number)
            assert found == model.keep(key, new)
        elif what == "put_if_absent":
            found = store.put_if_absent(key, number)
            assert (found.value if timed and found is not None else found) == before
            model.setdefault(key, number)
        else:
            found = store.delete(key)
            assert (found.value if timed and found is not None else found) == before
            model.pop(key, None)
        assert dict(plain.all()) == model


LIMIT = 20


def limited(number: int) -> int | None:
    """Return a number that is not too large; a larger one is deleted."""
    return None if number > LIMIT else number


def test_what_an_atomic_operation_writes_has_the_time_that_is_said() -> None:
    """Where nothing is said there is no time."""
    spec = StoreSpec(name="s", key_serde=resolve_serde(str), value_serde=resolve_serde(int))
    store = TimestampedKeyValueStore[str, int](make_view(spec), spec)
    store.compute("a", lambda old: 1, timestamp=7)
    assert store["a"] == (1, 7)
    store.merge("a", 2, int.__add__, timestamp=9)
    assert store["a"] == (3, 9)
    store.put_if_absent("b", 4, timestamp=11)
    assert store["b"] == (4, 11)
    store.merge("b", 1, int.__add__)
    assert store["b"] == (5, -1)


def test_an_atomic_operation_whose_function_raises_changes_nothing(store) -> None:
    """The function may even have changed what it was given."""
    store.put("a", 1)
    with pytest.raises(ValueError):  # noqa: PT011 - the function's own
        store.compute("a", no_number)
    with pytest.raises(ValueError):  # noqa: PT011 - the function's own
        store.merge("a", 2, no_number)
    assert store["a"] == 1
    assert store.merge("b", 2, no_number) == 2
