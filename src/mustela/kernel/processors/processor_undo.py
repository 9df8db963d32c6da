"""Undoes the writes of a processor's failed attempt before the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from mustela.state.kinds.layout import RowView

__all__ = ["Restored", "Undo"]


class Restored(Protocol):
    """What can be set back to what it was."""

    def put(self, key: Any, value: Any, /) -> None:
        """Set a key to what it was."""
        ...


class Undo:
    """Remembers what stores held before a processor wrote to them; one for each step.

    Only steps whose handler may retry a record have one.
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: list[tuple[Restored, Any, Any]] = []

    def over(self, rows: RowView) -> Any:
        """Return rows whose writes are remembered."""
        return _RememberedRows(rows, self)

    def note(self, rows: RowView, key: bytes) -> None:
        """Remember the value of a key before it is written."""
        self._before.append((rows, key, rows.get(key)))

    def remember(self, rows: Restored, key: Any, before: Any) -> None:
        """Remember what ``rows`` need to restore a key."""
        self._before.append((rows, key, before))

    def begin(self) -> None:
        """Forget what earlier attempts wrote."""
        self._before.clear()

    def back(self) -> None:
        """Restore every key to its value at the start of the attempt."""
        for rows, key, row in reversed(self._before):
            rows.put(key, row)
        self._before.clear()


class _RememberedRows:
    """Rows of a store whose writes can be undone.

    How a kind of store reads what it keeps beside its rows stays as it is.

    Args:
        rows: The rows of one key group.
        undo: Remembers.
    """

    def __init__(self, rows: RowView, undo: Undo) -> None:
        self._rows = rows
        self._undo = undo
        self.get = rows.get
        self.getmulti = rows.getmulti
        self.range = rows.range
        self.first = rows.first
        self.count = rows.count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        self._undo.note(self._rows, key)
        self._rows.put(key, value)

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys."""
        written = dict(rows)
        for key in written:
            self._undo.note(self._rows, key)
        self._rows.put_many(written)

    def expire(self, keys: Iterable[bytes]) -> None:
        """Remove expired rows, without writing to the changelog."""
        gone = list(keys)
        for key in gone:
            self._undo.note(self._rows, key)
        self._rows.expire(gone)
