"""Aggregations in sessions, which grow with their records and merge when they meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from mustela.api.window_specs import SessionWindowSpec
from mustela.kernel.aggregates.watched import watched
from mustela.kernel.windows.window_aggregate import make_window_fold
from mustela.kernel.windows.window_cells import ChangedWindows, WindowCell
from mustela.kernel.windows.window_close import WindowCloser
from mustela.kernel.windows.window_headers import WindowHeaders
from mustela.kernel.windows.window_updates import WindowOperator
from mustela.plan.batch import Batch
from mustela.state.kinds.session import SessionRows
from mustela.state.kinds.window import window_keys
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["SessionAggregateOperator"]

_TIMES = Struct(">qq")

Merge = Callable[[Any, Any, Any], Any]
"""(key, aggregate so far, aggregate of a session) -> aggregate."""


def make_merge(node: WindowAggregateNode) -> Merge:
    """Return the function that adds a session's aggregate to that of a record."""
    if node.kind == "count":
        return lambda _key, total, more: more if total is None else total + more
    if node.kind == "reduce":
        adder = node.adder
        assert adder is not None
        add = watched(adder, node.name)
        return lambda _key, total, more: more if total is None else add(total, more)
    assert node.merger is not None
    return node.merger


def make_session_fold(node: WindowAggregateNode) -> Merge:
    """Return the function that adds a record to the merged aggregate of its sessions.

    An aggregate that the merger has made None stays None: the initializer runs once per session.
    """
    adder, adders = node.adder, node.adders
    if node.kind != "aggregate":
        return make_window_fold(node, partials=False)
    if len(adders) < 2:
        assert adder is not None, node.name
        return watched(adder, node.name)

    adders = tuple(watched(one, node.name) for one in adders)

    def fold(key: Any, tagged: tuple[int, Any], total: Any) -> Any:
        parent, value = tagged
        return adders[parent](key, value, total)

    return fold


