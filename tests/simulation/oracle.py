"""What each program must write, computed from its input in the plainest way.

An oracle is told, epoch by epoch, which records were read and how far the watermark came, and
returns the rows of the epoch. It knows nothing of lanes, stores, pendings or restores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.simulation.broker import BASE_MS, Entry

__all__ = [
    "CountOracle",
    "EachOracle",
    "Found",
    "HistogramOracle",
    "JoinOracle",
    "LastOracle",
    "Merge",
    "Oracle",
    "Read",
    "RenamedOracle",
    "Rows",
    "WindowOracle",
    "number",
]

Read = Mapping[str, Sequence[tuple[int, Entry]]]
"""The records that an epoch read: by topic, each with its partition."""

Rows = dict[tuple[str, bytes], list[bytes | None]]
"""Rows by topic and key, in their order."""

Found = dict[tuple[str, bytes | None], list[bytes | None]]
"""The same, as they stand in the topics."""


def number(value: int) -> bytes:
    """Return a count as it is written."""
    return value.to_bytes(8, "big")


class Oracle:
    """Says what a program must write.

    Attributes:
        stores: The stores that the program has in this epoch.
    """

    stores: frozenset[str] = frozenset()

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        raise NotImplementedError

    def wrong(self, read: Read, watermark: int, found: Found) -> list[tuple[object, ...]]:
        """Return what an epoch wrote wrongly, with what it should have been."""
        expected = self.epoch(read, watermark)
        if found == expected:
            return []
        keys = sorted({*found, *expected}, key=str)
        shown = [(key, found.get(key), expected.get(key)) for key in keys]  # type: ignore[arg-type]
        return [row for row in shown if row[1] != row[2]]

    def overdue(self, newest: int) -> list[bytes]:
        """Return the keys of which something waits that a time of ``newest`` lets go."""
        return []

    def left(self) -> list[bytes]:
        """Return the keys of which something is missing when all input is read."""
        return []


class Merge:
    """The order in which the records of an epoch meet.

    Args:
        topics: The topics, in the order of their names.
    """

    def __init__(self, *topics: str) -> None:
        self._topics = topics
        self._floors: dict[tuple[int, int], int] = {}

    def records(self, read: Read) -> list[tuple[int, int, Entry]]:
        """Return the records of an epoch, each with its order time and the number of its topic."""
        merged: list[tuple[int, int, int, int, Entry]] = []
        for index, topic in enumerate(self._topics):
            for partition, entry in read.get(topic, ()):
                place = index, partition
                floor = max(self._floors.get(place, -1), entry.timestamp)
                self._floors[place] = floor
                merged.append((floor, index, partition, entry.offset, entry))
        merged.sort(key=lambda row: row[:4])
        return [(floor, index, entry) for floor, index, _, _, entry in merged]


class CountOracle(Oracle):
    """One row for each key of an epoch: how often it has come so far.

    Args:
        keys: Which keys a record counts for.
        out: Where the rows go.
    """

    def __init__(
        self, keys: Callable[[Entry], Iterable[bytes]] | None = None, *, out: str = "out"
    ) -> None:
        self._out = out
        self._keys = keys or (lambda entry: [] if entry.value is None else [entry.key or b""])
        self.totals: dict[bytes, int] = {}

    def touched(self, read: Read) -> dict[bytes, None]:
        """Count the records of an epoch; return the keys that came."""
        touched: dict[bytes, None] = {}
        for entries in read.values():
            for _, entry in entries:
                for key in self._keys(entry):
                    self.totals[key] = self.totals.get(key, 0) + 1
                    touched[key] = None
        return touched

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        return {(self._out, key): [number(self.totals[key])] for key in self.touched(read)}


class RenamedOracle(CountOracle):
    """Counts of a program that calls its store something else for a while, and begins anew then."""

    def __init__(self) -> None:
        super().__init__()
        self._of_store: dict[bool, dict[bytes, int]] = {True: {}, False: self.totals}

    def touched(self, read: Read) -> dict[bytes, None]:
        """Count the records of an epoch; return the keys that came."""
        self.totals = self._of_store["renamed" in self.stores]
        return super().touched(read)


class EachOracle(Oracle):
    """A row for each record: how often its key has come so far."""

    def __init__(self, topic: str = "in", out: str = "out") -> None:
        self._merge = Merge(topic)
        self._out = out
        self._counts: dict[bytes, int] = {}

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        rows: Rows = {}
        for _, _, entry in self._merge.records(read):
            key = entry.key or b""
            self._counts[key] = self._counts.get(key, 0) + 1
            rows.setdefault((self._out, key), []).append(number(self._counts[key]))
        return rows


class LastOracle(Oracle):
    """A row for each record: the value under which an index had its key, and its own."""

    def __init__(self) -> None:
        self._merge = Merge("in")
        self._last: dict[bytes, bytes] = {}

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        rows: Rows = {}
        for _, _, entry in self._merge.records(read):
            key, value = entry.key or b"", entry.value or b""
            before = [self._last[key]] if key in self._last else []
            rows.setdefault(("out", key), []).append(b"+".join([*before, value]))
            self._last[key] = value
        return rows


class HistogramOracle(Oracle):
    """How many keys have come how often: a table that is grouped anew, so two lanes in a row."""

    def __init__(self) -> None:
        self._counts = CountOracle()
        self._bars: dict[bytes, int] = {}

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch: one for each bar that a key left or came to."""
        before = dict(self._counts.totals)
        moved: dict[bytes, None] = {}
        for key in self._counts.touched(read):
            old, new = before.get(key), self._counts.totals[key]
            if old is not None:
                bar = b"%d" % old
                self._bars[bar] -= 1
                moved[bar] = None
            bar = b"%d" % new
            self._bars[bar] = self._bars.get(bar, 0) + 1
            moved[bar] = None
        return {("out", bar): [number(self._bars[bar])] for bar in moved}


