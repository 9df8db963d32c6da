"""Aggregations in sessions, which grow with their records and merge where they meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from struct import Struct
from typing import Any

from mustela.kernel.window_updates import Cell, Place, WindowOperator
from mustela.plan.batch import Batch
from mustela.state.kinds.session import SessionRows
from mustela.topology.window_aggregate import WindowAggregateNode
from mustela.topology.windows import SessionWindowSpec

__all__ = ["SessionAggregateOperator"]

_TIMES = Struct(">qq")
_by_end = attrgetter("end", "start")

Merge = Callable[[Any, Any, Any], Any]
"""(key, aggregate so far, aggregate of a session) -> aggregate."""


def make_merge(node: WindowAggregateNode) -> Merge:
    """Return how a session's aggregate is added to that of a record."""
    if node.kind == "count":
        return lambda _key, total, more: more if total is None else total + more
    if node.kind == "reduce":
        adder = node.adder
        assert adder is not None
        return lambda _key, total, more: more if total is None else adder(total, more)
    assert node.merger is not None
    return node.merger


class SessionAggregateOperator(WindowOperator):
    """Sessions of a key: whoever comes no further than the gap from one extends it.

    A session that is over takes no record any more, whether it is still in the store or not, so
    that results depend neither on how long a session is kept nor on where epochs are cut.
    """

    def open(self) -> None:
        """Prepare the fold of sessions that meet."""
        super().open()
        windows = self.node.windows
        assert isinstance(windows, SessionWindowSpec)
        self.skips_null_values = False
        self._gap = windows.gap_ms
        self._lasting = windows.gap_ms + windows.grace_ms
        self._merge = make_merge(self.node)
        self._initializer = self.node.initializer or (lambda: None)
        self._sessions: dict[bytes, list[Cell]] = {}
        self._changed: set[bytes] = set()

    def load(self, batch: Batch, key_bytes: Sequence[bytes], times: Sequence[int]) -> None:
        """Fetch all sessions of the records' keys."""
        del batch, times
        names = list(dict.fromkeys(key_bytes))
        self._changed = set()
        self._sessions = sessions = dict[bytes, list[Cell]]()
        self._routes = self._store.by_group(names)
        cells: list[Cell] = []
        for view, places in self._routes:
            keys = [names[place] for place in places]
            for name, rows in zip(keys, SessionRows(view).load_many(keys), strict=True):
                mine = [Cell(start, end, None, end, raw) for start, end, raw in rows]
                sessions[name] = mine
                cells += mine
                for cell in mine:
                    self.remember(name, cell)
        self._names = names
        self._decode(cells)

    def _decode(self, cells: Sequence[Cell]) -> None:
        values = self._codec.decode_many([cell.raw for cell in cells])[0]
        for cell, value in zip(cells, values, strict=True):
            cell.value = value

    def add(self, row: int, name: bytes, key: Any, value: Any, time: int, now: int) -> int:
        """Make one session of the record and those that it touches."""
        over, low, high = now - self._lasting, time - self._gap, time + self._gap
        sessions = self._sessions[name]
        found = [s for s in sessions if s.end >= low and s.start <= high and s.end >= over]
        start = end = time
        for session in found:
            start = min(start, session.start)
            end = max(end, session.end)
        if end < over:
            return 1
        total = self._initializer()
        for session in found:
            total = self._merge(key, total, session.value)
        total = self._fold(key, value, total)
        self._replace(row, name, found, Cell(start, end, total, end, None))
        return 0

    def _replace(self, row: int, name: bytes, found: list[Cell], merged: Cell) -> None:
        """Delete the rows of the sessions as they were, and put the session as it is."""
        raw = self.encoded(merged.value, merged.time)  # what has no bytes shall change nothing
        sessions = self._sessions[name]
        kept = [session for session in sessions if session not in found] if found else sessions
        for session in found:
            if merged.start == merged.end:  # the record's own moment, and nothing else
                merged.raw = session.raw
                continue
            session.value = None
            self.put(row, name, session, None)
        if merged.value is not None:
            kept.append(merged)
            kept.sort(key=_by_end)
        self._sessions[name] = kept
        self._changed.add(name)
        self.put(row, name, merged, raw)

    def recover(self, name: bytes) -> None:
        """Decode the key's aggregates anew."""
        self._decode(self._sessions[name])

    def save(self) -> None:
        """Write all sessions of each key that changed."""
        changed, sessions = self._changed, self._sessions
        for view, places in self._routes:
            names = [name for place in places if (name := self._names[place]) in changed]
            rows = {
                name: [(s.start, s.end, s.raw) for s in sessions[name] if s.raw is not None]
                for name in names
            }
            SessionRows(view).save_many(rows)

    def windowed_bytes(self, places: Sequence[Place]) -> list[bytes]:
        """Return key, end and start, as Kafka has it."""
        pack = _TIMES.pack
        return [name + pack(end, start) for name, start, end in places]

    def over(self, horizon: int) -> Batch | None:
        """Return the sessions that are over, if they are told then; remove those kept no longer."""
        emitted, retention = None, self.node.store.retention_ms
        closes = self.node.emit == "close"
        if closes:
            emitted = self._closer.sessions_over(lambda now: now - horizon, horizon)
        for group in self._store.groups:
            now, rows = self._clock.closed_until(group), SessionRows(self._store.group(group))
            if retention is not None:
                rows.expire_before(now - retention)
            if closes:
                rows.settle(now - horizon + 1)
        return emitted

    def due_event_times(self) -> dict[int, int]:
        """Return when the next session of each key group may be over."""
        if self.node.emit != "close":
            return {}
        lag = self.step.lag_ms
        due = self._closer.sessions_due(self.horizon())
        return {group: time + lag for group, time in due.items()}
