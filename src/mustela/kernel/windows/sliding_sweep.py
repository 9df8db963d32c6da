"""Sliding windows of one key whose records are in time order, in one sweep.

A record later than all others of its key changes the windows that it falls into, and starts at most
two: the one that ends with it, and the one right after the previous record. So the windows of a key
are a list per column during the sweep, without an object per window.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter
from typing import Any

from mustela.kernel.core.isolate import copy_value
from mustela.kernel.windows.window_cells import WindowCell

__all__ = ["SweepError", "Sweeper", "Swept"]

Record = tuple[int, Any, Any, int]
"""Row, key, value and time."""

_start_of = attrgetter("start")
_value_of = attrgetter("value")
_time_of = attrgetter("time")

_UNTOUCHED = -1


class SweepError(Exception):
    """A user's function failed; the cause says how.

    Attributes:
        row: The record's row.
    """

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


@dataclass(slots=True)
class Swept:
    """The windows that changed, by key, each once.

    Attributes:
        marks: When each was last changed: the row times `Sweeper.spread`, plus the number of the
            change within the row.
        starts: Where each starts.
        values: Their aggregates, None where a window has been deleted.
        times: The timestamps of those whose timestamp is not that row's.
        befores: The rows before the epoch of those that existed then.
    """

    marks: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    values: list[Any] = field(default_factory=list[Any])
    times: dict[int, int] = field(default_factory=dict[int, int])
    befores: dict[int, bytes] = field(default_factory=dict[int, bytes])


@dataclass(slots=True, kw_only=True)
class Sweeper:
    """Adds records to windows.

    Attributes:
        difference: How far apart the records of a window may be.
        fold: (key, value, aggregate or None) -> aggregate.
        initializer: Returns a first aggregate; None if the fold starts without one.
        own: Returns a copy of an aggregate that another window may change.
        copies: Whether a value must be copied for each window.
        spread: More than the number of windows that one record can change.
        swept: The changed windows.
    """

    difference: int
    fold: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
    own: Callable[[Any], Any]
    copies: bool
    spread: int
    swept: Swept = field(default_factory=Swept)

    def sweep(
        self, cells: Sequence[WindowCell], changed: Sequence[WindowCell], records: Iterable[Record]
    ) -> None:
        """Add records of a key, in time order and later than all those in the windows.

        Args:
            cells: The key's windows by start.
            changed: Those that this epoch has changed already, including deleted ones, in the order
                of their last changes.
            records: The records.

        Raises:
            SweepError: If a function of the user raises.
        """
        windows = _Windows(cells)
        if changed:
            windows.note(changed, self.spread)
        self._add(windows, records)
        swept = self.swept
        if cells or windows.gone:
            windows.settle(swept)
        swept.marks.extend(windows.marks)
        swept.starts.extend(windows.starts)
        swept.values += windows.values

    def _add(self, windows: _Windows, records: Iterable[Record]) -> None:
        starts, times, begin = windows.starts, windows.times, self._begin
        difference, spread = self.difference, self.spread
        row = low = 0  # the windows before the place ``low`` have ended
        try:
            for record in records:
                row, _, _, time = record
                start, mark = time - difference, row * spread
                low = bisect_left(starts, start, low)
                last = None
                if low < len(starts):
                    last = times[low] if starts[low] == start else None
                    mark = self._update(windows, low, record, mark)
                    if last == time:
                        continue
                left = low - 1 if low and starts[low - 1] >= start - difference else None
                before = last if left is None else times[left]
                if before is not None and before >= start - 1:
                    place = bisect_left(starts, before + 1, low)
                    there = place < len(starts) and starts[place] == before + 1
                    if not there and not windows.went(before + 1, row * spread):
                        begin(windows, place, (before + 1, mark), record, None)
                        mark += 1
                if last is None and (low == len(starts) or starts[low] > start):
                    begin(windows, low, (start, mark), record, left)
        except Exception as error:
            raise SweepError(row) from error

    def _update(self, windows: _Windows, low: int, record: Record, mark: int) -> int:
        """Add a record to the windows from a place onwards, newest first; return the next mark."""
        _, key, value, time = record
        values, times, marks = windows.values, windows.times, windows.marks
        fold, copies = self.fold, self.copies
        for place in range(len(values) - 1, low - 1, -1):
            total = fold(key, copy_value(value) if copies else value, values[place])
            values[place], times[place], marks[place] = total, time, mark
            mark += 1
            if total is None:
                windows.delete(place)
        return mark

    def _begin(
        self,
        windows: _Windows,
        place: int,
        at: tuple[int, int],
        record: Record,
        left: int | None,
    ) -> None:
        """Start a window with a record, at a place, with a start and a mark.

        The new window contains all of the window at the place ``left``, or nothing of it.
        """
        _, key, value, time = record
        start, mark = at
        if left is not None and windows.times[left] >= start:
            total = self.own(windows.values[left])
        else:
            total = None if self.initializer is None else self.initializer()
        total = self.fold(key, copy_value(value) if self.copies else value, total)
        if windows.gone:
            windows.gone.pop(start, None)
        if total is None:
            windows.gone[start] = mark, time
            return
        windows.starts.insert(place, start)
        windows.values.insert(place, total)
        windows.times.insert(place, time)
        windows.marks.insert(place, mark)


class _Windows:
    """The windows of a key, by start, as columns."""

    __slots__ = ("befores", "gone", "marks", "noted", "starts", "times", "values")

    def __init__(self, cells: Sequence[WindowCell]) -> None:
        self.starts: list[int] = list(map(_start_of, cells))
        self.values: list[Any] = list(map(_value_of, cells))
        self.times: list[int] = list(map(_time_of, cells))
        self.marks: list[int] = [_UNTOUCHED] * len(cells)
        self.gone: dict[int, tuple[int, int]] = {}
        self.befores = {cell.start: cell.before for cell in cells if cell.before is not None}
        self.noted: dict[int, int] = {}

    def note(self, changed: Sequence[WindowCell], spread: int) -> None:
        """Note which windows have been changed already, in the order of those changes."""
        places = {start: place for place, start in enumerate(self.starts)}
        row, number = -1, 0
        for cell in changed:
            row, number = cell.row, number + 1 if cell.row == row else 0
            mark = row * spread + number
            self.noted[cell.start] = cell.time
            if cell.value is None:
                self.gone[cell.start] = mark, cell.time
            else:
                self.marks[places[cell.start]] = mark
            if cell.before is not None:
                self.befores[cell.start] = cell.before

    def delete(self, place: int) -> None:
        """Delete a window that has just been changed."""
        self.gone[self.starts[place]] = self.marks[place], self.times[place]
        del self.starts[place], self.values[place], self.times[place], self.marks[place]

    def went(self, start: int, mark: int) -> bool:
        """Return whether a window existed until it was deleted at or after a mark."""
        return start in self.gone and self.gone[start][0] >= mark

    def settle(self, swept: Swept) -> None:
        """Leave out the windows that have not changed, and add the deleted ones."""
        if _UNTOUCHED in self.marks:
            changed = [mark != _UNTOUCHED for mark in self.marks]
            for column in (self.starts, self.values, self.times, self.marks):
                column[:] = compress(column, changed)
        for start, (mark, time) in self.gone.items():
            self.starts.append(start)
            self.values.append(None)
            self.times.append(time)
            self.marks.append(mark)
        first, befores, noted = len(swept.marks), self.befores, self.noted
        if befores or noted:
            for place, start in enumerate(self.starts):
                if start in befores:
                    swept.befores[first + place] = befores[start]
                if start in noted:
                    swept.times[first + place] = self.times[place]
