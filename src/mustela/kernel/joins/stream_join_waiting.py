"""Records of a left or outer join that have no partner yet: each waits until its window closes.

Records that still wait when an epoch ends are stored (see waiting.py in ``state.kinds``); those
that arrive and close, or find a partner, within one epoch are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import NamedTuple

from mustela.kernel.core.lane_state import LaneStore
from mustela.state.kinds.layout import TIME_MAX, TIME_MIN
from mustela.state.kinds.waiting import FOUND, WaitingBlock, WaitingPlace, WaitingRows

__all__ = ["Closed", "GroupWaiting", "WaitingRecords"]

LEFT, RIGHT = 0, 1


class Closed(NamedTuple):
    """Records of one key, side and time whose window has closed.

    Attributes:
        close: The last time in their window; event time has passed it.
        side: 0 for left, 1 for right.
        key: The record key.
        values: Their values as bytes, in the order in which they came.
    """

    close: int
    side: int
    key: bytes
    values: list[bytes]


class GroupWaiting:
    """The waiting records of one key group, during an epoch.

    Attributes:
        rows: The stored records.
        horizon: Records that close before this have been fetched from the store.
        queue: Those that may close before that, as a heap.
        stored: The places of the values of stored waiting records that close before that.
        fresh: The values of waiting records that are not stored yet.
        found: Records that found a partner, and may have been stored.
        over: Records that close before this were taken; None if none was yet.
    """

    __slots__ = ("found", "fresh", "horizon", "over", "queue", "rows", "stored")

    def __init__(self, rows: WaitingRows) -> None:
        self.rows = rows
        self.horizon = TIME_MIN
        self.queue: list[WaitingPlace] = []
        self.stored: dict[WaitingPlace, list[tuple[WaitingBlock, int]]] = {}
        self.fresh: dict[WaitingPlace, list[bytes]] = {}
        self.found: dict[WaitingPlace, None] = {}
        self.over: int | None = None

    def look_until(self, until: int) -> None:
        """Fetch the records that close before ``until``."""
        low, self.horizon = self.horizon, until
        blocks = [block for block in self.rows.blocks if block.last >= low]
        blocks += self.rows.read(until)
        gone, there = set(self.found), list[tuple[WaitingPlace, WaitingBlock, int]]()
        for block in sorted(blocks, key=attrgetter("number")):
            start, stop = self.rows.span(block, low, until)
            for row, (close, mark, key) in enumerate(block.entries(start, stop), start):
                if mark < FOUND:
                    there.append(((close, mark, key), block, row))
                else:
                    gone.add((close, mark - FOUND, key))
        places = [place for place in self.fresh if low <= place[0] < until]
        for place, block, row in there:
            if place in gone:
                continue
            if place in self.stored:
                self.stored[place].append((block, row))
            else:
                self.stored[place] = [(block, row)]
                places.append(place)
        self.queue += sorted(places)  # all of them come after what is in the queue

    def pop(self) -> tuple[WaitingPlace, list[bytes]]:
        """Take the first record in the queue; it has no values if it found a partner."""
        place = heappop(self.queue)
        stored = self.stored.pop(place, [])
        if len(stored) > 1:  # they are in the order of their blocks, which may have been merged
            stored.sort(key=lambda entry: entry[0].came(entry[1]))
        values = [block.value(row) for block, row in stored]
        return place, values + self.fresh.pop(place, [])

    def save(self) -> None:
        """Write the changes."""
        over = TIME_MIN if self.over is None else self.over
        fresh = self.fresh.items()
        waiting = [(place, value) for place, values in fresh for value in values]
        self.rows.save(self.over, waiting, [place for place in self.found if place[0] >= over])
        self.fresh, self.found = {}, {}


class WaitingRecords:
    """The waiting records of a lane's key groups, during an epoch.

    Args:
        store: The store.
        width_ms: No block of the store covers a longer time span.

    Attributes:
        nexts: When the next window of each key group closes, as far as `begin` has read; before
            that there is nothing to `take`.
        is_traceless: Whether nothing tells that a record waited, once it has found a partner.
    """

    merges = True
    is_traceless = True

    def __init__(self, store: LaneStore, *, width_ms: int) -> None:
        self.store = store
        self.nexts: dict[int, int] = {}
        self._width = width_ms
        self._groups: dict[int, GroupWaiting] = {}

    def group(self, group: int) -> GroupWaiting:
        """Return the waiting records of a key group."""
        if group not in self._groups:
            view = self.store.group(group)
            rows = WaitingRows(view, width_ms=self._width, merges=self.merges)
            self._groups[group] = GroupWaiting(rows)
        return self._groups[group]

    def begin(self, group: int, until: int, oldest: int = 0) -> None:
        """Fetch the records of a key group that close before event time reaches ``until``.

        Args:
            group: The key group.
            until: Event time after the rows about to be handled.
            oldest: No row about to be handled is older.
        """
        del oldest
        mine = self.group(group)
        if until > mine.horizon:
            mine.look_until(until)
        self.nexts[group] = mine.queue[0][0] if mine.queue else TIME_MAX

    def add(self, group: int, close: int, side: int, key: bytes, value: bytes) -> None:
        """Let a record wait."""
        mine, place = self._groups[group], (close, 1 - side, key)
        if place in mine.fresh:
            mine.fresh[place].append(value)
            return
        mine.fresh[place] = [value]
        if close < mine.horizon:
            heappush(mine.queue, place)
            self.nexts[group] = mine.queue[0][0]

    def discard(self, group: int, close: int, side: int, key: bytes, *, stored: bool) -> None:
        """Stop the records of a key, side and time from waiting: they have a partner.

        Args:
            group: The key group.
            close: When their window closes.
            side: Their side.
            key: The record key.
            stored: Whether some of them may have arrived before this batch.
        """
        mine, place = self._groups[group], (close, 1 - side, key)
        if place in mine.fresh:
            del mine.fresh[place]
        if stored:
            mine.stored.pop(place, None)
            mine.found[place] = None

    def take(self, group: int, now: int, side: int = LEFT) -> Sequence[Closed]:
        """Take what is closed at ``now``, by closing time, then right before left.

        Args:
            group: The key group.
            now: Event time.
            side: The side of the arriving record.
        """
        del side
        mine = self._groups[group]
        queue, mine.over = mine.queue, now
        closed: list[Closed] = []
        while queue and queue[0][0] < now:
            (close, rank, key), values = mine.pop()
            if values:
                closed.append(Closed(close, 1 - rank, key, values))
        self.nexts[group] = queue[0][0] if queue else TIME_MAX
        return closed

    def save(self) -> None:
        """End the epoch: write the changes."""
        for group in sorted(self._groups):
            self._groups[group].save()

    def due(self, groups: Iterable[int]) -> dict[int, int]:
        """Return the event time at which something may close next, by key group.

        Called after `save`. If the records have found partners by then, nothing closes.
        """
        found: dict[int, int] = {}
        for group in groups:
            close = self.group(group).rows.next_close()
            if close is not None:
                found[group] = close + 1
        return found