class WindowOracle(Oracle):
    """Counts by key and window, each change at once or each window once when it is over.

    No record is late here: the world's records carry the time at which they were written.
    """

    def __init__(self, size_ms: int, grace_ms: int, *, final: bool) -> None:
        self._size = size_ms
        self._grace = grace_ms
        self._final = final
        self._counts = CountOracle(self._window)
        self._waiting: dict[bytes, int] = {}

    def _window(self, entry: Entry) -> list[bytes]:
        start = entry.timestamp - entry.timestamp % self._size
        return [b"%s@%d" % (entry.key, start - BASE_MS)]

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        touched = self._counts.touched(read)
        totals = self._counts.totals
        if not self._final:
            return {("out", key): [number(totals[key])] for key in touched}
        for key in touched:
            start = int(key.split(b"@")[1]) + BASE_MS
            self._waiting[key] = start + self._size + self._grace
        over = [key for key, end in self._waiting.items() if end <= watermark]
        for key in over:
            del self._waiting[key]
        return {("out", key): [number(totals[key])] for key in over}

    def overdue(self, newest: int) -> list[bytes]:
        """Return the windows that are over and were not written."""
        return [key for key, end in self._waiting.items() if end <= newest]


class JoinOracle(Oracle):
    """Each record of a stream with the row that a table had at its time."""

    def __init__(self) -> None:
        self._table: dict[bytes, bytes] = {}
        self._merge = Merge("in", "side")

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        rows: Rows = {}
        for _, index, entry in self._merge.records(read):
            if index == 1:
                if entry.value is None:
                    self._table.pop(entry.key or b"", None)
                else:
                    self._table[entry.key or b""] = entry.value
            elif (found := self._table.get(entry.key or b"")) is not None:
                joined = (entry.value or b"") + b"+" + found
                rows.setdefault(("out", entry.key or b""), []).append(joined)
        return rows
