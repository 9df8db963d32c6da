"""Key-value stores whose rows expire some time after they were written.

Layout, format 1. Times, and what first bytes mean: see layout.py.

- ``01`` and the record key: the time from which the row's age is counted, the time of its index
line (eight bytes each), then the row.
- time and record key: an empty value. The index: one line for each row, at the row's time or before
  it. A row that is written again keeps its line, which is moved when it comes due; so a key that is
  written often costs no more than one that is not.
- ``00``: the stream time of the key group.

Times are those of writing, not of expiry, so a changed time to live applies to existing rows.
Expired rows are deleted in the changelog too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import (
    STREAM_TIME,
    TIME_BYTES,
    TIME_MIN,
    RowView,
    first_row,
    key_row,
    key_rows,
    time_key,
    time_rows,
    unpack_time,
)
from mustela.state.kinds.record_rows import RecordRows
from mustela.state.kinds.timed import timestamped_unpacker

__all__ = ["TTL_FORMAT", "TTL_HEAD_BYTES", "Expired", "TtlClock", "TtlView"]

TTL_FORMAT = 1

_HEAD = Struct(">qq")
TTL_HEAD_BYTES: Final = _HEAD.size
"""How many bytes precede the value in a stored row."""


class Expired(NamedTuple):
    """A row that was removed because it had expired.

    Attributes:
        key: The record key.
        time: When it was written.
        row: Its value.
    """

    key: bytes
    time: int
    row: bytes


class TtlClock:
    """The current time for the rows of a store in one key group.

    Attributes:
        now: Returns the time at which rows are read, so that expired ones are hidden; None to hide
            none.
        written: The time of rows without their own time, by record key.
        otherwise: Returns the time of rows that are not in ``written``.
    """

    __slots__ = ("now", "otherwise", "written")

    def __init__(self) -> None:
        self.now: Callable[[], int] | None = None
        self.written: Mapping[bytes, int] = {}
        self.otherwise: Callable[[], int] = int


class TtlView(RecordRows):
    """The rows of one key group by record key, with the time each was written.

    Args:
        view: The rows of the store.
        spec: The store.

    Attributes:
        clock: The current time; until it is set, nothing is hidden.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.kinds.timed import pack_timestamped
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="s", ttl_ms=10)
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("s")
        >>> rows = TtlView(view, spec)
        >>> rows.put(b"a", pack_timestamped(b"1", 5))
        >>> rows.put(b"b", pack_timestamped(b"2", 7))
        >>> rows.put(b"a", pack_timestamped(b"3", 9))
        >>> [(expired.key, expired.time) for expired in rows.take_until(7)]
        [(b'b', 7)]
        >>> rows.first_time(), rows.count()
        (9, 1)
    """

    head_bytes = TTL_HEAD_BYTES

    def __init__(self, view: RowView, spec: StoreSpec) -> None:
        assert spec.ttl_ms is not None, spec.name
        super().__init__(view)
        self._ttl_ms = spec.ttl_ms
        self.clock = TtlClock()
        timed = spec.traits.timed and spec.ttl_by == "event_time"
        self._unpack = timestamped_unpacker(spec) if timed else None

    def _now(self) -> int | None:
        """Return the time up to which rows are hidden, or None to hide none."""
        now = self.clock.now
        return None if now is None else now() - self._ttl_ms

    @staticmethod
    def _seen(stored: bytes | None, over: int | None) -> bytes | None:
        if stored is None or (over is not None and _HEAD.unpack_from(stored)[0] <= over):
            return None
        return stored[TTL_HEAD_BYTES:]

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self._seen(self.view.get(key_row(key)), self._now())

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        seen, over = self._seen, self._now()
        return [seen(stored, over) for stored in self.view.getmulti(key_rows(keys))]

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        over = self._now()
        if over is None:
            return super().range(low, high, reverse=reverse)
        rows = self._stored(low, high, reverse=reverse)
        seen = ((key, self._seen(stored, over)) for key, stored in rows)
        return ((key, row) for key, row in seen if row is not None)

    def times_of(self, keys: Sequence[bytes]) -> list[int | None]:
        """Return when the rows of keys were written, None where there is none."""
        found = self.view.getmulti(key_rows(keys))
        return [None if stored is None else _HEAD.unpack_from(stored)[0] for stored in found]

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys."""
        fresh = dict(rows)
        written: dict[bytes, bytes | None] = {}
        known = self.view.getmulti(key_rows(list(fresh)))
        for (key, value), stored in zip(fresh.items(), known, strict=True):
            line = None if stored is None else _HEAD.unpack_from(stored)[1]
            before = None if stored is None else _HEAD.unpack_from(stored)[0]
            time = None if value is None else self._time(key, value, before)
            if line is not None and (time is None or time < line):
                written[time_key(line, key)] = None
                line = None
            if value is None or time is None:
                written[key_row(key)] = None
                continue
            if line is None:
                line = time
                written[time_key(time, key)] = b""
            written[key_row(key)] = _HEAD.pack(time, line) + value
        self.view.put_many(written)

    def _time(self, key: bytes, value: bytes, before: int | None) -> int:
        """Return the time of a row; writing never makes a row without its own time older."""
        if self._unpack is not None:
            time = self._unpack(value)[1]
            if time >= 0:
                return time
        time = self.clock.written.get(key)
        if time is None:
            time = self.clock.otherwise()
        return time if before is None else max(time, before)

    def take(self, keys: Sequence[bytes]) -> list[Expired]:
        """Remove rows, and return those that were there."""
        found = self.view.getmulti(key_rows(keys))
        gone = [
            Expired(key, _HEAD.unpack_from(stored)[0], stored[TTL_HEAD_BYTES:])
            for key, stored in zip(keys, found, strict=True)
            if stored is not None
        ]
        self.put_many({one.key: None for one in gone})
        return gone

    def take_until(self, time: int, *, most: int | None = None) -> list[Expired]:
        """Remove the rows written at or before a time, and return them by time.

        Args:
            time: The time.
            most: Maximum number of index lines to check.
        """
        due = [stored for stored, _ in islice(time_rows(self.view, to=time), most)]
        if not due:
            return []
        keys = [line[TIME_BYTES:] for line in due]
        gone: list[Expired] = []
        written: dict[bytes, bytes | None] = dict.fromkeys(due)
        for key, stored in zip(keys, self.view.getmulti(key_rows(keys)), strict=True):
            if stored is None:
                continue  # an index line without a row
            at, _ = _HEAD.unpack_from(stored)
            if at <= time:
                gone.append(Expired(key, at, stored[TTL_HEAD_BYTES:]))
                written[key_row(key)] = None
            else:
                written[time_key(at, key)] = b""
                written[key_row(key)] = _HEAD.pack(at, at) + stored[TTL_HEAD_BYTES:]
        self.view.put_many(written)
        return sorted(gone, key=lambda one: (one.time, one.key))

    def first_time(self) -> int | None:
        """Return a time before which no row was written, None if there is no row."""
        row = first_row(self.view, TIME_MIN)
        return None if row is None else unpack_time(row[0])

    def count(self) -> int:
        """Return the number of keys."""
        if self.clock.now is not None:
            return super().count()
        return (self.view.count() - (self.view.get(STREAM_TIME) is not None)) // 2
