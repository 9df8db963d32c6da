"""What programs of tables and of time must write: table joins, sessions, suppression, timers."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.broker import BASE_MS
from tests.simulation.oracle import CountOracle, Found, Merge, Oracle, Read, Rows, number

__all__ = [
    "CallOracle",
    "HeldBackOracle",
    "SessionOracle",
    "TableOracle",
    "TickOracle",
    "TimerOracle",
]

Table = dict[bytes, bytes]
Session = tuple[int, int]


class TableOracle(Oracle):
    """A table that is made of two tables: what is told of a key last is what it has.

    A key that has changed is told; one that has come to the same again may be told or not.

    Args:
        view: Makes the table from the two.
        touches: Says which keys of the result a change of a row may tell of.
    """

    def __init__(
        self,
        view: Callable[[Table, Table], Table],
        touches: Callable[[Table, Table, int, bytes], list[bytes]],
    ) -> None:
        self._view = view
        self._touches = touches
        self._merge = Merge("in", "side")
        self._tables: tuple[Table, Table] = ({}, {})
        self._told: Table = {}

    def wrong(self, read: Read, watermark: int, found: Found) -> list[tuple[object, ...]]:
        """Return what an epoch told wrongly."""
        touched: set[bytes] = set()
        for _, side, entry in self._merge.records(read):
            key, table = entry.key or b"", self._tables[side]
            touched.update(self._touches(*self._tables, side, key))
            if entry.value is None:
                table.pop(key, None)
            else:
                table[key] = entry.value
            touched.update(self._touches(*self._tables, side, key))
        before, after = self._told, self._view(*self._tables)
        self._told = after
        wrong: list[tuple[object, ...]] = []
        for key in sorted(touched | before.keys() | after.keys()):
            rows = found.pop(("out", key), [])
            is_right = before.get(key) == after.get(key)
            if rows:
                is_right = rows[-1] == after.get(key) and key in touched
            if not is_right:
                wrong.append((key, rows, after.get(key)))
        return [*wrong, *found.items()]


class SessionOracle(Oracle):
    """Counts by key and session, each change at once or each session once when it is over."""

    def __init__(self, gap_ms: int, grace_ms: int, *, final: bool) -> None:
        self._gap = gap_ms
        self._grace = grace_ms
        self._final = final
        self._merge = Merge("in")
        self._sessions: dict[bytes, dict[Session, int]] = {}

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        before = {key: dict(mine) for key, mine in self._sessions.items()}
        for _, _, entry in self._merge.records(read):
            mine = self._sessions.setdefault(entry.key or b"", {})
            start = end = entry.timestamp
            count = 1
            for low, high in sorted(mine):
                if low - self._gap <= end and high + self._gap >= start:
                    start, end = min(low, start), max(high, end)
                    count += mine.pop((low, high))
            mine[start, end] = count
        rows: Rows = {}
        for key, mine in self._sessions.items():
            known = before.get(key, {})
            if self._final:
                for session in [s for s in mine if s[1] + self._gap + self._grace < watermark]:
                    rows[self._row(key, session)] = [number(mine.pop(session))]
                continue
            for session in known.keys() | mine.keys():
                if known.get(session) != mine.get(session):
                    count = mine.get(session)
                    rows[self._row(key, session)] = [None if count is None else number(count)]
        return rows

    @staticmethod
    def _row(key: bytes, session: Session) -> tuple[str, bytes]:
        return "out", b"%s@%d-%d" % (key, session[0] - BASE_MS, session[1] - BASE_MS)

    def overdue(self, newest: int) -> list[bytes]:
        """Return the keys of sessions that are over and were not told."""
        if not self._final:
            return []
        return [
            key
            for key, mine in self._sessions.items()
            for _, end in mine
            if end + self._gap + self._grace < newest
        ]


class HeldBackOracle(Oracle):
    """Counts by key that are held back for a time: of each the last one goes on."""

    def __init__(self, wait_ms: int) -> None:
        self._wait = wait_ms
        self._merge = Merge("in")
        self._counts: dict[bytes, int] = {}
        self._newest: dict[bytes, int] = {}
        self._due: dict[bytes, int] = {}

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        came: dict[bytes, None] = {}
        for _, _, entry in self._merge.records(read):
            key = entry.key or b""
            self._counts[key] = self._counts.get(key, 0) + 1
            self._newest[key] = max(self._newest.get(key, -1), entry.timestamp)
            came[key] = None
        for key in came:
            self._due.setdefault(key, self._newest[key] + self._wait)
        over = [key for key, due in self._due.items() if due <= watermark]
        for key in over:
            del self._due[key]
        return {("out", key): [number(self._counts[key])] for key in over}

    def overdue(self, newest: int) -> list[bytes]:
        """Return the keys that still wait."""
        return [key for key, due in self._due.items() if due <= newest]


class TimerOracle(Oracle):
    """A timer of each key fires once, so long after the key's last record, and tells its count."""

    def __init__(self, wait_ms: int) -> None:
        self._wait = wait_ms
        self._merge = Merge("in")
        self._counts: dict[bytes, int] = {}
        self._due: dict[bytes, int] = {}

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        rows: Rows = {}
        for _, _, entry in self._merge.records(read):
            key = entry.key or b""
            self._counts[key] = self._counts.get(key, 0) + 1
            self._due[key] = entry.timestamp + self._wait
        self._fire(rows, watermark)
        return rows

    def _fire(self, rows: Rows, now: int) -> None:
        for key in [key for key, due in self._due.items() if due <= now]:
            del self._due[key]
            rows.setdefault(("out", key), []).append(number(self._counts[key]))

    def overdue(self, newest: int) -> list[bytes]:
        """Return the keys whose timers have not fired."""
        return [key for key, due in self._due.items() if due <= newest]


class TickOracle(Oracle):
    """Counts that are told when the clock ticks: each row is a count of before or of now."""

    def __init__(self) -> None:
        self._counts = CountOracle()

    def wrong(self, read: Read, watermark: int, found: Found) -> list[tuple[object, ...]]:
        """Return what an epoch told wrongly."""
        before = dict(self._counts.totals)
        self._counts.touched(read)
        wrong: list[tuple[object, ...]] = []
        for (topic, key), rows in found.items():
            known = {before.get(key or b""), self._counts.totals.get(key or b"")} - {None}
            allowed = [number(count) for count in known if count is not None]
            wrong += [(topic, key, row, allowed) for row in rows if row not in allowed]
        return wrong


class CallOracle(Oracle):
    """What a call to the outside makes of each record, once, in the order of a key's records."""

    def __init__(self) -> None:
        self._merge = Merge("in")
        self._waiting: dict[bytes, list[bytes]] = {}

    def wrong(self, read: Read, watermark: int, found: Found) -> list[tuple[object, ...]]:
        """Return what an epoch told wrongly: results that nobody waits for, or not yet."""
        for _, _, entry in self._merge.records(read):
            if entry.value is not None:
                self._waiting.setdefault(entry.key or b"", []).append(entry.value.upper())
        wrong: list[tuple[object, ...]] = []
        for (topic, key), rows in found.items():
            waiting = self._waiting.get(key or b"", [])
            if rows != waiting[: len(rows)]:
                wrong.append((topic, key, rows, waiting))
            del waiting[: len(rows)]
        return wrong

    def left(self) -> list[bytes]:
        """Return the keys of records that have no result."""
        return [key for key, waiting in self._waiting.items() if waiting]
