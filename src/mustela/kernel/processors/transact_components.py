"""Which transactions share keys, and which key group runs each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import count

from mustela.plan.keygroups import key_group

__all__ = ["connected", "group_keys", "spread_over"]

_UNITS_PER_GROUP = 4
"""About how many units of small components each key group gets."""


def connected(tokens: Sequence[Sequence[int]]) -> list[int]:
    """Return, for each transaction, the first one that it is connected to.

    Two transactions are connected if they share a token, or are both connected with a third.

    Args:
        tokens: What each transaction touches.

    Example:
        >>> connected([[1, 2], [3], [4, 3], [5], [2, 5]])
        [0, 1, 1, 0, 0]
    """
    parent: list[int] = []
    first: dict[int, int] = {}
    claim = first.setdefault
    for number, mine in enumerate(tokens):
        parent.append(number)
        root = number
        for token in mine:
            other = claim(token, number)
            if other == root:
                continue
            while parent[other] != other:
                parent[other] = other = parent[parent[other]]
            if other < root:
                parent[root] = root = other
            elif other > root:
                parent[other] = root
    for number, above in enumerate(parent):  # a parent comes before its children
        parent[number] = parent[above]
    return parent


def spread_over(roots: Sequence[int], groups: int) -> list[int]:
    """Return the key group of each transaction: one per component, with balanced work.

    The halves of the key groups get shares as equal as possible, then the halves of the halves, and
    so on: for any number of lanes, each a run of key groups, all have about the same work.

    Args:
        roots: The component of each transaction, as `connected` gives it.
        groups: Number of key groups, a power of two.

    Example:
        >>> spread_over([0, 0, 0, 3, 4, 5], 2)
        [0, 0, 0, 1, 1, 1]
    """
    sizes = Counter(roots)
    unit = max(1, len(roots) // (groups * _UNITS_PER_GROUP))
    units: list[tuple[int, list[int]]] = []
    gathered, size = list[int](), 0
    for root, mine in sizes.items():
        if mine >= unit:
            units.append((mine, [root]))
            continue
        gathered.append(root)
        size += mine
        if size >= unit:
            units.append((size, gathered))
            gathered, size = [], 0
    if gathered:
        units.append((size, gathered))
    units.sort(key=lambda found: -found[0])
    loads = [0] * (2 * groups)  # a tree: halves of node n are 2n and 2n + 1, leaves are groups
    group_of: dict[int, int] = {}
    for weight, members in units:
        node = 1
        loads[node] += weight
        while node < groups:
            node *= 2
            node += loads[node] > loads[node + 1]
            loads[node] += weight
        group_of.update(dict.fromkeys(members, node - groups))
    return [group_of[root] for root in roots]


@cache
def group_keys(groups: int) -> tuple[bytes, ...]:
    """Return, for each key group, a key that belongs to it.

    Example:
        >>> [key_group(key, 4) for key in group_keys(4)]
        [0, 1, 2, 3]
    """
    found: dict[int, bytes] = {}
    for number in count():
        key = number.to_bytes(4, "big")
        found.setdefault(key_group(key, groups), key)
        if len(found) == groups:
            return tuple(found[group] for group in range(groups))
    raise AssertionError  # count() never ends
