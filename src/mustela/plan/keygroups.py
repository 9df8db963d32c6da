"""From key bytes to key group, from key group to lane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xxhash import xxh64_intdigest

__all__ = [
    "DEFAULT_KEY_GROUPS",
    "KEY_GROUP_SEED",
    "key_group",
    "key_groups_of",
    "lane_of_group",
    "lanes_by_group",
    "row_groups",
    "rows_by_lane",
    "schedule_group",
]

DEFAULT_KEY_GROUPS = 32
"""How many there are where nobody says, and nobody knows how many cores there will be."""

KEY_GROUP_SEED = 42


def key_group(key: bytes, groups: int, *, suffix: int = 0) -> int:
    """Return the key group of ``key`` among ``groups``, a power of two.

    Args:
        key: The key's bytes.
        groups: How many groups there are.
        suffix: How many of the last bytes are ignored: `Serde.group_suffix` of the key's serde.

    Example:
        >>> key_group(b"apple", 32) == key_group(b"apple", 32)
        True
        >>> key_group(b"apple@7", 32, suffix=2) == key_group(b"apple", 32)
        True
    """
    if suffix:
        key = key[:-suffix]
    return xxh64_intdigest(key, KEY_GROUP_SEED) & (groups - 1)


def key_groups_of(keys: Sequence[bytes], groups: int, *, suffix: int = 0) -> list[int]:
    """Return the key group of each key; see `key_group`."""
    mask = groups - 1
    if suffix:
        return [xxh64_intdigest(key[:-suffix], KEY_GROUP_SEED) & mask for key in keys]
    return [xxh64_intdigest(key, KEY_GROUP_SEED) & mask for key in keys]


def row_groups(keys: Sequence[bytes | None], groups: int, *, suffix: int = 0) -> list[int]:
    """Return the key group of each row; rows without a key belong to the first.

    Example:
        >>> row_groups([None, b"apple"], 32) == [0, key_group(b"apple", 32)]
        True
    """
    if None not in keys:
        return key_groups_of(cast("Sequence[bytes]", keys), groups, suffix=suffix)
    return [0 if key is None else key_group(key, groups, suffix=suffix) for key in keys]


def rows_by_lane(
    keys: Sequence[bytes | None], lanes: Sequence[int], *, suffix: int = 0
) -> Iterable[tuple[int, list[int] | None]]:
    """Return the lanes that get rows, each with the indices of its rows; None if it gets all.

    Args:
        keys: The key of each row, as bytes.
        lanes: The lane of each key group, such as `lanes_by_group` returns them.
        suffix: As in `key_group`.

    Example:
        >>> lanes = lanes_by_group(4, 4)
        >>> [key_group(key, 4) for key in (b"a", b"b")]
        [0, 3]
        >>> list(rows_by_lane([b"a", b"b", b"a"], lanes))
        [(0, [0, 2]), (3, [1])]
        >>> list(rows_by_lane([b"a", b"a"], lanes))
        [(0, None)]
    """
    last = max(lanes)
    if last == 0:
        return [(0, None)] if keys else []
    rows: list[list[int]] = [[] for _ in range(last + 1)]
    for row, group in enumerate(row_groups(keys, len(lanes), suffix=suffix)):
        rows[lanes[group]].append(row)
    whole = len(keys)
    return [(lane, None if len(own) == whole else own) for lane, own in enumerate(rows) if own]


def schedule_group(name: str, groups: int) -> int:
    """Return the key group in which a scheduled source remembers its last tick.

    Example:
        >>> 0 <= schedule_group("report", 32) < 32
        True
    """
    return key_group(name.encode(), groups)


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
