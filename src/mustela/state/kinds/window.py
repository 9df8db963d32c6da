"""Window stores: one row for each window of a key.

Layout, format 1. A row's key is the window's start (eight bytes, sign flipped, so that bytes sort
by time) and the record key; its value is a timestamped value, packed as in key_value.py. All
windows of a store have the same length, so the end is not stored. Rows are ordered by start, then
by record key: expired windows are at the front, and the windows of many keys are one `getmulti`.

A store whose windows start anywhere (sliding windows, a processor's own) can be *indexed*: a row
``01`` and the record key holds the starts of that key, eight bytes each, ascending. It may name
windows that have expired.

The row ``00`` and ``f`` says from which start windows are shown, if the writer of the windows knows
that better than the store: see `WindowRows.show_from`.

Expired rows are removed here but not in the changelog, which has its own retention; a reader never
shows a window that starts below its bound.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from struct import Struct, pack, unpack

from mustela.state.kinds.layout import (
    TIME_BYTES,
    TIME_MAX,
    TIME_MIN,
    RowView,
    first_row,
    key_row,
    key_rows,
    pack_time,
    time_key,
    time_keys,
    time_rows,
    unpack_time,
)

__all__ = [
    "SHOWN_FROM",
    "WINDOW_FORMAT",
    "WindowRows",
    "split_window_key",
    "window_key",
    "window_keys",
]

WINDOW_FORMAT = 1

window_key = time_key
"""(start, record key) -> stored key."""

window_keys = time_keys
"""(starts, record keys) -> stored keys."""

SHOWN_FROM = b"\x00f"
"""The key of the first start that a store shows."""

_START_BYTES = TIME_BYTES
_START = Struct(">q")


def split_window_key(stored: bytes) -> tuple[int, bytes]:
    """Return the start and the record key in a stored key.

    Example:
        >>> split_window_key(window_key(60_000, b"apple"))
        (60000, b'apple')
    """
    return unpack_time(stored), stored[TIME_BYTES:]


def pack_starts(starts: Sequence[int]) -> bytes:
    """Return the value of an index row."""
    return pack(f">{len(starts)}q", *starts)


def unpack_starts(stored: bytes | None) -> list[int]:
    """Return the starts in an index row, ascending."""
    return [] if stored is None else list(unpack(f">{len(stored) // _START_BYTES}q", stored))


class WindowRows:
    """The windows of one key group, as bytes.

    Args:
        view: The rows of the store.
        indexed: Whether the starts of each key are kept too; the same for the life of a store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="w", kind="window"),))
        >>> windows = WindowRows(Overlay(MemoryEnvironment(place).snapshot(Committed())).store("w"))
        >>> windows.put(b"apple", 0, b"1")
        >>> windows.put(b"apple", 10, b"2")
        >>> windows.fetch(b"apple", 0, 20)
        [(0, b'1'), (10, b'2')]
        >>> windows.expire_before(10)
        1
    """

    def __init__(self, view: RowView, *, indexed: bool = False) -> None:
        self.view = view
        self.indexed = indexed

    def show_from(self, start: int) -> None:
        """Show the windows from ``start`` on, and no others, whatever the store's time.

        No window begins before 0, so a start of 0 is not stored.
        """
        self.view.put(SHOWN_FROM, pack_time(max(start, 0)))

    def get(self, key: bytes, start: int) -> bytes | None:
        """Return the row of one window, or None."""
        return self.view.get(window_key(start, key))

    def getmulti(self, keys: Sequence[bytes], starts: Sequence[int]) -> list[bytes | None]:
        """Return the rows of many windows in the same order, with one fetch."""
        return self.view.getmulti(window_keys(starts, keys))

    def put(self, key: bytes, start: int, row: bytes | None) -> None:
        """Set the row of one window; None deletes."""
        self.put_many([key], [start], [row])

    def put_many(
        self,
        keys: Sequence[bytes],
        starts: Sequence[int],
        rows: Sequence[bytes | None],
        *,
        floor: int = TIME_MIN,
    ) -> None:
        """Set the rows of many windows; the last row of a repeated window wins.

        Starts below ``floor`` have expired, and are removed from the index of the written keys.
        """
        fresh = dict(zip(window_keys(starts, keys), rows, strict=True))
        self.view.put_many(fresh)
        if self.indexed:
            self._index(keys, starts, rows, floor)

    def _index(
        self,
        keys: Sequence[bytes],
        starts: Sequence[int],
        rows: Sequence[bytes | None],
        floor: int,
    ) -> None:
        names = list(dict.fromkeys(keys))
        before = dict(zip(names, self.view.getmulti(key_rows(names)), strict=True))
        fresh: dict[bytes, list[int]] = {key: [] for key in names}
        gone: dict[bytes, set[int]] = {}
        for key, start, row in zip(keys, starts, rows, strict=True):
            if row is not None:
                fresh[key].append(start)
                if key in gone:
                    gone[key].discard(start)
            else:
                gone.setdefault(key, set()).add(start)
        packed: dict[bytes, bytes | None] = {}
        for key, stored in before.items():
            known = sorted({*unpack_starts(stored), *fresh[key]}.difference(gone.get(key, ())))
            del known[: bisect_left(known, floor)]
            packed[key] = pack_starts(known) if known else None
        self.view.put_many(
            (key_row(key), stored) for key, stored in packed.items() if stored != before[key]
        )

    def starts_of(self, keys: Sequence[bytes]) -> list[list[int]]:
        """Return the starts of each key, ascending, with one fetch; the store is indexed.

        Some may belong to expired windows, which no longer have a row.
        """
        assert self.indexed, "this store keeps no index of starts"
        return list(map(unpack_starts, self.view.getmulti(key_rows(keys))))

    def fetch_many(
        self, keys: Sequence[bytes], froms: Sequence[int], tos: Sequence[int]
    ) -> list[list[tuple[int, bytes]]]:
        """Return, for each key, its windows with from <= start <= to, by start.

        Two fetches for all keys; the store is indexed.
        """
        wanted: list[list[int]] = []
        for starts, low, high in zip(self.starts_of(keys), froms, tos, strict=True):
            wanted.append(starts[bisect_left(starts, low) : bisect_right(starts, high)])
        places = [key for key, starts in zip(keys, wanted, strict=True) for _ in starts]
        found = iter(self.getmulti(places, list(chain.from_iterable(wanted))))
        return [
            [(start, row) for start, row in zip(starts, found, strict=False) if row is not None]
            if starts
            else []
            for starts in wanted
        ]

    def fetch(
        self, key: bytes, from_: int = TIME_MIN, to: int = TIME_MAX, *, reverse: bool = False
    ) -> list[tuple[int, bytes]]:
        """Return the windows of one key with from_ <= start <= to, by start.

        Without an index it goes from each existing start to the next.
        """
        if self.indexed:
            found = self.fetch_many([key], [from_], [to])[0]
        else:
            found = self._walk(key, from_, to)
        return found[::-1] if reverse else found

    def _walk(self, key: bytes, from_: int, to: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        low = pack_time(max(from_, TIME_MIN))
        high = time_key(to, key)
        while low <= high and (row := self.view.first(low, high)) is not None:
            head = row[0][:TIME_BYTES]
            mine = head + key
            value = row[1] if row[0] == mine else self.view.get(mine) if row[0] < mine else None
            start = unpack_time(head)
            if value is not None:
                found.append((start, value))
            if start >= to:
                break
            low = pack_time(start + 1)
        return found

    def scan(
        self, from_: int = TIME_MIN, to: int = TIME_MAX, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes, bytes]]:
        """Iterate over (start, record key, row) with from_ <= start <= to, by start, then key."""
        for stored, row in time_rows(self.view, from_, to, reverse=reverse):
            yield unpack_time(stored), stored[TIME_BYTES:], row

    def first_start(self) -> int | None:
        """Return the lowest start of all windows, or None."""
        row = first_row(self.view)
        return None if row is None else unpack_time(row[0])

    def expire_before(self, bound: int) -> int:
        """Remove the windows that start below ``bound``, here only; return how many there were."""
        over = [stored for stored, _ in time_rows(self.view, to=bound - 1)]
        if not over:
            return 0
        if self.indexed:
            names = list(dict.fromkeys(stored[TIME_BYTES:] for stored in over))
            indexes = zip(names, self.view.getmulti(key_rows(names)), strict=True)
            self.view.expire(
                key_row(key)
                for key, stored in indexes
                if stored is not None and _START.unpack(stored[-_START_BYTES:])[0] < bound
            )
        self.view.expire(over)
        return len(over)
