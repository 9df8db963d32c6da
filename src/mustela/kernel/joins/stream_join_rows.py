"""The records of one side of a stream-stream join: the stored ones, and those an epoch adds."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.joins.stream_join_part import Part
from mustela.state.kinds.list import KeyRows, ListRows

__all__ = ["KeyRows", "Seen", "SideRows", "insert"]

EXPIRED_MIN: Final = 1_000
"""How many expired lists a batch drops at least, if there are that many."""


class SideRows:
    """One side's stored records.

    Args:
        store: The store, of kind ``list``.
        segment_ms: Length of its segments.
    """

    def __init__(self, store: LaneStore, *, segment_ms: int) -> None:
        self.store = store
        self._segment_ms = segment_ms
        self._groups: dict[int, ListRows] = {}

    def handle(self, part: Part, look: slice, came: slice) -> dict[bytes, KeyRows]:
        """Fetch the records that some rows may match, and then keep others.

        Args:
            part: The rows, all of one key group.
            look: Those that look for partners among this side's records.
            came: Those of this side, in order.
        """
        lists = self._lists(part.group)
        found = lists.read(part.keys[look], part.lows[look], part.highs[look])
        lists.append(part.keys[came], part.times[came], part.values[came])
        return found

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


class Seen:
    """What the rows of one key group can match on one side, while they are gone through in order.

    Args:
        by_key: The stored records of the keys; those that are added go there too.

    Attributes:
        by_key: The records of keys with stored ones, or with several.
        fresh: For any other key, where its one record is.
        stored: The times of the stored ones, once they are noted.
    """

    __slots__ = ("by_key", "fresh", "stored")

    def __init__(self, by_key: dict[bytes, KeyRows]) -> None:
        self.by_key = by_key
        self.fresh: dict[bytes, int] = {}
        self.stored: dict[bytes, set[int]] = {}

    def note_stored(self) -> None:
        """Note the times of the stored records, which may wait for a partner."""
        self.stored = {key: set(times) for key, (times, _) in self.by_key.items()}

    def add(self, part: Part, at: int) -> None:
        """Add a row."""
        key = part.keys[at]
        if key not in self.by_key:
            if key not in self.fresh:
                self.fresh[key] = at
                return
            first = self.fresh.pop(key)
            self.by_key[key] = [part.times[first]], [part.values[first]]
        insert(self.by_key[key], part.times[at], part.values[at])


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