class SessionAggregateOperator(WindowOperator):
    """Sessions of a key: a record within the gap of a session extends it.

    A closed session takes no more records, whether it is still in the store or not, so that results
    depend neither on how long a session is kept nor on where epochs are cut. Only with stream time
    can a closed session that is still kept merge with an open one, as in Kafka Streams, unless
    sessions are emitted on close: final results stay final.
    """

    def open(self) -> None:
        """Prepare the merging of sessions."""
        super().open()
        windows = self.node.windows
        assert isinstance(windows, SessionWindowSpec)
        self.skips_null_values = False
        self._gap = windows.gap_ms
        self._lasting = windows.gap_ms + windows.grace_ms
        self._in_sight = self._lasting
        if self.node.emit != "close":
            retained = self.node.store.retention_ms or 0
            kept_ms = self._clock.kept_ms(needed=self._lasting, retained=retained)
            self._in_sight = max(self._lasting, kept_ms)
        self._merge = self.tried(make_merge(self.node))
        self._fold = self.tried(make_session_fold(self.node))
        self._initializer = self.node.initializer or (lambda: None)
        self._sessions: dict[bytes, list[WindowCell]] = {}
        self._last_headers = WindowHeaders.opened(self.node, self.context.state)
        self._closer = WindowCloser(
            self, self._store, self._clock, self._codec, headers=self._last_headers
        )

    def load(self, batch: Batch, key_bytes: Sequence[bytes], times: Sequence[int]) -> None:
        """Fetch all sessions of the records' keys."""
        del batch, times
        names = list(dict.fromkeys(key_bytes))
        self._sessions = sessions = dict[bytes, list[WindowCell]]()
        self._routes = self._store.by_group(names)
        cells: list[WindowCell] = []
        for view, places in self._routes:
            keys = [names[place] for place in places]
            for name, rows in zip(keys, SessionRows(view).load_many(keys), strict=True):
                mine = [
                    WindowCell(name, start, end, None, end, raw, raw) for start, end, raw in rows
                ]
                sessions[name] = mine
                cells += mine
        self._names = names
        self._decode(cells)

    def _decode(self, cells: Sequence[WindowCell]) -> None:
        values = self._codec.decode_many([cell.raw for cell in cells])[0]
        for cell, value in zip(cells, values, strict=True):
            cell.value = value

    def add(self, row: int, name: bytes, key: Any, value: Any, time: int, now: int) -> int:
        """Merge the record and the sessions that it touches into one session."""
        low, high = max(time - self._gap, now - self._in_sight), time + self._gap
        sessions = self._sessions[name]  # by end, and therefore by start: they do not overlap
        last = len(sessions)
        while last and sessions[last - 1].start > high:
            last -= 1
        first = last
        while first and sessions[first - 1].end >= low:
            first -= 1
        found = sessions[first:last]
        start = min(time, found[0].start) if found else time
        end = max(time, found[-1].end) if found else time
        if end < now - self._lasting:
            return 1
        total = self._initializer()
        for session in found:
            total = self._merge(key, total, session.value)
        total = self._fold(key, value, total)
        alone = len(found) == 1 and found[0].before is None
        if alone and total is not None and not self._stepwise:
            cell = found[0]  # that session has not been forwarded yet: it just grows
            cell.start, cell.end, cell.time, cell.value = start, end, end, total
            self.put(row, cell, None)
            return 0
        merged = WindowCell(name, start, end, total, end)
        raw = self.encoded(total, end)  # what cannot be encoded must change nothing
        for session in found:
            if start == end:  # only the record's own timestamp
                merged.raw, merged.before = session.raw, session.before
                self._replaces = True
                continue
            session.value = None
            self.put(row, session, None)
        sessions[first:last] = [] if total is None else [merged]
        self.put(row, merged, raw)
        return 0

    def recover(self, name: bytes) -> None:
        """Decode the key's aggregates again."""
        self._decode(self._sessions[name])

    def save(self, cells: Sequence[WindowCell], changed: ChangedWindows) -> None:
        """Write all sessions of each key that changed."""
        for cell, raw in zip(cells, changed.raws, strict=True):
            cell.raw = raw
        names, sessions = set(changed.names), self._sessions
        for view, places in self._routes:
            rows = {
                name: [(s.start, s.end, s.raw) for s in sessions[name] if s.raw is not None]
                for place in places
                if (name := self._names[place]) in names
            }
            SessionRows(view).save_many(rows)

    def keep_headers(self, batch: Batch, changed: ChangedWindows) -> None:
        """Note the headers of each session's last record; it is found again by its end."""
        if self._last_headers is None:
            return
        last, given = None, batch.headers
        if given is not None:
            rows = zip(changed.rows, changed.values, strict=True)
            last = [() if value is None else given[row] for row, value in rows]
        self._last_headers.keep(window_keys(changed.ends, changed.names), last)

    def forget(self) -> None:
        """Also release the sessions."""
        super().forget()
        self._sessions = {}

    def windowed_bytes(
        self, names: Sequence[bytes], starts: Sequence[int], ends: Sequence[int]
    ) -> list[bytes]:
        """Return key, end and start, as Kafka has it."""
        pack = _TIMES.pack
        return [
            name + pack(end, start) for name, start, end in zip(names, starts, ends, strict=True)
        ]

    def over(self, horizon: int) -> Batch | None:
        """Return the closed sessions, if they are emitted on close; remove expired ones."""
        retention = self.node.store.retention_ms
        if self.node.emit != "close":
            if retention is not None:
                for group in self._store.groups:
                    now = self._clock.closed_until(group)
                    SessionRows(self._store.group(group)).expire_before(now - retention)
            return None
        return self._closer.sessions_over(horizon, retention)

    def due_event_times(self) -> dict[int, int]:
        """Return when the next session of each key group may close."""
        if self.node.emit != "close":
            return {}
        lag = self.step.lag_ms
        due = self._closer.sessions_due(self.horizon())
        return {group: time + lag for group, time in due.items()}
