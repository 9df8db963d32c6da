"""From key bytes to key group, from key group to lane."""

from __future__ import annotations

from collections.abc import Sequence

from xxhash import xxh64_intdigest

__all__ = ["KEY_GROUP_SEED", "key_group", "key_groups_of", "lane_of_group", "lanes_by_group"]

KEY_GROUP_SEED = 42


def key_group(key: bytes, groups: int) -> int:
    """Return the key group of ``key`` among ``groups``, a power of two.

    Example:
        >>> key_group(b"apple", 32) == key_group(b"apple", 32)
        True
    """
    return xxh64_intdigest(key, KEY_GROUP_SEED) & (groups - 1)


def key_groups_of(keys: Sequence[bytes], groups: int) -> list[int]:
    """Return the key group of each key."""
    mask = groups - 1
    return [xxh64_intdigest(key, KEY_GROUP_SEED) & mask for key in keys]


def lane_of_group(group: int, lanes: int, groups: int) -> int:
    """Return the lane that runs ``group``; lanes get contiguous runs of groups."""
    return group * lanes // groups


def lanes_by_group(lanes: int, groups: int) -> list[int]:
    """Return the lane of each key group, as a table.

    Example:
        >>> lanes_by_group(3, 8)
        [0, 0, 0, 1, 1, 1, 2, 2]
    """
    return [lane_of_group(group, lanes, groups) for group in range(groups)]
