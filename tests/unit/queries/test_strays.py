"""Rows that a processor wrote in another key group than that of their key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mustela.plan.keygroups import key_group
from mustela.queries.rows import EditionViews, StoreRows
from mustela.queries.source import StorePlace
from mustela.state.interfaces import StoreSpec

GROUPS = 8
OWN, STRAY, LOST = b"own", b"stray", b"lost"


class Group:
    """A key group's rows, which counts what it is asked."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self.rows = rows
        self.asked = 0

    def get(self, _store: str, key: bytes) -> bytes | None:
        """Return a row."""
        self.asked += 1
        return self.rows.get(key)

    def getmulti(self, _store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return rows."""
        self.asked += 1
        return [self.rows.get(key) for key in keys]

    def range(
        self, _store: str, low: bytes | None, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over rows in the order of their keys."""
        found = sorted(self.rows.items(), reverse=reverse)
        return ((k, v) for k, v in found if (low or k) <= k and (high is None or k <= high))


class Here:
    """An edition of these key groups."""

    def __init__(self, groups: list[Group]) -> None:
        self.groups = groups

    def mark(self, _stage: int, _group: int) -> object:
        """Return a mark."""
        return 0

    def open(self, _stage: int, group: int) -> Any:
        """Return a key group."""
        return self.groups[group]


@pytest.fixture
def groups() -> list[Group]:
    found = [Group({}) for _ in range(GROUPS)]
    found[key_group(OWN, GROUPS)].rows[OWN] = b"1"
    found[(key_group(STRAY, GROUPS) + 1) % GROUPS].rows[STRAY] = b"2"
    return found


def rows_of(groups: list[Group], *, wanders: bool = True) -> StoreRows:
    """Return the store over all key groups."""
    edition: Any = Here(groups)
    spec = StoreSpec(name="s", kind="key_value")
    place = StorePlace(spec=spec, stage=0, groups=GROUPS, wanders=wanders)
    return StoreRows(EditionViews(edition), place)


def test_each_key_group_is_asked_at_most_twice_for_many_keys(groups: list[Group]) -> None:
    """Once for its own keys, and once for all that are not in theirs."""
    missing = [b"no %d" % number for number in range(50)]
    keys = [STRAY, *missing, OWN, LOST, STRAY]
    found = rows_of(groups).getmulti(keys)
    assert found == [b"2", *[None] * 50, b"1", None, b"2"]
    assert max(group.asked for group in groups) <= 2


def test_a_key_group_is_asked_once_for_a_key(groups: list[Group]) -> None:
    """Its own first; if it has the key, no other."""
    rows = rows_of(groups)
    assert rows.get(LOST) is None
    assert [group.asked for group in groups] == [1] * GROUPS
    assert rows.get(STRAY) == b"2"
    before = sum(group.asked for group in groups)
    assert rows.get(OWN) == b"1"
    assert sum(group.asked for group in groups) == before + 1


def test_a_table_is_not_searched(groups: list[Group]) -> None:
    """Its rows are in the key groups of their keys."""
    assert rows_of(groups, wanders=False).getmulti([STRAY, OWN, LOST]) == [None, b"1", None]
    assert sum(group.asked for group in groups) <= 3


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("wanders", [False, True])
def test_a_range_is_in_order_over_all_key_groups(wanders: bool, reverse: bool) -> None:
    """Each key once: with the row of its own group if that has one."""
    keys = [b"%03d" % number for number in range(1_000)]
    groups = [Group({}) for _ in range(GROUPS)]
    for key in keys:
        groups[key_group(key, GROUPS)].rows[key] = b"own"
    if wanders:
        for key in keys[::7]:
            groups[(key_group(key, GROUPS) + 1) % GROUPS].rows[key] = b"stray"
    found = list(rows_of(groups, wanders=wanders).range(keys[3], keys[900], reverse=reverse))
    wanted = [(key, b"own") for key in keys[3:901]]
    assert found == (wanted[::-1] if reverse else wanted)
