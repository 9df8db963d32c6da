"""The records of one side of a stream-stream join: what is stored, and what a batch adds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mustela.kernel.lane_state import LaneStore
from mustela.state.kinds.layout import STREAM_TIME, TIME_BYTES, pack_time
from mustela.state.kinds.list import ListRows
from mustela.state.kinds.packed import append_packed, unpacker

__all__ = ["KeyRows", "SideRows", "StreamTimes"]

KeyRows = tuple[list[int], list[bytes]]
"""The records of a key in order of time, those of one time as they came: times and values."""

_LENGTH = 8

_unpack: Callable[[bytes], list[tuple[int, int, bytes, int]]] = unpacker(
    list[tuple[int, int, bytes, int]]
)


class SideRows:
    """One side's records.

    A batch is handled in four steps: say what will be looked at (`want`) and what comes (`add`),
    fetch all of it at once (`load`), read and extend ``by_key``, and write what came (`save`).

    Args:
        store: The store, of kind ``list``.
        segment_ms: Length of its segments.

    Attributes:
        by_key: After `load`, the records of each key that somebody wants to look at.
    """

    def __init__(self, store: LaneStore, *, segment_ms: int) -> None:
        self.store = store
        self.by_key: dict[bytes, KeyRows] = {}
        self._segment_ms = segment_ms
        self._heads: dict[int, bytes] = {}
        self._wanted: set[bytes] = set()
        self._fresh: dict[bytes, list[tuple[int, int, bytes, int]]] = {}
        self._stored: dict[bytes, bytes | None] = {}

    def _head(self, start: int) -> bytes:
        head = self._heads.get(start)
        if head is None:
            head = self._heads[start] = pack_time(start)
        return head

    def want(
        self, rows: Iterable[int], keys: Sequence[Any], lows: Sequence[int], highs: Sequence[int]
    ) -> None:
        """Say that a key's records of a span of time will be looked at.

        Args:
            rows: The places in the columns that count.
            keys: Record keys.
            lows: First time of each span.
            highs: Last time of each span.
        """
        length, head, add, by_key = self._segment_ms, self._head, self._wanted.add, self.by_key
        for row in rows:
            key, low, high = keys[row], lows[row], highs[row]
            if key not in by_key:
                by_key[key] = ([], [])
            start = low - low % length
            while start <= high:
                add(head(start) + key)
                start += length

    def add(
        self, rows: Iterable[int], keys: Sequence[Any], times: Sequence[int], values: Sequence[Any]
    ) -> None:
        """Take records to be written by `save`, in order.

        Args:
            rows: The places in the columns that count.
            keys: Record keys.
            times: Milliseconds.
            values: Values as bytes.
        """
        length, head, fresh = self._segment_ms, self._head, self._fresh
        for row in rows:
            time = times[row]
            place = head(time - time % length) + keys[row]
            if place in fresh:
                fresh[place].append((time, 0, values[row], 0))
            else:
                fresh[place] = [(time, 0, values[row], 0)]

    def load(self) -> None:
        """Fetch what is wanted and what will be written, with one fetch per key group."""
        places = list(self._wanted.union(self._fresh))
        stored = dict(zip(places, self.store.getmulti(places), strict=True))
        self._stored = stored
        found = [place for place in self._wanted if stored[place] is not None]
        found.sort()  # a later segment of a key behind an earlier one
        for place in found:
            packed = stored[place]
            assert packed is not None
            entries = _unpack(packed)
            if len(entries) > 1:
                entries.sort(key=_time_of)
            times, values = self.by_key[place[TIME_BYTES:]]
            times += [entry[0] for entry in entries]
            values += [entry[2] for entry in entries]

    def save(self) -> None:
        """Write what came, one row for each key and segment, and forget the batch."""
        fresh, stored = self._fresh, self._stored
        places = list(fresh)
        packed = [append_packed(stored[place], fresh[place]) for place in places]
        self.store.put_many(places, packed)
        self.by_key, self._wanted, self._fresh, self._stored = {}, set(), {}, {}

    def expire_before(self, group: int, bound: int) -> None:
        """Drop the segments of a key group in which all is older than ``bound``."""
        rows = ListRows(self.store.group(group), segment_ms=self._segment_ms)
        rows.expire_before(bound)


def insert(rows: KeyRows, time: int, value: bytes) -> None:
    """Put a record behind all that are not younger."""
    times, values = rows
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
        self.first: dict[int, int] = {}

    def load(self, groups: Iterable[int]) -> dict[int, int]:
        """Fetch the times of key groups; what is returned may be changed until `save`."""
        for group in set(groups).difference(self.now):
            data = self._store.group(group).get(STREAM_TIME)
            found = -1 if data is None else int.from_bytes(data, "big", signed=True)
            self.now[group] = self._saved[group] = self.first[group] = found
        return self.now

    def save(self) -> None:
        """Write the times that moved."""
        for group, now in self.now.items():
            if now != self._saved[group]:
                data = now.to_bytes(_LENGTH, "big", signed=True)
                self._store.group(group).put(STREAM_TIME, data)
                self._saved[group] = now
