"""Some rows of a stream-stream join, as columns that are contiguous in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Part", "Reach", "WindowLook"]


@dataclass(frozen=True, slots=True)
class WindowLook:
    """Which records a batch will read, as columns: a key and a time span, both ends included."""

    keys: list[bytes]
    lows: list[int]
    highs: list[int]


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

    def spans(
        self, times: list[int], floors: list[int], rights: list[bool]
    ) -> tuple[list[int], list[int]]:
        """Return the earliest and the latest time that each row matches.

        Args:
            times: The time of each row.
            floors: The oldest time that the other side still has for each row.
            rights: Whether each row is a right one.
        """
        (back, other_back), (ahead, other_ahead) = self.older, self.younger
        if back == other_back and ahead == other_ahead:
            lows, highs = [time - back for time in times], [time + ahead for time in times]
        else:
            older, younger = self.older, self.younger
            lows = [time - older[right] for time, right in zip(times, rights, strict=True)]
            highs = [time + younger[right] for time, right in zip(times, rights, strict=True)]
        lows = [
            low if low >= floor and low >= 0 else max(low, floor, 0)
            for low, floor in zip(lows, floors, strict=True)
        ]
        least = self.highest_min
        if least is not None:
            highs = [high if high >= least else least for high in highs]
        return lows, highs


@dataclass(slots=True)
class Part:
    """Some rows of a batch, in merged order.

    Attributes:
        rows: The rows.
        rights: Whether each is a right one.
        keys: Keys as bytes, None for null.
        times: Their times.
        values: Values as bytes, None for null.
        groups: The key group of each.
        lows: The earliest time of the other side that each matches.
        highs: The latest one.
    """

    rows: Sequence[int]
    rights: list[bool]
    keys: list[Any]
    times: list[int]
    values: list[Any]
    groups: list[int]
    lows: list[int]
    highs: list[int]

    def look(self, places: Iterable[int]) -> WindowLook:
        """Return which records some rows read."""
        some = list(places)
        keys, lows, highs = self.keys, self.lows, self.highs
        return WindowLook(
            [keys[at] for at in some], [lows[at] for at in some], [highs[at] for at in some]
        )

    def records(self, places: Iterable[int]) -> tuple[list[bytes], list[int], list[bytes]]:
        """Return keys, times and values of some rows."""
        some = list(places)
        keys, times, values = self.keys, self.times, self.values
        return [keys[at] for at in some], [times[at] for at in some], [values[at] for at in some]

    def by_group(self, *, nulls: bool) -> list[tuple[int, tuple[list[int], list[int]]]]:
        """Return the places of left and of right rows of each key group, by key group.

        Args:
            nulls: Whether there may be rows without a key or a value; they are left out.
        """
        divided: dict[int, tuple[list[int], list[int]]] = {}
        for at, (group, right) in enumerate(zip(self.groups, self.rights, strict=True)):
            if nulls and (self.keys[at] is None or self.values[at] is None):
                continue
            if group not in divided:
                divided[group] = ([], [])
            divided[group][right].append(at)
        return sorted(divided.items())
