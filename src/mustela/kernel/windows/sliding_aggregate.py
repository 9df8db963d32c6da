"""Aggregations in sliding windows: one for each set of records that are close together.

For a record of time t and a time difference d there is a window that ends with it, [t - d, t], and
as soon as a later record falls into it, one that begins right after it, [t + 1, t + 1 + d]. Each
window holds the time of its last record, which is how the predecessor of a record is found.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, repeat
from operator import attrgetter, ge, le
from struct import Struct
from typing import Any

from mustela.api.window_specs import SlidingWindowSpec
from mustela.kernel.core.isolate import copy_value, is_immutable_column
from mustela.kernel.windows.sliding_sweep import Sweeper, SweepError, Swept
from mustela.kernel.windows.window_cells import ChangedWindows, WindowCell
from mustela.kernel.windows.window_updates import WindowOperator
from mustela.plan.batch import Batch
from mustela.state.kinds.window import WindowRows

__all__ = ["SlidingAggregateOperator"]


_time_of = attrgetter("time")
_START = Struct(">q")


def _draw(column: Sequence[Any] | None, rows: Sequence[int]) -> Iterable[Any]:
    """Return some rows of a column; None for each if there is no column."""
    return repeat(None, len(rows)) if column is None else map(column.__getitem__, rows)


class _Windows:
    """The windows of one key around the records of an epoch, by start."""

    __slots__ = ("cells", "starts")

    def __init__(self, cells: dict[int, WindowCell]) -> None:
        self.cells = cells
        self.starts = list(cells)

    def add(self, cell: WindowCell) -> None:
        """Add a window; there is none with its start."""
        start, starts = cell.start, self.starts
        if starts and start < starts[-1]:
            starts.insert(bisect_left(starts, start), start)
        else:
            starts.append(start)
        self.cells[start] = cell

    def remove(self, cell: WindowCell) -> None:
        """Remove a window."""
        del self.cells[cell.start]
        del self.starts[bisect_left(self.starts, cell.start)]


class _Record:
    """The record being added to its windows; one object, reused for a whole batch."""

    __slots__ = ("closed", "gone", "key", "name", "row", "time", "value", "windows")

    row: int
    name: bytes
    key: Any
    value: Any
    time: int
    closed: int
    gone: tuple[int, ...]
    windows: _Windows


class SlidingAggregateOperator(WindowOperator):
    """Sliding windows, with the same windows and in the same order as Kafka Streams.

    A window is kept as long as a record that may still arrive needs it to start its own window.
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
        self._record = _Record()
        self._swept: tuple[Swept, int] = Swept(), 1

    def load(self, batch: Batch, key_bytes: Sequence[bytes], times: Sequence[int]) -> None:
        """Fetch the windows around the records of each key."""
        rows_of: defaultdict[bytes, list[int]] = defaultdict(list)
        for row, name in enumerate(key_bytes):
            rows_of[name].append(row)
        timestamps = batch.timestamps
        self._ascending = all(map(le, timestamps, islice(timestamps, 1, None)))
        at = array("q", timestamps).__getitem__  # new numbers are contiguous
        self._rows_of = {name: (rows, list(map(at, rows))) for name, rows in rows_of.items()}
        self._shared = not is_immutable_column(batch.values)
        names, reach = list(rows_of), 2 * self._difference
        self._floor = min(times) - self._kept
        self._windows = {}
        self._rows: list[tuple[WindowRows, list[bytes]]] = []
        cells: list[WindowCell] = []
        for view, places in self._store.by_group(names):
            keys = [names[place] for place in places]
            rows = WindowRows(view, indexed=True)
            self._rows.append((rows, keys))
            spans = self._spans(keys)
            froms = [max(0, first - reach) for first, _ in spans]
            tos = [last + 1 for _, last in spans]
            for name, found in zip(keys, rows.fetch_many(keys, froms, tos), strict=True):
                mine = {
                    start: WindowCell(name, start, start + self._difference, None, 0, raw, raw)
                    for start, raw in found
                }
                self._windows[name] = _Windows(mine)
                cells += mine.values()
        self._decode(cells)

    def _spans(self, names: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return the times of the first and the last record of each key."""
        columns = [self._rows_of[name][1] for name in names]
        if self._ascending:
            return [(times[0], times[-1]) for times in columns]
        return [(min(times), max(times)) for times in columns]

    def _decode(self, cells: Sequence[WindowCell]) -> None:
        values, times = self._codec.decode_many([cell.raw for cell in cells])
        for cell, value, time in zip(cells, values, times, strict=True):
            cell.value, cell.time = value, time

    def fold_all(self, batch: Batch, key_bytes: Sequence[bytes], times: Sequence[int]) -> list[int]:
        """Fold the records of each key in one sweep, as far as they are in time order."""
        if self._stepwise:
            return super().fold_all(batch, key_bytes, times)
        late: list[int] = []
        # Columns that the fold does not use are not fetched.
        keys = batch.keys if self.node.kind == "aggregate" else None
        values = batch.values if self.node.kind != "count" else None
        timestamps, bounds = batch.timestamps, [now - self._grace for now in times]
        in_order = self._ascending and all(map(ge, timestamps, bounds))
        bound = bounds.__getitem__
        loaded = max((len(windows.starts) for windows in self._windows.values()), default=0)
        most = max(len(rows) for rows, _ in self._rows_of.values())
        sweeper = Sweeper(
            difference=self._difference,
            fold=self._fold,
            initializer=self.node.initializer,
            own=self.own,
            copies=self._shared,
            spread=loaded + 3 * most + 1,
        )
        for name, (rows, at) in self._rows_of.items():
            windows = self._windows[name]
            latest = max(map(_time_of, windows.cells.values()), default=0)
            if in_order or (at == sorted(at) and all(map(ge, at, map(bound, rows)))):
                first = bisect_left(at, max(latest, self._difference))
            else:
                first = self._first_in_order(latest, rows, at, bound)
            changed: Sequence[WindowCell] = ()
            if first:
                late += self.fold_rows(batch, key_bytes, times, rows[:first])
                changed, self._touches = self._changed(), []
                del rows[:first], at[:first]
            cells = list(map(windows.cells.__getitem__, windows.starts))
            records = zip(rows, _draw(keys, rows), _draw(values, rows), at, strict=True)
            try:
                sweeper.sweep(cells, changed, records)
            except SweepError as error:
                self._failing.one(batch, error.row, error.__cause__ or error)
        self._swept = sweeper.swept, sweeper.spread
        late.sort()
        return late

    def _first_in_order(
        self, latest: int, rows: Sequence[int], times: Sequence[int], bound: Callable[[int], int]
    ) -> int:
        """Return the first of a key's rows from which on all are on time and in time order.

        The rows before it, and records earlier than any window that could end with them, are added
        one by one.

        Args:
            latest: The time of the last record in the key's windows.
            rows: The key's rows.
            times: Their timestamps.
            bound: The time before which each row of the batch is late.
        """
        first, difference = 0, self._difference
        for place, (time, row) in enumerate(zip(times, rows, strict=True)):
            if time < latest or time < difference or time < bound(row):
                first = place + 1
            latest = max(latest, time)
        return first

    def _changes_of(
        self, batch: Batch, key_bytes: Sequence[bytes]
    ) -> tuple[list[WindowCell], ChangedWindows]:
        """Return the windows that changed, in the order of the records."""
        if self._stepwise:
            return super()._changes_of(batch, key_bytes)
        swept, spread = self._swept
        index = sorted(range(len(swept.marks)), key=swept.marks.__getitem__)
        rows = [mark // spread for mark in map(swept.marks.__getitem__, index)]
        times = list(map(batch.timestamps.__getitem__, rows))
        if swept.times:
            times = list(map(swept.times.get, index, times))
        befores: list[bytes | None] = [None] * len(rows)
        if swept.befores:
            befores = list(map(swept.befores.get, index))
        starts, difference = list(map(swept.starts.__getitem__, index)), self._difference
        changed = ChangedWindows(
            rows=rows,
            names=list(map(key_bytes.__getitem__, rows)),
            starts=starts,
            ends=[start + difference for start in starts],
            values=list(map(swept.values.__getitem__, index)),
            times=times,
            befores=befores,
            raws=[],
        )
        return [], self._encoded(batch, changed)

    def add(self, row: int, name: bytes, key: Any, value: Any, time: int, now: int) -> int:
        """Fold one record into each window around it, and start those that it creates."""
        closed = now - self._grace
        if time + self._difference < closed:
            return 1
        record = self._record
        record.row, record.name, record.key, record.value = row, name, key, value
        record.time, record.closed, record.windows = time, closed, self._windows[name]
        record.gone = ()
        if time < self._difference:
            return self._add_early(record)
        return self._add_usual(record)

    def _add_usual(self, record: _Record) -> int:
        time, difference = record.time, self._difference
        cells, starts = record.windows.cells, record.windows.starts
        place = bisect_right(starts, time + 1) - 1
        right = None
        if place >= 0 and starts[place] == time + 1:
            place -= 1
        elif place >= 0:
            right = self._behind(cells[starts[place]], record)
        lowest = max(0, time - 2 * difference)
        missed, has_left = 0, False
        left: WindowCell | None = None
        before: int | None = None
        while place >= 0 and (start := starts[place]) >= lowest:
            place -= 1
            cell = cells[start]
            if cell.end < time:
                left, before = cell, cell.time
                break
            last = cell.time
            missed += self._update(record, cell)
            if cell.end == time:
                has_left = True
                if last >= time:
                    return missed
                before = last
        if before is not None and before + 1 + difference >= time:
            missed += self._begin_after(record, before)
        if not has_left:
            missed += self._end_with(record, left, before)
        self._begin_behind(record, right)
        return missed

    def _end_with(self, record: _Record, left: WindowCell | None, before: int | None) -> int:
        """Start the window that ends with a record; return 1 if it is closed already."""
        start = record.time - self._difference
        cell = record.windows.cells.get(start)
        if cell is not None:  # just started, right after the previous record
            self.put(record.row, cell, cell.raw)
            return 0
        if left is not None and before is not None and start <= before:
            return self._begin(record, start, self.own(left.value))
        return self._begin(record, start, self._initializer())

    def _add_early(self, record: _Record) -> int:
        """Fold a record that is earlier than any window that could end with it.

        All such records are in the first window, which begins at 0, instead of their own window.
        """
        time = record.time
        cells, starts = record.windows.cells, record.windows.starts
        first = cells.get(0)
        before: int | None = None
        if first is not None and first.time < time:
            before = first.time
        around = [start for start in starts[: bisect_right(starts, time)] if start > 0]
        newest = cells[around[-1]] if around else first
        right = None
        if newest is not None and time + 1 not in cells:
            right = self._behind(newest, record)
        missed = sum([self._update(record, cells[start]) for start in around])
        self._begin_behind(record, right)
        if before is not None:
            missed += self._begin_after(record, before)
        if first is not None:
            return missed + self._update(record, first)
        return missed + self._begin(record, 0, self._initializer())

    def _behind(self, newest: WindowCell, record: _Record) -> WindowCell | None:
        """Return the window right after a record, None if it would be empty.

        The newest window around the record holds the later records, and no earlier one.
        """
        if newest.end <= record.time or newest.time <= record.time:
            return None
        start = record.time + 1
        value = self.own(newest.value)
        return WindowCell(record.name, start, start + self._difference, value, newest.time)

    def _begin_behind(self, record: _Record, cell: WindowCell | None) -> None:
        """Add the window right after a record, if there is one to add."""
        if cell is None:
            return
        raw = self.encoded(cell.value, cell.time)
        record.windows.add(cell)
        self.put(record.row, cell, raw)

    def _begin_after(self, record: _Record, before: int) -> int:
        """Start the window right after an earlier record, unless it exists or existed until now."""
        if before + 1 in record.windows.cells or before + 1 in record.gone:
            return 0
        return self._begin(record, before + 1, self._initializer())

    def _begin(self, record: _Record, start: int, total: Any) -> int:
        """Add a record to a new window; return 1 if that is closed already."""
        end = start + self._difference
        if end < record.closed:
            return 1
        value = copy_value(record.value) if self._shared else record.value
        total = self._fold(record.key, value, total)
        cell = WindowCell(record.name, start, end, total, record.time)
        raw = self.encoded(total, record.time) if self._stepwise else None
        if total is not None:
            record.windows.add(cell)
        self.put(record.row, cell, raw)
        return 0

    def _update(self, record: _Record, cell: WindowCell) -> int:
        """Add a record to a window; return 1 if that is closed already."""
        if cell.end < record.closed:
            return 1
        value = copy_value(record.value) if self._shared else record.value
        total = self._fold(record.key, value, cell.value)
        time = max(record.time, cell.time)
        raw = self.encoded(total, time) if self._stepwise else None
        cell.value, cell.time = total, time
        if total is None:
            record.windows.remove(cell)
            record.gone = (*record.gone, cell.start)
        self.put(record.row, cell, raw)
        return 0

    def forget(self) -> None:
        """Also release the windows around the records."""
        super().forget()
        self._windows, self._rows_of = {}, {}
        self._swept = Swept(), 1

    def recover(self, name: bytes) -> None:
        """Decode the key's aggregates again."""
        self._decode(list(self._windows[name].cells.values()))

    def save(self, cells: Sequence[WindowCell], changed: ChangedWindows) -> None:
        """Write the changed windows, except those that `over` would remove at once."""
        del cells
        kept: Sequence[int] = range(len(changed.rows))
        if self._tells and not self._stepwise:
            floor = min(map(self._clock.closed_until, self._store.groups)) - self._kept
            befores = changed.befores
            kept = [
                place
                for place, start in enumerate(changed.starts)
                if start >= floor or befores[place] is not None
            ]
        parts: list[list[tuple[bytes, int, bytes | None]]] = [[] for _ in self._rows]
        place = {name: parts[n] for n, (_, keys) in enumerate(self._rows) for name in keys}
        names, starts, raws = changed.names, changed.starts, changed.raws
        for at in kept:
            place[names[at]].append((names[at], starts[at], raws[at]))
        for (rows, _), part in zip(self._rows, parts, strict=True):
            if part:
                rows.put_many(*zip(*part, strict=True), floor=self._floor)

    def windowed_bytes(
        self, names: Sequence[bytes], starts: Sequence[int], ends: Sequence[int]
    ) -> list[bytes]:
        """Return key and start, as Kafka has it."""
        del ends
        pack = _START.pack
        return [name + pack(start) for name, start in zip(names, starts, strict=True)]

    def over(self, horizon: int) -> Batch | None:
        """Return the closed windows, if they are emitted on close; remove expired ones."""
        emitted, span = None, self._difference + horizon
        if self.node.emit == "close":
            emitted = self._closer.windows_over(lambda now: now - span, span)
        for group in self._store.groups:
            now = self._clock.closed_until(group)
            WindowRows(self._store.group(group), indexed=True).expire_before(now - self._kept)
        return emitted

    def due_event_times(self) -> dict[int, int]:
        """Return when the next window of each key group closes."""
        if self.node.emit != "close":
            return {}
        return self._closer.due_times(self._difference + self.horizon() + self.step.lag_ms)
