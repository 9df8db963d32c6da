"""Aggregations in sliding windows: one for each set of records that lie close together.

For a record of time t and a time difference d there is a window that ends with it, [t - d, t], and
as soon as a later record lies inside, one that begins right behind it, [t + 1, t + 1 + d]. Each
window says when its last record was, which is how the record before another one is found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from mustela.kernel.window_updates import Cell, Place, WindowOperator
from mustela.plan.batch import Batch
from mustela.state.kinds.window import WindowRows
from mustela.topology.windows import SlidingWindowSpec

__all__ = ["SlidingAggregateOperator"]


class _Windows:
    """The windows of one key around the records of an epoch, by start."""

    __slots__ = ("cells", "starts")

    def __init__(self, cells: dict[int, Cell]) -> None:
        self.cells = cells
        self.starts = list(cells)

    def add(self, cell: Cell) -> None:
        """Add a window, or put it in the place of the one with its start."""
        if cell.start not in self.cells:
            self.starts.insert(bisect_left(self.starts, cell.start), cell.start)
        self.cells[cell.start] = cell

    def remove(self, cell: Cell) -> None:
        """Take a window away, if it is there."""
        if self.cells.pop(cell.start, None) is not None:
            del self.starts[bisect_left(self.starts, cell.start)]


class SlidingAggregateOperator(WindowOperator):
    """Sliding windows, with the windows and in the order of Kafka Streams.

    A window is kept as long as a record that may still come needs it to begin its own with.
    """

    def open(self) -> None:
        """Note the spans."""
        super().open()
        windows = self.node.windows
        assert isinstance(windows, SlidingWindowSpec)
        self.skips_null_values = True
        self._difference = windows.difference_ms
        self._grace = windows.grace_ms
        self._initializer = self.node.initializer or (lambda: None)
        retention = self.node.store.retention_ms or 0
        self._kept = max(retention, 3 * self._difference + self._grace)
        self._windows: dict[bytes, _Windows] = {}

    def load(self, batch: Batch, key_bytes: Sequence[bytes], times: Sequence[int]) -> None:
        """Fetch the windows around the records of each key."""
        lows: dict[bytes, int] = {}
        highs: dict[bytes, int] = {}
        for name, time in zip(key_bytes, batch.timestamps, strict=True):
            if name not in lows:
                lows[name] = highs[name] = time
            elif time < lows[name]:
                lows[name] = time
            elif time > highs[name]:
                highs[name] = time
        names, reach = list(lows), 2 * self._difference
        self._floor = min(times) - self._kept
        self._windows = {}
        self._rows: list[tuple[WindowRows, list[bytes]]] = []
        cells: list[Cell] = []
        for view, places in self._store.by_group(names):
            keys = [names[place] for place in places]
            rows = WindowRows(view, indexed=True)
            self._rows.append((rows, keys))
            froms = [max(0, lows[key] - reach) for key in keys]
            tos = [highs[key] + 1 for key in keys]
            for name, found in zip(keys, rows.fetch_many(keys, froms, tos), strict=True):
                mine = {
                    start: Cell(start, start + self._difference, None, 0, raw)
                    for start, raw in found
                }
                self._windows[name] = _Windows(mine)
                cells += mine.values()
                for cell in mine.values():
                    self.remember(name, cell)
        self._decode(cells)

    def _decode(self, cells: Sequence[Cell]) -> None:
        values, times = self._codec.decode_many([cell.raw for cell in cells])
        for cell, value, time in zip(cells, values, times, strict=True):
            cell.value, cell.time = value, time

    def add(self, row: int, name: bytes, key: Any, value: Any, time: int, now: int) -> int:
        """Fold one record into each window around it, and begin those that it makes."""
        closed = now - self._grace
        if time + self._difference < closed:
            return 1
        record = _Record(row, name, key, value, time, closed)
        if time < self._difference:
            self._add_early(record)
        else:
            self._add_usual(record)
        return record.missed

    def _add_usual(self, record: _Record) -> None:
        windows, time, difference = self._windows[record.name], record.time, self._difference
        cells, starts = windows.cells, windows.starts
        place = bisect_right(starts, time + 1) - 1
        has_right = place >= 0 and starts[place] == time + 1
        if has_right:
            place -= 1
        lowest = max(0, time - 2 * difference)
        seen = starts[bisect_left(starts, lowest) : place + 1]
        newest = cells[seen[-1]] if seen else None
        right = None
        if not has_right and newest is not None and newest.end > time:
            right = self._beginning(newest, record)
        has_left = False
        left: Cell | None = None
        before: int | None = None
        for start in reversed(seen):
            cell = cells[start]
            if cell.end < time:
                left, before = cell, cell.time
                break
            if cell.end > time:
                self._update(record, cell)
                continue
            has_left = True
            last = cell.time
            self._update(record, cell)
            if last >= time:
                return
            before = last
        if before is not None and before + 1 + difference >= time and before + 1 not in cells:
            self._update(record, self._fresh(before + 1, time))
        if not has_left:
            cell = self._fresh(time - difference, time)
            if left is not None and before is not None and time - difference <= before:
                cell.value = self.own(left.value)
            self._update(record, cell)
        self._begin_right(record, right)

    def _add_early(self, record: _Record) -> None:
        """Fold a record from before the first window that could end with it.

        All such records are in the first window, which begins at 0, instead of one of their own.
        """
        windows, time = self._windows[record.name], record.time
        cells, starts = windows.cells, windows.starts
        first = cells.get(0)
        before: int | None = None
        if first is not None and first.time < time:
            before = first.time
        around = [start for start in starts[: bisect_right(starts, time)] if start > 0]
        newest = cells[around[-1]] if around else first
        right = None
        if time + 1 not in cells and newest is not None:
            right = self._beginning(newest, record)
        for start in around:
            self._update(record, cells[start])
        self._begin_right(record, right)
        if before is not None and before + 1 not in cells:
            self._update(record, self._fresh(before + 1, time))
        self._update(record, first or self._fresh(0, time))

    def _beginning(self, newest: Cell, record: _Record) -> Cell | None:
        """Return the window right behind a record, None if there would be no record in it.

        The newest window around the record holds those behind it, and none before it.
        """
        if newest.time <= record.time:
            return None
        start = record.time + 1
        return Cell(start, start + self._difference, self.own(newest.value), newest.time, None)

    def _begin_right(self, record: _Record, cell: Cell | None) -> None:
        """Add the window right behind a record, if there is one to add."""
        if cell is None:
            return
        raw = self.encoded(cell.value, cell.time)
        self._windows[record.name].add(cell)
        self.put(record.row, record.name, cell, raw)

    def _fresh(self, start: int, time: int) -> Cell:
        return Cell(start, start + self._difference, self._initializer(), time, None)

    def _update(self, record: _Record, cell: Cell) -> None:
        """Add a record to a window, unless that is over."""
        if cell.end < record.closed:
            record.missed += 1
            return
        old = cell.value
        new = self._fold(record.key, record.value, old)
        time = record.time if old is None else max(record.time, cell.time)
        raw = self.encoded(new, time)
        cell.value, cell.time = new, time
        windows = self._windows[record.name]
        if new is None:
            windows.remove(cell)
        else:
            windows.add(cell)
        self.put(record.row, record.name, cell, raw)

    def recover(self, name: bytes) -> None:
        """Decode the key's aggregates anew."""
        self._decode(list(self._windows[name].cells.values()))

    def save(self) -> None:
        """Write the windows that changed."""
        changed: dict[bytes, list[Cell]] = {}
        for (name, _, _), cell in self._touched.items():
            changed.setdefault(name, []).append(cell)
        for rows, keys in self._rows:
            mine = [(name, cell) for name in keys for cell in changed.get(name, ())]
            if mine:
                rows.put_many(
                    [name for name, _ in mine],
                    [cell.start for _, cell in mine],
                    [cell.raw for _, cell in mine],
                    floor=self._floor,
                )

    def windowed_bytes(self, places: Sequence[Place]) -> list[bytes]:
        """Return key and start, as Kafka has it."""
        return self._closer.windowed_bytes(
            [name for name, _, _ in places], [start for _, start, _ in places]
        )

    def over(self, horizon: int) -> Batch | None:
        """Return the windows that are over, if they are told then; remove those kept no longer."""
        emitted, span = None, self._difference + horizon
        if self.node.emit == "close":
            emitted = self._closer.windows_over(lambda now: now - span, span)
        for group in self._store.groups:
            now = self._clock.closed_until(group)
            WindowRows(self._store.group(group), indexed=True).expire_before(now - self._kept)
        return emitted

    def due_event_times(self) -> dict[int, int]:
        """Return when the next window of each key group is over."""
        if self.node.emit != "close":
            return {}
        return self._closer.due_times(self._difference + self.horizon() + self.step.lag_ms)


class _Record:
    """One record on its way into its windows."""

    __slots__ = ("closed", "key", "missed", "name", "row", "time", "value")

    def __init__(self, row: int, name: bytes, key: Any, value: Any, time: int, closed: int) -> None:
        self.row = row
        self.name = name
        self.key = key
        self.value = value
        self.time = time
        self.closed = closed
        self.missed = 0
