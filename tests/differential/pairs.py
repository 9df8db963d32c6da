"""Which stateful operators can stand behind which, and chains of them that meet every pair."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

from tests.differential.draw import OPERATORS, STATELESS, WITHOUT_ORDER

__all__ = ["CHAIN", "Chain", "alone", "chains", "composable", "left_out"]

Chain = tuple[str, ...]
"""Operators each of which reads what the one before it gives."""

CHAIN = 3
"""How many operators a chain has, if there are pairs enough: more of them hide one another."""


def composable() -> list[Chain]:
    """Return every ordered pair of stateful operators that the differential test can compose.

    What one operator gives always becomes what the next one reads: a table goes through
    ``toStream``, a stream through ``toTable``, whatever has to be windowed through a window.
    """
    return [pair for pair in _all() if not _reason(pair)]


def left_out() -> dict[str, list[Chain]]:
    """Return the ordered pairs that cannot be composed, by the reason."""
    found: dict[str, list[Chain]] = {}
    for pair in _all():
        if reason := _reason(pair):
            found.setdefault(reason, []).append(pair)
    return found


def _all() -> Iterator[Chain]:
    return ((first, second) for first in OPERATORS for second in OPERATORS)


def _reason(pair: Chain) -> str:
    first, _ = pair
    if pair == ("unlimited", "suppress_window"):
        return "a window without an end never closes: nothing would ever be written"
    if first in WITHOUT_ORDER:
        return f"what {first} gives for one record has no order that the two sides share"
    return ""


def alone() -> list[Chain]:
    """Return each operator by itself."""
    return [(name,) for name in (*OPERATORS, *STATELESS)]


def chains(wanted: Collection[Chain], start: int, length: int = CHAIN) -> list[Chain]:
    """Return chains in which each of some pairs stands once, in an order that the seed decides.

    Args:
        wanted: The pairs.
        start: The seed.
        length: How many operators a chain has at most.

    Example:
        >>> chains([("a", "b"), ("b", "c"), ("c", "c")], start=1, length=4)
        [('a', 'b', 'c', 'c')]
    """
    rng = random.Random(start)
    behind: dict[str, list[str]] = {}
    for first, second in rng.sample(sorted(wanted), len(wanted)):
        behind.setdefault(first, []).append(second)
    found: list[Chain] = []
    while behind:
        chain = [max(behind, key=lambda name: len(behind[name]))]
        while len(chain) < length and chain[-1] in behind:
            followers = behind[chain[-1]]
            # Where there is most left to do the chain can go on.
            chain.append(max(followers, key=lambda name: len(behind.get(name, ()))))
            followers.remove(chain[-1])
            if not followers:
                del behind[chain[-2]]
        found.append(tuple(chain))
    rng.shuffle(found)
    return found
