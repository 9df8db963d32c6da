"""Any key of any store, as of the end of the epoch before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.errors import InvariantError
from mustela.kernel.core.any_key import AnyKeyReader
from mustela.plan.keygroups import key_group
from mustela.serdes.primitives import IntSerde, StrSerde
from mustela.state.faults import StoreError
from mustela.state.interfaces import Committed, EnvironmentSpec, Snapshot, StoreSpec, Token
from mustela.state.kinds.key_value import KeyValueStore
from mustela.state.kinds.timed import pack_timestamped
from mustela.state.memory import MemoryEnvironment

GROUPS = 8
STOCK = StoreSpec(name="stock", kind="key_value", key_serde=StrSerde(), value_serde=IntSerde())
SPECS = (
    STOCK,
    StoreSpec(name="names", key_serde=StrSerde(), value_serde=StrSerde()),
    StoreSpec(name="inner", kind="timer"),
)


class World:
    """Key groups of one stage, with what is committed of each."""

    def __init__(self) -> None:
        self.environments = [
            MemoryEnvironment(
                EnvironmentSpec(
                    application_id="app", stage="s", group=group, groups=GROUPS, stores=SPECS
                )
            )
            for group in range(GROUPS)
        ]
        self.marks = [Committed()] * GROUPS
        self.epoch = 0
        self.opened: list[int] = []

    def write(self, store: str, rows: dict[bytes, bytes | None]) -> dict[int, Token]:
        """Write an epoch's pendings and return their tokens, not committed yet."""
        self.epoch += 1
        token = Token(1, self.epoch, 0)
        wrote: dict[int, Token] = {}
        for group in range(GROUPS):
            mine = sorted((k, v) for k, v in rows.items() if key_group(k, GROUPS) == group)
            if mine:
                self.environments[group].write_pending(token, self.marks[group], {store: mine})
                wrote[group] = token
        return wrote

    def commit(self, wrote: dict[int, Token]) -> None:
        """Let an epoch be true."""
        for group, token in wrote.items():
            self.marks[group] = Committed(token=token)

    def reader(self) -> AnyKeyReader:
        """Return what a task of the next epoch reads with."""
        marks, opened = list(self.marks), dict[tuple[int, int], Snapshot]()

        def open_group(stage: int, group: int) -> Snapshot:
            if (stage, group) not in opened:
                self.opened.append(group)
                opened[stage, group] = self.environments[group].snapshot(marks[group])
            return opened[stage, group]

        return AnyKeyReader({spec.name: (1, spec) for spec in SPECS}, open_group, GROUPS)


def rows(values: dict[str, int | None]) -> dict[bytes, bytes | None]:
    """Return rows of the store ``stock``."""
    return {
        key.encode(): None if value is None else IntSerde().serialize(value)
        for key, value in values.items()
    }


def test_a_write_of_the_running_epoch_is_not_seen_before_it_is_committed() -> None:
    """The reader sees the end of the last committed epoch, also where a lane has folded it."""
    world = World()
    world.commit(world.write("stock", rows({"apple": 1, "pear": 2})))
    early = world.reader()
    wrote = world.write("stock", rows({"apple": 10, "plum": 30}))
    late = world.reader()  # the lanes have written, and folded the epoch before
    keys = ["apple", "pear", "plum"]
    store: Any = early.open("stock")
    assert store.get_many(keys) == [1, 2, None]
    store = late.open("stock")
    assert store.get_many(keys) == [1, 2, None]
    assert list(store.all()) == [("apple", 1), ("pear", 2)]
    world.commit(wrote)
    after: Any = world.reader().open("stock")
    assert after.get_many(keys) == [10, 2, 30]


@given(
    st.lists(
        st.dictionaries(
            st.text("abc", min_size=1, max_size=3), st.one_of(st.none(), st.integers(0, 9))
        ),
        max_size=6,
    )
)
def test_all_key_groups_together_are_one_store_in_key_order(
    epochs: Sequence[dict[str, int | None]],
) -> None:
    """Ranges, prefixes and counts are those of one dict."""
    world, model = World(), dict[str, int]()
    for epoch in epochs:
        world.commit(world.write("stock", rows(epoch)))
        model.update({key: value for key, value in epoch.items() if value is not None})
        for key in [key for key, value in epoch.items() if value is None]:
            model.pop(key, None)
    store: Any = world.reader().open("stock")
    assert list(store.all()) == sorted(model.items())
    assert list(store.reverse_all()) == sorted(model.items(), reverse=True)
    assert list(store.range("ab", "c")) == sorted(
        row for row in model.items() if "ab" <= row[0] <= "c"
    )
    assert list(store.prefix_scan("a")) == sorted(
        row for row in model.items() if row[0].startswith("a")
    )
    assert len(store) == len(model)
    assert store.get_many(["a", "b", "a"]) == [model.get("a"), model.get("b"), model.get("a")]


def test_only_the_key_groups_that_are_asked_for_are_opened() -> None:
    """Reading one key costs one key group."""
    world = World()
    reader = world.reader()
    store: Any = reader.open("stock")
    assert store.get("apple") is None
    assert world.opened == [key_group(b"apple", GROUPS)]
    assert reader.open("stock") is store


def test_what_is_read_by_any_key_cannot_be_written() -> None:
    """Another lane's key is changed by ctx.update, or not at all."""
    store: Any = World().reader().open("stock")
    assert isinstance(store, KeyValueStore)
    with pytest.raises(StoreError, match="can only be read"):
        store.put("apple", 1)


def test_a_table_shows_its_values_with_their_times() -> None:
    """As the same store does in the lane that owns it."""
    world = World()
    world.commit(world.write("names", {b"k": pack_timestamped(b"Ann", 7)}))
    store: Any = world.reader().open("names")
    assert store.get("k") == ("Ann", 7)


def test_a_store_that_only_its_step_understands_is_refused() -> None:
    """So is one that no stage has."""
    reader = World().reader()
    with pytest.raises(StoreError, match="is a timer store"):
        reader.open("inner")
    with pytest.raises(InvariantError, match="no stage has the store 'nope'"):
        reader.open("nope")
