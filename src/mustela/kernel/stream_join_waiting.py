"""Records of a left or outer join that have no partner yet: each waits until its window closes.

Layout of the store, format 1: a row's key is the time at which the window closes (see layout.py in
``state.kinds``), the side (``00`` right, ``01`` left) and the record key; its value is a packed
array of values. So what closes next stands at the front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from mustela.kernel.lane_state import LaneStore
from mustela.state.kinds.layout import (
    TIME_BYTES,
    TIME_MAX,
    first_row,
    pack_time,
    time_rows,
    unpack_time,
)
from mustela.state.kinds.packed import append_packed, unpacker
from mustela.state.overlay import StoreOverlay

__all__ = ["Closed", "Waiting", "unpack_values"]

LEFT, RIGHT = 0, 1
_RANKS: Final = (b"\x00", b"\x01")

_Place = tuple[int, int, bytes]
"""When a window closes, the rank of its side (0 right, 1 left), and the record key."""

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

    Attributes:
        nexts: When the next window of each key group closes, as far as `begin` has looked; before
            that there is nothing to `take`.
    """

    def __init__(self, store: LaneStore) -> None:
        self.store = store
        self.nexts: dict[int, int] = {}
        self._horizon: dict[int, int] = {}
        self._queues: dict[int, list[_Place]] = {}
        self._closing: dict[_Place, list[bytes]] = {}
        self._fresh: dict[_Place, list[bytes]] = {}
        self._gone: set[_Place] = set()

    def begin(self, group: int, until: int, oldest: int = 0) -> None:
        """Fetch what will close in a key group when event time comes to ``until``.

        Args:
            group: The key group.
            until: Event time behind what is about to be handled.
            oldest: No record that is about to be handled is older.
        """
        del oldest
        self._horizon[group] = until
        queue = self._queues[group] = []
        for stored, packed in time_rows(self.store.group(group), to=until - 1):
            place = _place_of(stored)
            self._closing[place] = unpack_values(packed)
            queue.append(place)
        self.nexts[group] = queue[0][0] if queue else TIME_MAX

    def add(self, group: int, close: int, side: int, key: bytes, value: bytes) -> None:
        """Let a record wait."""
        place = close, 1 - side, key
        if place in self._fresh:
            self._fresh[place].append(value)
            return
        self._fresh[place] = [value]
        if close < self._horizon[group]:
            heappush(self._queues[group], place)
            self.nexts[group] = self._queues[group][0][0]

    def discard(self, group: int, close: int, side: int, key: bytes, *, stored: bool) -> None:
        """Let the records of a key, side and time wait no longer: they have a partner.

        Args:
            group: The key group.
            close: When their window closes.
            side: Their side.
            key: The record key.
            stored: Whether some of them may have come before this batch.
        """
        del group
        place = close, 1 - side, key
        if place in self._fresh:
            del self._fresh[place]
        if stored:
            self._closing.pop(place, None)
            self._gone.add(place)

    def take(self, group: int, now: int, side: int = LEFT) -> Sequence[Closed]:
        """Take what is closed at ``now``, by the time of closing, then right before left.

        Args:
            group: The key group.
            now: Event time.
            side: The side of the record that comes.
        """
        del side
        queue = self._queues[group]
        closed: list[Closed] = []
        while queue and queue[0][0] < now:
            place = heappop(queue)
            stored = self._closing.pop(place, None)
            values = (stored or []) + self._fresh.pop(place, [])
            if stored is not None:
                self._gone.add(place)
            if values:
                close, rank, key = place
                closed.append(Closed(close, 1 - rank, key, values))
        self.nexts[group] = queue[0][0] if queue else TIME_MAX
        return closed

    def save(self) -> None:
        """Write what came and went since `begin`."""
        places = list(self._gone.union(self._fresh))
        for view, mine in self.store.by_group([key for _, _, key in places]):
            self._save(view, [places[index] for index in mine])
        self._fresh, self._closing, self._gone = {}, {}, set()
        self._queues, self._horizon, self.nexts = {}, {}, {}

    def _save(self, view: StoreOverlay, places: list[_Place]) -> None:
        keys = [pack_time(close) + _RANKS[rank] + key for close, rank, key in places]
        rows: dict[bytes, bytes | None] = {}
        for place, stored_key, stored in zip(places, keys, view.getmulti(keys), strict=True):
            fresh = self._fresh.get(place)
            if fresh is not None:
                rows[stored_key] = append_packed(None if place in self._gone else stored, fresh)
            elif stored is not None:
                rows[stored_key] = None
        view.put_many(rows)

    def due(self, groups: Iterable[int]) -> dict[int, int]:
        """Return the event time at which something closes next, by key group."""
        found: dict[int, int] = {}
        for group in groups:
            row = first_row(self.store.group(group))
            if row is not None:
                found[group] = unpack_time(row[0]) + 1
        return found


def _place_of(stored: bytes) -> _Place:
    return unpack_time(stored), stored[TIME_BYTES], stored[TIME_BYTES + 1 :]
