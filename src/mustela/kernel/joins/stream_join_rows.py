"""The records of one side of a stream-stream join: the stored ones, and those a batch adds."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.joins.stream_join_part import Part, WindowLook
from mustela.state.kinds.list import KeyRows, ListRows

__all__ = ["KeyRows", "SideRows", "insert"]

EXPIRED_MIN: Final = 1_000
"""How many expired lists a batch drops at least, if there are that many."""


class SideRows:
    """One side's records.

    Args:
        store: The store, of kind ``list``.
        segment_ms: Length of its segments.
        waits: Whether its records may wait for a partner.

    Attributes:
        by_key: The records of the keys that the batch reads: the stored ones, and those added
            since.
        fresh: For any other key, the place of its one record in the batch.
        stored: The times of the stored ones, if they may wait.
    """

    def __init__(self, store: LaneStore, *, segment_ms: int, waits: bool = False) -> None:
        self.store = store
        self.by_key: dict[bytes, KeyRows] = {}
        self.fresh: dict[bytes, int] = {}
        self.stored: dict[bytes, set[int]] = {}
        self._segment_ms = segment_ms
        self._waits = waits
        self._groups: dict[int, ListRows] = {}

    def handle(
        self, group: int, look: WindowLook, came: tuple[list[bytes], list[int], list[bytes]]
    ) -> None:
        """Fetch what a batch reads, and write its records of this side.

        Args:
            group: The key group of all that follows.
            look: What the other side's records read.
            came: Keys, times and values of this side's records, in order.
        """
        lists = self._lists(group)
        found = lists.read(look.keys, look.lows, look.highs)
        self.by_key.update(found)
        if self._waits:
            self.stored.update({key: set(times) for key, (times, _) in found.items()})
        lists.append(*came)

    def forget(self) -> None:
        """End a batch."""
        self.by_key, self.fresh, self.stored = {}, {}, {}

    def add(self, part: Part, at: int) -> None:
        """Add a record of a key that has others already."""
        key = part.keys[at]
        first = self.fresh.pop(key, None)
        if first is not None:
            self.by_key[key] = [part.times[first]], [part.values[first]]
        insert(self.by_key[key], part.times[at], part.values[at])

    def expire_before(self, group: int, bound: int) -> None:
        """Drop what a key group has that is older than ``bound``.

        A segment of lists may be as large as many batches, so a batch drops about as much as it
        adds: no record reads the rest, and later batches drop it.
        """
        lists = self._lists(group)
        lists.expire_before(bound, limit=max(EXPIRED_MIN, lists.view.written))

    def _lists(self, group: int) -> ListRows:
        if group not in self._groups:
            self._groups[group] = ListRows(self.store.group(group), segment_ms=self._segment_ms)
        return self._groups[group]


def insert(rows: KeyRows, time: int, value: bytes) -> None:
    """Insert a record after all that are not younger."""
    times, values = rows
    if not times or time >= times[-1]:
        times.append(time)
        values.append(value)
        return
    place = bisect_right(times, time)
    times.insert(place, time)
    values.insert(place, value)
