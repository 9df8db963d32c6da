"""Records of a left or outer join that have no partner yet: each waits until its window closes.

Layout of the store, format 1: a row's key is the time at which the window closes (see layout.py in
``state.kinds``), the side (``00`` right, ``01`` left) and the record key; its value is a packed
array of values. So what closes next stands at the front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final, NamedTuple

from mustela.kernel.lane_state import LaneStore
from mustela.state.kinds.layout import TIME_BYTES, first_row, pack_time, time_rows, unpack_time
from mustela.state.kinds.packed import append_packed, unpacker

__all__ = ["SIDE_OF", "Closed", "Waiting", "unpack_values"]

LEFT, RIGHT = 0, 1
_SIDE_BYTES: Final = (b"\x01", b"\x00")
SIDE_OF: Final = (RIGHT, LEFT)
"""The side that the byte behind the time means."""

unpack_values: Callable[[bytes], list[bytes]] = unpacker(list[bytes])


class Closed(NamedTuple):
    """Records of one key, side and time whose window has closed.

    Attributes:
        close: Their window holds what is not younger than this; event time is beyond it.
        side: 0 for left, 1 for right.
        key: The record key.
        values: Their values as bytes, in the order in which they came.
    """

    close: int
    side: int
    key: bytes
    values: list[bytes]


class Waiting:
    """What waits, in the key groups of a lane.

    Args:
        store: The store.
    """

    def __init__(self, store: LaneStore) -> None:
        self.store = store
        self._horizon: dict[int, int] = {}
        self._queues: dict[int, list[tuple[int, bytes]]] = {}
        self._closing: dict[bytes, list[bytes]] = {}
        self._fresh: dict[bytes, list[bytes]] = {}
        self._gone: set[bytes] = set()
        self._groups: dict[bytes, int] = {}

    def begin(self, group: int, until: int) -> None:
        """Fetch what will close in a key group when event time comes to ``until``."""
        self._horizon[group] = until
        queue = self._queues[group] = []
        for place, packed in time_rows(self.store.group(group), to=until - 1):
            self._closing[place] = unpack_values(packed)
            queue.append((unpack_time(place), place))

    def add(self, group: int, close: int, side: int, key: bytes, value: bytes) -> None:
        """Let a record wait."""
        place = pack_time(close) + _SIDE_BYTES[side] + key
        if place in self._fresh:
            self._fresh[place].append(value)
            return
        self._fresh[place] = [value]
        self._groups[place] = group
        if close < self._horizon[group]:
            heappush(self._queues[group], (close, place))

    def discard(self, group: int, close: int, side: int, key: bytes) -> None:
        """Let the records of a key, side and time wait no longer: they have a partner."""
        place = pack_time(close) + _SIDE_BYTES[side] + key
        self._fresh.pop(place, None)
        self._closing.pop(place, None)
        self._gone.add(place)
        self._groups[place] = group

    def pop(self, group: int, now: int) -> list[Closed]:
        """Take what is closed at ``now``, by the time of closing, then right before left."""
        queue = self._queues[group]
        closed: list[Closed] = []
        while queue and queue[0][0] < now:
            close, place = heappop(queue)
            stored = self._closing.pop(place, None)
            values = (stored or []) + self._fresh.pop(place, [])
            if stored is not None:
                self._gone.add(place)
                self._groups[place] = group
            if values:
                side = SIDE_OF[place[TIME_BYTES]]
                closed.append(Closed(close, side, place[TIME_BYTES + 1 :], values))
        return closed

    def save(self) -> None:
        """Write what came and went since `begin`."""
        by_group: dict[int, list[bytes]] = {}
        for place in self._gone.union(self._fresh):
            by_group.setdefault(self._groups[place], []).append(place)
        for group, places in sorted(by_group.items()):
            self._save(group, places)
        self._fresh, self._closing, self._gone, self._groups = {}, {}, set(), {}
        self._queues, self._horizon = {}, {}

    def _save(self, group: int, places: list[bytes]) -> None:
        view = self.store.group(group)
        rows: list[tuple[bytes, bytes | None]] = []
        for place, stored in zip(places, view.getmulti(places), strict=True):
            fresh = self._fresh.get(place)
            if fresh is not None:
                before = None if place in self._gone else stored
                rows.append((place, append_packed(before, fresh)))
            elif stored is not None:
                rows.append((place, None))
        view.put_many(rows)

    def due(self, groups: Iterable[int]) -> dict[int, int]:
        """Return the event time at which something closes next, by key group."""
        found: dict[int, int] = {}
        for group in groups:
            row = first_row(self.store.group(group))
            if row is not None:
                found[group] = unpack_time(row[0]) + 1
        return found
