"""Session stores: the sessions of each key, which grow and merge.

Layout, format 1:

- ``01`` and the record key: all sessions of the key. The value is the key's *due time* (see
  layout.py), then a packed array of (start, end, row), ascending by end, then by start. ``row`` is
  the aggregate's bytes as the owner of the store packs them, with headers as in headers.py.
- due time and record key: an empty value. Each key has one; it is at or below the first end of the
  key's sessions.

An aggregation needs every live session of a key to see what merges, and there are few of them (one,
mostly), so they are one value: those of many keys are one `getmulti`. A row for each session would
need a range scan for each key (measured in benchmarks/stores.py). The due time is not changed while
sessions grow, so that most updates write one row, not three; it is moved when a due key turns out
to have no session that old.

Expired sessions are deleted in the changelog too, which is compacted and never deletes by age: the
two rows of a key are not always written together, and one without the other would be a session that
never ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mustela.state.kinds.headers import SessionRow
from mustela.state.kinds.layout import (
    KEY_ROW,
    TIME_BYTES,
    TIME_MAX,
    TIME_MIN,
    RowView,
    first_row,
    key_row,
    key_rows,
    pack_time,
    time_key,
    time_rows,
    unpack_time,
)
from mustela.state.kinds.packed import pack_rows, unpacker
from mustela.state.ordered import prefix_end

__all__ = ["SESSION_FORMAT", "Session", "SessionRows", "unpack_sessions"]

SESSION_FORMAT = 1

Session = tuple[int, int, Any]
"""(start, end, row): bytes, or a row with headers in a store that keeps them."""

unpack_sessions: Callable[[bytes], list[Session]] = unpacker(list[tuple[int, int, SessionRow]])


def _by_end(session: Session) -> tuple[int, int]:
    return session[1], session[0]


def _sessions(stored: bytes | None) -> list[Session]:
    return [] if stored is None else unpack_sessions(stored[TIME_BYTES:])


class SessionRows:
    """The sessions of one key group, as bytes.

    Args:
        view: The rows of the store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="v", kind="session"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("v")
        >>> sessions = SessionRows(view)
        >>> sessions.save_many({b"apple": [(0, 5, b"1"), (90, 95, b"2")]})
        >>> sessions.load_many([b"apple", b"pear"])
        [[(0, 5, b'1'), (90, 95, b'2')], []]
        >>> list(sessions.ending(to=50))
        [(b'apple', 0, 5, b'1')]
    """

    def __init__(self, view: RowView) -> None:
        self.view = view

    def load_many(self, keys: Sequence[bytes]) -> list[list[Session]]:
        """Return the sessions of each key, by end, then by start, with one fetch."""
        return list(map(_sessions, self.view.getmulti(key_rows(keys))))

    def save_many(self, sessions: Mapping[bytes, Sequence[Session]]) -> None:
        """Set all sessions of many keys; none deletes a key.

        Cheapest after `load_many` of the same keys.
        """
        keys = list(sessions)
        rows: dict[bytes, bytes | None] = {}
        for key, stored in zip(keys, self.view.getmulti(key_rows(keys)), strict=True):
            self._write(rows, key, stored, sessions[key])
        self.view.put_many(rows)

    @staticmethod
    def _write(
        rows: dict[bytes, bytes | None],
        key: bytes,
        stored: bytes | None,
        sessions: Sequence[Session],
        *,
        move: bool = False,
    ) -> None:
        """Add to ``rows`` what has to be written; ``move`` brings the due time up to date."""
        old = None if stored is None else unpack_time(stored)
        if not sessions:
            rows[key_row(key)] = None
            if old is not None:
                rows[time_key(old, key)] = None
            return
        ordered = sorted(sessions, key=_by_end) if len(sessions) > 1 else sessions
        due = ordered[0][1]
        if old is not None and old < due and not move:
            due = old
        if due != old:
            if old is not None:
                rows[time_key(old, key)] = None
            rows[time_key(due, key)] = b""
        rows[key_row(key)] = pack_time(due) + pack_rows(ordered)

    def get(self, key: bytes, start: int, end: int) -> SessionRow | None:
        """Return the row of one session, or None."""
        for session in _sessions(self.view.get(key_row(key))):
            if session[0] == start and session[1] == end:
                return session[2]
        return None

    def put(self, key: bytes, start: int, end: int, row: SessionRow | None) -> None:
        """Set the row of one session; None removes it."""
        known = _sessions(self.view.get(key_row(key)))
        others = [session for session in known if session[:2] != (start, end)]
        if row is not None:
            others.append((start, end, row))
        self.save_many({key: others})

    def find(
        self,
        key: bytes,
        earliest_end: int = TIME_MIN,
        latest_start: int = TIME_MAX,
        *,
        reverse: bool = False,
    ) -> list[Session]:
        """Return the sessions of a key with end >= earliest_end and start <= latest_start."""
        known = _sessions(self.view.get(key_row(key)))
        found = [s for s in known if s[1] >= earliest_end and s[0] <= latest_start]
        return found[::-1] if reverse else found

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, list[Session]]]:
        """Iterate over the keys low <= key <= high, in their order, with all their sessions."""
        last = prefix_end(KEY_ROW) if high is None else key_row(high)
        for place, stored in self.view.range(key_row(low or b""), last, reverse=reverse):
            if place.startswith(KEY_ROW):
                yield place[1:], _sessions(stored)

    def ending(
        self, from_: int = TIME_MIN, to: int = TIME_MAX
    ) -> Iterator[tuple[bytes, int, int, Any]]:
        """Iterate over (record key, start, end, row) with from_ <= end <= to.

        They are ordered by end, then by key, then by start. Nothing is changed.
        """
        found = [
            (key, start, end, row)
            for key, stored in self._due(to)
            for start, end, row in _sessions(stored)
            if from_ <= end <= to
        ]
        found.sort(key=lambda session: (session[2], session[0], session[1]))
        return iter(found)

    def first_due(self) -> int | None:
        """Return a time at or below the first end of all sessions, or None."""
        row = first_row(self.view)
        return None if row is None else unpack_time(row[0])

    def settle(self, bound: int, floor: int = TIME_MIN) -> list[tuple[bytes, int, int, Any]]:
        """Return (record key, start, end, row) of the sessions that end below ``bound``.

        Those that end below ``floor`` are removed, and due times are moved to the sessions that are
        left, so that keys with long sessions are not looked at each time that time advances.
        """
        rows: dict[bytes, bytes | None] = {}
        ended: list[tuple[bytes, int, int, Any]] = []
        for key, stored in self._due(max(bound, floor) - 1):
            sessions = _sessions(stored)
            kept: list[Session] = []
            for session in sessions:
                start, end, row = session
                if end < bound:
                    ended.append((key, start, end, row))
                if end >= floor:
                    kept.append(session)
            if len(kept) < len(sessions) or kept[0][1] >= bound or unpack_time(stored) < floor:
                self._write(rows, key, stored, kept, move=True)
        self.view.put_many(rows)
        return ended

    def expire_before(self, bound: int) -> int:
        """Remove the sessions that end below ``bound``; return how many there were."""
        rows: dict[bytes, bytes | None] = {}
        count = 0
        for key, stored in self._due(bound - 1):
            sessions = _sessions(stored)
            kept = [session for session in sessions if session[1] >= bound]
            count += len(sessions) - len(kept)
            self._write(rows, key, stored, kept, move=True)
        self.view.put_many(rows)
        return count

    def _due(self, to: int) -> list[tuple[bytes, bytes]]:
        """Return the due keys, with their rows."""
        keys = [mark[TIME_BYTES:] for mark, _ in time_rows(self.view, to=to)]
        due: list[tuple[bytes, bytes]] = []
        for key, stored in zip(keys, self.view.getmulti(key_rows(keys)), strict=True):
            assert stored is not None, key
            due.append((key, stored))
        return due
