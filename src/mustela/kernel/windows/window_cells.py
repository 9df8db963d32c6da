"""Sliding windows and sessions while an epoch runs: one object each, and those changed as columns.

Compiled code would lose the options of a `msgspec.Struct`, so these classes are never compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

__all__ = ["ChangedWindows", "ToldChange", "WindowCell"]


class ToldChange(NamedTuple):
    """A change to forward."""

    row: int
    name: bytes
    start: int
    end: int
    value: Any
    time: int
    old: bytes | None


class WindowCell(msgspec.Struct, eq=False, gc=False):
    """The aggregate of one window while an epoch runs.

    There are very many of them, and none is part of a reference cycle, so the garbage collector
    need not track them.

    Attributes:
        name: Bytes of the record key.
        start: Start of the window.
        end: End of the window.
        value: The aggregate; None if the row is deleted.
        time: The timestamp that the row has.
        raw: The stored row, if it is kept up to date.
        before: The row before the epoch, None if there was none.
        row: The last record that changed it.
    """

    name: bytes
    start: int
    end: int
    value: Any
    time: int
    raw: bytes | None = None
    before: bytes | None = None
    row: int = -1


_FIELDS: Final = attrgetter("row", "start", "end", "value", "time")


class ChangedWindows(NamedTuple):
    """The changed windows, each once, in their current state.

    Attributes:
        rows: The row of the last record that changed each.
        names: Bytes of their record keys.
        starts: Their starts.
        ends: Their ends.
        values: Their aggregates.
        times: Their timestamps.
        befores: Their rows before the epoch.
        raws: Their rows.
    """

    rows: list[int]
    names: list[bytes]
    starts: list[int]
    ends: list[int]
    values: list[Any]
    times: list[int]
    befores: list[bytes | None]
    raws: list[bytes | None]

    @classmethod
    def of(cls, cells: Sequence[WindowCell], key_bytes: Sequence[bytes]) -> ChangedWindows:
        """Build the columns except ``rows``; each of the many windows is visited once."""
        fields = list(map(_FIELDS, cells))
        rows = [field[0] for field in fields]
        names = list(map(key_bytes.__getitem__, rows))
        befores = [cell.before for cell in cells]
        columns = ([field[n] for field in fields] for n in range(1, 5))
        return cls._make([rows, names, *columns, befores, []])
