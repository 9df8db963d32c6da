"""Records waiting in a left or outer join with ``event_time = stream-time``, as in Kafka Streams.

Kafka Streams does not check the waiting records for every record: it remembers a time before which
nothing waits, and checks when, by the time of the record's own side, a record of that time would
have expired. The remembered time is often too late, because it is that of the last record checked;
results then come later than their windows close, and a partner that arrives in between still
matches. Users who choose stream time get exactly this; the time is stored, so that a restart
changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from operator import attrgetter, itemgetter

from mustela.api.window_specs import JoinWindowSpec
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.joins.stream_join_waiting import Closed, GroupWaiting, WaitingRecords
from mustela.state.kinds.layout import TIME_MAX, TIME_MIN
from mustela.state.kinds.waiting import FIRST_KEY, FOUND, WaitingPlace

__all__ = ["PacedWaiting"]

LEFT, RIGHT = 0, 1

_LENGTH = 8

_Entry = tuple[int, bytes]
"""A record's time and its key."""


class _Group:
    """The waiting records of one key group.

    Attributes:
        first: No waiting record is older, in Kafka Streams' view; None if nothing waits.
        sides: The records of each side in order, or None if they will not be checked.
        values: The values of each record.
    """

    __slots__ = ("first", "saved", "sides", "values")

    def __init__(self, first: int | None) -> None:
        self.first = self.saved = first
        self.sides: tuple[list[_Entry], list[_Entry]] | None = None
        self.values: dict[tuple[int, int, bytes], list[bytes]] = {}


class PacedWaiting(WaitingRecords):
    """The waiting records of a lane's key groups.

    Args:
        store: The store.
        window: The join's window.
    """

    merges = False  # a side may drop a record before a record of its time arrives
    is_traceless = False  # Kafka Streams remembers its time

    def __init__(self, store: LaneStore, window: JoinWindowSpec) -> None:
        super().__init__(store, width_ms=window.block_ms)
        self._grace = window.grace_ms
        self._younger = (window.after_ms, window.before_ms)
        self._paced: dict[int, _Group] = {}

    def begin(self, group: int, until: int, oldest: int = 0) -> None:
        """Prepare for records of a key group."""
        mine = self.group(group)
        self.nexts[group] = TIME_MIN  # the parent's queue is not used
        state = self._paced.get(group)
        if state is None:
            data = self.store.group(group).get(FIRST_KEY)
            first = int.from_bytes(data, "big", signed=True) if data else None
            state = self._paced[group] = _Group(first)
        least = oldest if state.first is None else min(state.first, oldest)
        if state.sides is None and least + min(self._younger) + self._grace < until:
            self._look(mine, state)

    def _look(self, mine: GroupWaiting, state: _Group) -> None:
        """Find all waiting records."""
        waiting: dict[WaitingPlace, list[bytes]] = {}
        for block in sorted(mine.rows.read(TIME_MAX), key=attrgetter("number")):
            start, stop = mine.rows.span(block, TIME_MIN, TIME_MAX)
            for row, (close, mark, key) in enumerate(block.entries(start, stop), start):
                if mark < FOUND:
                    waiting.setdefault((close, mark, key), []).append(block.value(row))
                else:
                    waiting.pop((close, mark - FOUND, key), None)
        for place in mine.found:
            waiting.pop(place, None)
        for place, values in mine.fresh.items():
            waiting.setdefault(place, []).extend(values)
        sides: tuple[list[_Entry], list[_Entry]] = ([], [])
        for (close, rank, key), values in sorted(waiting.items(), key=itemgetter(0)):
            side = 1 - rank
            time = close - self._younger[side] - self._grace
            sides[side].append((time, key))
            state.values[side, time, key] = values
        state.sides = sides

    def add(self, group: int, close: int, side: int, key: bytes, value: bytes) -> None:
        """Let a record wait."""
        super().add(group, close, side, key, value)
        state = self._paced[group]
        time = close - self._younger[side] - self._grace
        state.first = time if state.first is None else min(state.first, time)
        if state.sides is not None:
            known = state.values.get((side, time, key))
            if known is None:
                state.values[side, time, key] = [value]
                insort(state.sides[side], (time, key))
            else:
                known.append(value)

    def discard(self, group: int, close: int, side: int, key: bytes, *, stored: bool) -> None:
        """Stop the records of a key, side and time from waiting: they have a partner."""
        super().discard(group, close, side, key, stored=stored)
        state = self._paced[group]
        time = close - self._younger[side] - self._grace
        if state.sides is not None and state.values.pop((side, time, key), None) is not None:
            entries = state.sides[side]
            del entries[bisect_left(entries, (time, key))]

    def take(self, group: int, now: int, side: int = LEFT) -> Sequence[Closed]:
        """Take what is closed at ``now``, if Kafka Streams would check at a record of ``side``."""
        state = self._paced[group]
        if state.first is None or state.first + self._younger[side] + self._grace >= now:
            return ()
        sides = state.sides
        assert sides is not None, group
        taken: list[tuple[int, int, bytes]] = []
        for mine in (LEFT, RIGHT):
            bound = now - self._younger[mine] - self._grace
            count = bisect_left(sides[mine], (bound, b""))
            taken += [(time, 1 - mine, key) for time, key in sides[mine][:count]]
            del sides[mine][:count]
        taken.sort()  # by time, then right before left, then by key
        state.first = self._last_looked_at(state, sides, [time for time, _, _ in taken])
        waiting = self._groups[group]
        waiting.over = now
        closed: list[Closed] = []
        for time, rank, key in taken:
            mine = 1 - rank
            close = time + self._younger[mine] + self._grace
            waiting.fresh.pop((close, rank, key), None)
            closed.append(Closed(close, mine, key, state.values.pop((mine, time, key))))
        return closed

    @staticmethod
    def _last_looked_at(
        state: _Group, sides: tuple[list[_Entry], list[_Entry]], taken: Sequence[int]
    ) -> int | None:
        """Return the time of the last record that Kafka Streams checks.

        It goes through the waiting records in order, and stops after the first record of each side
        whose window is open.
        """
        left, right = sides
        if len(left) == 0 or len(right) == 0:
            ends = [*taken[-1:], *(time for time, _ in (*left[-1:], *right[-1:]))]
            return max(ends, default=None)
        firsts = [(left[0][0], 1, left[0][1]), (right[0][0], 0, right[0][1])]
        time, rank, key = max(firsts)
        if len(state.values[1 - rank, time, key]) > 1:
            return time
        following: list[int] = []
        for mine, entries in enumerate(sides):
            if 1 - mine == rank:
                place = bisect_right(entries, (time, key))
            else:  # at equal times, all right records come before all left ones
                place = bisect_left(entries, (time if rank == 0 else time + 1, b""))
            following += [entry[0] for entry in entries[place : place + 1]]
        return min(following, default=time)

    def save(self) -> None:
        """Write the changes, and the time that Kafka Streams remembers."""
        super().save()
        for group, state in self._paced.items():
            if state.first != state.saved:
                data = None
                if state.first is not None:
                    data = state.first.to_bytes(_LENGTH, "big", signed=True)
                self.store.group(group).put(FIRST_KEY, data)
