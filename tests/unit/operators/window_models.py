"""Windowed aggregations in plain Python, record by record, as Kafka Streams does them.

Each model collects values to a list, which shows which records a window holds and in what order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mustela.model import Windowed

__all__ = ["Change", "Model", "SessionModel", "SlidingModel", "TimeModel"]

GroupOf = Callable[[Any], int]


class Change(NamedTuple):
    """What one record makes of one window; the values are None where it deletes the row."""

    key: Windowed[Any]
    values: tuple[Any, ...] | None
    timestamp: int


class Model:
    """What all windows share: stream time of each group of keys, and rows by windowed key."""

    def __init__(self, group_of: GroupOf = lambda _key: 0) -> None:
        self._group_of = group_of
        self._now: dict[int, int] = {}
        self.rows: dict[Windowed[Any], tuple[tuple[Any, ...], int]] = {}
        self.late = 0

    def moved(self, key: Any, timestamp: int) -> int:
        """Move stream time on and return it."""
        group = self._group_of(key)
        self._now[group] = max(self._now.get(group, -1), timestamp)
        return self._now[group]

    def now(self, key: Any) -> int:
        """Return stream time for a key."""
        return self._now[self._group_of(key)]

    def put(self, key: Windowed[Any], values: tuple[Any, ...] | None, timestamp: int) -> Change:
        """Set a row."""
        if values is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = values, timestamp
        return Change(key, values, timestamp)

    def add(self, key: Any, value: Any, timestamp: int) -> list[Change]:
        """Take a record; return what it changes, in order."""
        raise NotImplementedError

    def closes_at(self, window: Windowed[Any]) -> int:
        """Return the first time at which no record can change a window."""
        raise NotImplementedError

    def over(self) -> dict[Windowed[Any], tuple[tuple[Any, ...], int]]:
        """Return the windows that are over."""
        return {
            window: row
            for window, row in self.rows.items()
            if self.closes_at(window) <= self.now(window.key)
        }


class TimeModel(Model):
    """Tumbling and hopping windows."""

    def __init__(self, size: int, advance: int, grace: int, group_of: GroupOf) -> None:
        super().__init__(group_of)
        self.size, self.advance, self.grace = size, advance, grace

    def closes_at(self, window: Windowed[Any]) -> int:
        return window.end + self.grace

    def add(self, key: Any, value: Any, timestamp: int) -> list[Change]:
        now = self.moved(key, timestamp)
        changes: list[Change] = []
        for start in range(0, timestamp + 1, self.advance):
            window = Windowed(key, start, start + self.size)
            if window.end <= timestamp:
                continue
            if self.closes_at(window) <= now:
                self.late += 1
                continue
            values, latest = self.rows.get(window, ((), -1))
            changes.append(self.put(window, (*values, value), max(latest, timestamp)))
        return changes


class SessionModel(Model):
    """Sessions."""

    def __init__(self, gap: int, grace: int, group_of: GroupOf) -> None:
        super().__init__(group_of)
        self.gap, self.grace = gap, grace

    def closes_at(self, window: Windowed[Any]) -> int:
        return window.end + self.gap + self.grace + 1

    def add(self, key: Any, value: Any, timestamp: int) -> list[Change]:
        now = self.moved(key, timestamp)
        near = [
            window
            for window in self.rows
            if window.key == key
            and window.start - self.gap <= timestamp <= window.end + self.gap
            and self.closes_at(window) > now
        ]
        near.sort(key=lambda window: (window.end, window.start))
        start = min([timestamp, *(window.start for window in near)])
        end = max([timestamp, *(window.end for window in near)])
        merged = Windowed(key, start, end)
        if self.closes_at(merged) <= now:
            self.late += 1
            return []
        values: tuple[Any, ...] = ()
        changes: list[Change] = []
        for window in near:
            values += self.rows[window][0]
            if start != end:
                changes.append(self.put(window, None, window.end))
        return [*changes, self.put(merged, (*values, value), end)]


class SlidingModel(Model):
    """Sliding windows, walked through from the oldest to the newest."""

    def __init__(self, difference: int, grace: int, group_of: GroupOf) -> None:
        super().__init__(group_of)
        self.difference, self.grace = difference, grace

    def closes_at(self, window: Windowed[Any]) -> int:
        return window.end + self.grace + 1

    def add(self, key: Any, value: Any, timestamp: int) -> list[Change]:
        if value is None:
            return []
        now, far = self.moved(key, timestamp), self.difference
        if timestamp + far + self.grace < now:
            self.late += 1
            return []
        known = sorted(window for window in self.rows if window.key == key)
        if timestamp < far:
            return self._add_early(known, key, value, timestamp, now)
        around = [w for w in known if timestamp - 2 * far <= w.start <= timestamp + 1]
        return self._add_usual(around, key, value, timestamp, now)

    def _add_usual(
        self, around: list[Windowed[Any]], key: Any, value: Any, timestamp: int, now: int
    ) -> list[Change]:
        far = self.difference
        left: tuple[tuple[Any, ...], int] | None = None
        right: tuple[tuple[Any, ...], int] | None = None
        before: int | None = None
        changes: list[Change] = []
        for window in around:
            row = self.rows[window]
            if window.end < timestamp:
                left, before = row, row[1]
            elif window.end == timestamp:
                if row[1] < timestamp:
                    before = row[1]
                changes += self._into(window, value, timestamp, now)
            elif window.start <= timestamp:
                right = row
                changes += self._into(window, value, timestamp, now)
        if before is not None and before + 1 + far >= timestamp:
            window = Windowed(key, before + 1, before + 1 + far)
            if window not in around:
                changes += self._into(window, value, timestamp, now)
        own = Windowed(key, timestamp - far, timestamp)
        if own not in around:
            holds_before = left is not None and before is not None and timestamp - far <= before
            values = left[0] if holds_before and left is not None else ()
            changes += self._into(own, value, timestamp, now, values)
        return changes + self._behind(key, timestamp, right)

    def _add_early(
        self, known: list[Windowed[Any]], key: Any, value: Any, timestamp: int, now: int
    ) -> list[Change]:
        first = Windowed(key, 0, self.difference)
        row = self.rows.get(first)
        before = row[1] if row is not None and row[1] < timestamp else None
        right = row if row is not None and row[1] > timestamp else None
        changes: list[Change] = []
        for window in known:
            if 0 < window.start <= timestamp:
                right = self.rows[window]
                changes += self._into(window, value, timestamp, now)
        changes += self._behind(key, timestamp, right)
        if before is not None:
            window = Windowed(key, before + 1, before + 1 + self.difference)
            if window not in known:
                changes += self._into(window, value, timestamp, now)
        return changes + self._into(first, value, timestamp, now)

    def _behind(
        self, key: Any, timestamp: int, right: tuple[tuple[Any, ...], int] | None
    ) -> list[Change]:
        window = Windowed(key, timestamp + 1, timestamp + 1 + self.difference)
        if right is None or right[1] <= timestamp or window in self.rows:
            return []
        return [self.put(window, *right)]

    def _into(
        self,
        window: Windowed[Any],
        value: Any,
        timestamp: int,
        now: int,
        values: tuple[Any, ...] | None = None,
    ) -> list[Change]:
        if self.closes_at(window) <= now:
            self.late += 1
            return []
        known, latest = self.rows.get(window, ((), -1)) if values is None else (values, -1)
        return [self.put(window, (*known, value), max(latest, timestamp))]
