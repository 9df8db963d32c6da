"""Key groups are for ever: the values here must never change."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mustela.plan.keygroups import key_group, key_groups_of, lane_of_group, lanes_by_group

powers = st.integers(0, 15).map(lambda n: 1 << n)


@pytest.mark.parametrize(
    ("key", "of_32", "of_1024"),
    [
        (b"", 4, 772),
        (b"a", 12, 204),
        (b"apple", 7, 263),
        (b"f\xc3\xbcr", 18, 146),
        (b"\x00\x00\x00\x00\x00\x00\x00\x07", 28, 732),
        (b"x" * 1_000, 23, 695),
    ],
)
def test_the_group_of_a_key_never_changes(key: bytes, of_32: int, of_1024: int) -> None:
    """State and changelogs of every application that ever ran are divided by it."""
    assert key_group(key, 32) == of_32
    assert key_group(key, 1024) == of_1024


@given(st.lists(st.binary(max_size=20)), powers)
def test_groups_of_many_keys_are_those_of_each(keys: list[bytes], groups: int) -> None:
    """And each is one of the groups."""
    found = key_groups_of(keys, groups)
    assert found == [key_group(key, groups) for key in keys]
    assert all(0 <= group < groups for group in found)


@given(st.integers(1, 300), powers)
def test_lanes_share_the_groups_in_contiguous_runs(lanes: int, groups: int) -> None:
    """Of sizes that differ by one at most; a lane beyond the groups has nothing to do."""
    table = lanes_by_group(lanes, groups)
    assert table == sorted(table) == [lane_of_group(g, lanes, groups) for g in range(groups)]
    assert all(0 <= lane < lanes for lane in table)
    sizes = [table.count(lane) for lane in range(lanes)]
    assert max(sizes) - min(sizes) <= 1


def test_keys_spread_over_the_groups() -> None:
    """No group of 32 gets twice its share of 32,000 small integers and words."""
    keys = [n.to_bytes(8, "big") for n in range(16_000)] + [
        f"user-{n}".encode() for n in range(16_000)
    ]
    found = key_groups_of(keys, 32)
    assert max(found.count(group) for group in range(32)) < 1_200
    assert min(found.count(group) for group in range(32)) > 800


@given(st.lists(st.binary(min_size=8, max_size=20)), powers)
def test_a_suffix_does_not_count(keys: list[bytes], groups: int) -> None:
    """All windows of a key are where the key is."""
    found = key_groups_of(keys, groups, suffix=8)
    assert found == key_groups_of([key[:-8] for key in keys], groups)
    assert found == [key_group(key, groups, suffix=8) for key in keys]
