"""The rows of one key group in a stream-stream join, as columns that are contiguous in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mustela.kernel.joins.stream_join_time import JoinRows

__all__ = ["Part", "Reach", "places_by_group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which times of the other side match the rows of each side, both ends included.

    Attributes:
        older: How much older a partner may be, for a left row and for a right one.
        younger: How much younger, in the same order.
        highest_min: No span ends before this; None for no bound.
    """

    older: tuple[int, int]
    younger: tuple[int, int]
    highest_min: int | None

    def spans(self, side: int, times: list[int]) -> tuple[list[int], list[int]]:
        """Return the earliest and the latest time that rows of a side match."""
        older, younger, least = self.older[side], self.younger[side], self.highest_min
        lows, highs = [time - older for time in times], [time + younger for time in times]
        if least is not None and highs and min(highs) < least:
            highs = [max(high, least) for high in highs]
        return lows, highs


@dataclass(slots=True)
class Part:
    """The rows of one key group that can have partners: all left ones, then all right ones.

    Attributes:
        group: The key group.
        lefts: How many of them are left ones.
        places: The place of each in merged order, ascending on each side.
        rows: The rows.
        keys: Keys as bytes.
        times: Their times.
        values: Values as bytes.
        lows: The earliest time of the other side that each matches.
        highs: The latest one.
    """

    group: int
    lefts: int
    places: list[int]
    rows: Sequence[int]
    keys: list[Any]
    times: list[int]
    values: list[Any]
    lows: list[int]
    highs: list[int]

    def bounds(self, side: int) -> slice:
        """Return which of the rows are those of a side."""
        return slice(self.lefts, len(self.rows)) if side else slice(0, self.lefts)

    def in_turn(self) -> list[int]:
        """Return where each row is in the columns, in merged order."""
        return sorted(range(len(self.places)), key=self.places.__getitem__)

    def last_by_key(self) -> tuple[dict[bytes, int], dict[bytes, int], set[bytes]]:
        """Return where the last row of each key is, on either side, and the keys with several.

        Those have several rows on one side.
        """
        keys, lefts = self.keys, self.lefts
        left = dict(zip(keys[:lefts], range(lefts), strict=True))
        right = dict(zip(keys[lefts:], range(lefts, len(keys)), strict=True))
        repeated: set[bytes] = set()
        if len(left) < lefts:
            repeated.update(keys[at] for at in range(lefts) if left[keys[at]] != at)
        if len(right) < len(keys) - lefts:
            repeated.update(keys[at] for at in range(lefts, len(keys)) if right[keys[at]] != at)
        return left, right, repeated


def places_by_group(rows: JoinRows) -> list[tuple[int, tuple[list[int], list[int]]]]:
    """Return the places in merged order of left and of right rows of each key group, by key group.

    Rows without a key or a value are left out.
    """
    lefts, groups = rows.lefts, rows.groups
    divided: dict[int, tuple[list[int], list[int]]] = {
        group: ([], []) for group in sorted(set(groups))
    }
    for place, row in enumerate(rows.order):
        if rows.nulls and (rows.keys[row] is None or rows.values[row] is None):
            continue
        divided[groups[row]][row >= lefts].append(place)
    return [(group, sides) for group, sides in divided.items() if sides[0] or sides[1]]
