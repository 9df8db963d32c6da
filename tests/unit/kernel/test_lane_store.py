"""A store over the key groups of a lane: where its rows are."""

from __future__ import annotations

import pytest

from mustela.errors import InvariantError
from mustela.kernel.core.lane_state import LaneState, LaneStore
from mustela.plan.keygroups import key_group
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay

GROUPS = 8
KEYS = [f"key-{n}".encode() for n in range(20)]


def lane(groups: range = range(GROUPS)) -> LaneState:
    overlays: dict[int, Overlay] = {}
    for group in groups:
        spec = EnvironmentSpec(
            application_id="app",
            stage="s",
            group=group,
            groups=GROUPS,
            stores=(StoreSpec(name="t"),),
        )
        overlays[group] = Overlay(MemoryEnvironment(spec).snapshot(Committed()))
    return LaneState(overlays, key_groups=GROUPS)


def stored(state: LaneState) -> dict[bytes, int]:
    """Return the key group of each row."""
    return {row[0]: group for group, rows in state.changes().items() for row in rows["t"]}


@pytest.mark.parametrize(
    ("prefix", "suffix", "rows"),
    [
        (0, 0, KEYS),
        (8, 0, [bytes(8) + key for key in KEYS]),
        (0, 8, [key + bytes(8) for key in KEYS]),
        (3, 2, [b"abc" + key + b"yz" for key in KEYS]),
    ],
)
def test_rows_are_in_the_group_of_the_record_key(
    prefix: int, suffix: int, rows: list[bytes]
) -> None:
    """Whatever a store's key has before it, and whatever the record key has behind."""
    state = lane()
    store = state.store("t", prefix=prefix, suffix=suffix)
    store.put_many(rows, [b"v"] * len(rows))
    assert stored(state) == {
        row: key_group(key, GROUPS) for row, key in zip(rows, KEYS, strict=True)
    }
    assert store.getmulti([*rows, rows[0] + b"!"])[: len(rows)] == [b"v"] * len(rows)
    assert store.get(rows[3]) == b"v"
    store.delete(rows[3])
    assert store.get(rows[3]) is None


def test_record_keys_are_divided_by_their_group() -> None:
    """Each with the places of its keys; the suffix does not count, and there is no prefix."""
    state = lane()
    store: LaneStore = state.store("t", prefix=8, suffix=1)
    keys = [key + b"!" for key in KEYS]
    assert store.groups_of(keys) == [key_group(key, GROUPS) for key in KEYS]
    found: dict[int, int] = {}
    for overlay, places in store.by_group(keys):
        group = next(g for g in range(GROUPS) if store.group(g) is overlay)
        found.update(dict.fromkeys(places, group))
    assert found == dict(enumerate(store.groups_of(keys)))


def test_a_key_of_another_lane_is_a_bug() -> None:
    """It is never written somewhere else."""
    state = lane(range(1))
    strange = next(key for key in KEYS if key_group(key, GROUPS))
    with pytest.raises(InvariantError):
        state.store("t").get(strange)
