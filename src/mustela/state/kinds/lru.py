"""Key-value stores that keep a limited number of keys.

Layout, format 1. Times, and what first bytes mean: see layout.py. Uses are numbered, and these
numbers take the place of times.

- ``01`` and the record key: the number of the key's last use, then the row.
- number and record key: an empty value. In the order of uses.
- ``00 n``: how many keys there are, and the next number.

A use is a write: such tables and stores write whatever they touch. Evicted keys are deleted in the
changelog too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from mustela.state.kinds.layout import (
    TIME_BYTES,
    RowView,
    key_row,
    key_rows,
    pack_time,
    time_rows,
)
from mustela.state.kinds.record_rows import RecordRows

__all__ = ["LRU_FORMAT", "LruView"]

LRU_FORMAT = 1

_FILL_KEY: Final = b"\x00n"
_FILL = Struct(">QQ")


class LruView(RecordRows):
    """The rows of one key group by record key, limited to those kept.

    Args:
        view: The rows of the store.
        max_entries: How many keys are kept.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="s", max_entries=2),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("s")
        >>> recent = LruView(view, 2)
        >>> recent.put_many({b"a": b"1", b"b": b"2"})
        >>> recent.put(b"a", b"3")
        >>> recent.put(b"c", b"4")
        >>> list(recent.range())
        [(b'a', b'3'), (b'c', b'4')]
    """

    head_bytes = TIME_BYTES

    def __init__(self, view: RowView, max_entries: int) -> None:
        super().__init__(view)
        self.max_entries = max_entries

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys, in order; then evict the surplus."""
        fresh = dict(rows)
        stored = self.view.get(_FILL_KEY)
        count, number = (0, 0) if stored is None else _FILL.unpack(stored)
        written: dict[bytes, bytes | None] = {}
        known = self.view.getmulti(key_rows(list(fresh)))
        for (key, value), before in zip(fresh.items(), known, strict=True):
            if before is not None:
                written[before[:TIME_BYTES] + key] = None
                count -= 1
            if value is None:
                written[key_row(key)] = None
                continue
            use = pack_time(number)
            written[use + key] = b""
            written[key_row(key)] = use + value
            number += 1
            count += 1
        self.view.put_many(written)
        if count > self.max_entries:
            self._forget(count - self.max_entries)
            count = self.max_entries
        self.view.put(_FILL_KEY, _FILL.pack(count, number))

    def _forget(self, too_many: int) -> None:
        rows: dict[bytes, bytes | None] = {}
        for use, _ in time_rows(self.view):
            rows[use] = rows[key_row(use[TIME_BYTES:])] = None
            if len(rows) == 2 * too_many:
                break
        self.view.put_many(rows)

    def count(self) -> int:
        """Return the number of keys."""
        stored = self.view.get(_FILL_KEY)
        return 0 if stored is None else _FILL.unpack(stored)[0]
