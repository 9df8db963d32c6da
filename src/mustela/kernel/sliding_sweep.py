"""Sliding windows of one key whose records come in order of time: all of them in one sweep.

A record that comes behind all others of its key changes the windows that it lies in, and begins two
at most: the one that ends with it, and the one right behind the record before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mustela.kernel.isolate import copy_value
from mustela.kernel.window_updates import Cell

__all__ = ["SweepError", "Sweeper"]

Record = tuple[int, Any, Any, int]
"""Row, key, value and time."""


class SweepError(Exception):
    """A function of the user failed; the cause says how.

    Attributes:
        row: The record's row.
    """

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


@dataclass(slots=True, kw_only=True)
class Sweeper:
    """Adds records to windows.

    Attributes:
        difference: How far apart the records of a window may be.
        fold: (key, value, aggregate or None) -> aggregate.
        initializer: Gives a first aggregate; None if a fold begins without one.
        own: Returns an aggregate that another window may change.
        copies: Whether a value must be copied for each window.
        touched: Takes each window that a record changes, in the order of the changes.
        deletes: Whether a function has deleted a window.
    """

    difference: int
    fold: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
    own: Callable[[Any], Any]
    copies: bool
    touched: list[Cell]
    deletes: bool = False

    def sweep(self, name: bytes, cells: list[Cell], records: Iterable[Record]) -> None:
        """Add records that come in order of time, and behind all that are in the windows.

        Args:
            name: Bytes of their key.
            cells: The key's windows by start; those that begin are added.
            records: The records.

        Raises:
            SweepError: If a function of the user raises.
        """
        difference = self.difference
        starts = [cell.start for cell in cells]
        row = low = 0  # the windows before the place ``low`` are over
        try:
            for record in records:
                row, _, _, time = record
                start = time - difference
                low = bisect_left(starts, start, low)
                last = self._update(starts, cells, low, record) if low < len(starts) else None
                if last == time:
                    continue
                left = cells[low - 1] if low and starts[low - 1] >= start - difference else None
                before = last if left is None else left.time
                if before is not None and before + 1 >= start:
                    place = bisect_left(starts, before + 1, low)
                    if place == len(starts) or starts[place] > before + 1:
                        cell = self._begun(name, before + 1, record, None)
                        if cell.value is not None:
                            starts.insert(place, cell.start)
                            cells.insert(place, cell)
                if last is None and (low == len(starts) or starts[low] > start):
                    cell = self._begun(name, start, record, left)
                    if cell.value is not None:
                        starts.insert(low, start)
                        cells.insert(low, cell)
        except Exception as error:
            raise SweepError(row) from error

    def _update(self, starts: list[int], cells: list[Cell], low: int, record: Record) -> int | None:
        """Add a record to the windows that it lies in, the newest first.

        Returns:
            When the last record came into the window that ends with this one; None without it.
        """
        row, key, value, time = record
        last = cells[low].time if cells[low].end == time else None
        fold, touch = self.fold, self.touched.append
        for place in range(len(cells) - 1, low - 1, -1):
            cell = cells[place]
            cell.value = total = fold(key, copy_value(value) if self.copies else value, cell.value)
            cell.time, cell.row = time, row
            touch(cell)
            if total is None:
                self.deletes = True
                del starts[place], cells[place]
        return last

    def _begun(self, name: bytes, start: int, record: Record, left: Cell | None) -> Cell:
        """Return a new window with a record, None as its value if it deletes itself.

        What of the window ``left`` lies in the new one is in it, too: all or nothing.
        """
        row, key, value, time = record
        if left is not None and left.time >= start:
            total = self.own(left.value)
        else:
            total = None if self.initializer is None else self.initializer()
        total = self.fold(key, copy_value(value) if self.copies else value, total)
        cell = Cell(name, start, start + self.difference, total, time, None, None, row)
        self.touched.append(cell)
        self.deletes = self.deletes or total is None
        return cell
