"""The records of one side of a stream-stream join: what is stored, and what a batch adds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import add, sub
from typing import Final

from mustela.kernel.lane_state import LaneStore
from mustela.state.kinds.layout import STREAM_TIME, TIME_BYTES, pack_time
from mustela.state.kinds.list import ListRows
from mustela.state.kinds.list_bytes import grow_many, pack_entries, whole_lists

__all__ = ["KeyRows", "Look", "SideRows", "StreamTimes", "insert"]

KeyRows = tuple[list[int], list[bytes]]
"""The records of a key in order of time, those of one time as they came: times and values."""

EXPIRED_MIN: Final = 1_000
"""Lists that a batch drops at least, where so many are over."""

_LENGTH: Final = 8


@dataclass(frozen=True, slots=True)
class Look:
    """Which records a batch will look at, as columns: a key and a span of time, both ends in it."""

    keys: list[bytes]
    lows: list[int]
    highs: list[int]


class SideRows:
    """One side's records.

    Args:
        store: The store, of kind ``list``.
        segment_ms: Length of its segments.

    Attributes:
        looked: The keys that the batch looks at.
        by_key: Their records: those that were stored, and what is put there meanwhile.
        stored: The times of those that were stored.
    """

    def __init__(self, store: LaneStore, *, segment_ms: int) -> None:
        self.store = store
        self.looked: set[bytes] = set()
        self.by_key: dict[bytes, KeyRows] = {}
        self.stored: dict[bytes, set[int]] = {}
        self._segment_ms = segment_ms
        self._heads: dict[int, bytes] = {}

    def handle(
        self, group: int, look: Look, came: tuple[list[bytes], list[int], list[bytes]]
    ) -> None:
        """Fetch what a batch looks at, with one fetch, and write what came of it to this side.

        Args:
            group: The key group of all that follows.
            look: What the other side's records look at.
            came: Keys, times and values of this side's records, in order.
        """
        keys, times, values = came
        view = self.store.group(group)
        view.log_in_chunks()
        wanted = self._wanted(look)
        places = self._places([time // self._segment_ms for time in times], keys)
        current = view.load(wanted.union(places))
        self.looked.update(look.keys)
        lists = whole_lists(current, wanted, view.load)
        for place in sorted(lists):  # a later segment of a key behind an earlier one
            self._read(place[TIME_BYTES:], lists[place])
        view.put_many(grow_many(places, current, pack_entries(times, values)))

    def forget(self) -> None:
        """End a batch."""
        self.looked, self.by_key, self.stored = set(), {}, {}

    def _read(self, key: bytes, entries: list[tuple[int, int, bytes, int]]) -> None:
        if len(entries) > 1:
            entries.sort(key=_time_of)
        times, values = self.by_key.setdefault(key, ([], []))
        times += [entry[0] for entry in entries]
        values += [entry[2] for entry in entries]
        self.stored[key] = set(times)

    def _wanted(self, look: Look) -> set[bytes]:
        length = self._segment_ms
        firsts = [low // length for low in look.lows]
        lasts = [high // length for high in look.highs]
        wanted = set(self._places(firsts, look.keys))
        wanted.update(self._places(lasts, look.keys))
        longest = max(map(sub, lasts, firsts), default=0)
        if longest > 1:
            for key, first, last in zip(look.keys, firsts, lasts, strict=True):
                between = range(first + 1, last)
                wanted.update(self._places(list(between), [key] * len(between)))
        return wanted

    def _places(self, segments: list[int], keys: list[bytes]) -> list[bytes]:
        """Return the stored key of each segment and key."""
        heads = self._heads
        for segment in set(segments).difference(heads):
            heads[segment] = pack_time(segment * self._segment_ms)
        return list(map(add, map(heads.__getitem__, segments), keys))

    def expire_before(self, group: int, bound: int) -> None:
        """Drop the segments of a key group in which all is older than ``bound``.

        A segment may be as large as many batches, so a batch drops about as much as it adds:
        nobody looks at what is left, and the batches behind it go on.
        """
        view = self.store.group(group)
        rows = ListRows(view, segment_ms=self._segment_ms)
        rows.expire_before(bound, limit=max(EXPIRED_MIN, view.written))


def insert(rows: KeyRows, time: int, value: bytes) -> None:
    """Put a record behind all that are not younger."""
    times, values = rows
    if not times or time >= times[-1]:
        times.append(time)
        values.append(value)
        return
    place = bisect_right(times, time)
    times.insert(place, time)
    values.insert(place, value)


def _time_of(entry: tuple[int, int, bytes, int]) -> int:
    return entry[0]


class StreamTimes:
    """The largest timestamp of each key group, kept in a store; -1 where nothing came yet.

    Args:
        store: Where it is kept.
    """

    def __init__(self, store: LaneStore) -> None:
        self.now: dict[int, int] = {}
        self._store = store
        self._saved: dict[int, int] = {}

    def load(self, groups: Iterable[int]) -> dict[int, int]:
        """Fetch the times of key groups; what is returned may be changed until `save`."""
        for group in set(groups).difference(self.now):
            data = self._store.group(group).get(STREAM_TIME)
            found = -1 if data is None else int.from_bytes(data, "big", signed=True)
            self.now[group] = self._saved[group] = found
        return self.now

    def save(self) -> None:
        """Write the times that moved."""
        for group, now in self.now.items():
            if now != self._saved[group]:
                data = now.to_bytes(_LENGTH, "big", signed=True)
                self._store.group(group).put(STREAM_TIME, data)
                self._saved[group] = now
