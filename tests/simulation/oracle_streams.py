"""What programs of streams must write: joins of streams, versions, branches, new keys."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tests.simulation.broker import Entry
from tests.simulation.oracle import CountOracle, Found, Merge, Oracle, Read, Rows, number

__all__ = [
    "LATER",
    "BranchOracle",
    "GlobalOracle",
    "PairsOracle",
    "TwiceOracle",
    "VersionedOracle",
]

LATER = "side, after the mark"
"""Stands for the records of a global table's topic that a copy may have read, or not."""


class PairsOracle(Oracle):
    """The records of two streams that lie no further apart than a window.

    Args:
        window_ms: How far.
        grace_ms: How long a window waits for late records.
        alone: The sides whose records are also told when they have met nobody.
    """

    def __init__(self, window_ms: int, grace_ms: int, *, alone: Sequence[int] = ()) -> None:
        self._window = window_ms
        self._grace = grace_ms
        self._alone = alone
        self._merge = Merge("in", "side")
        self._known: list[dict[bytes, list[tuple[int, bytes]]]] = [{}, {}]
        self._waiting: dict[bytes, list[tuple[int, int, int, bytes]]] = {}

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        rows: Rows = {}
        for floor, side, entry in self._merge.records(read):
            if entry.value is not None:
                self._meet(rows, min(floor, watermark), side, entry)
        for key in list(self._waiting):
            self._close(rows, key, watermark)
        return rows

    def _meet(self, rows: Rows, now: int, side: int, entry: Entry) -> None:
        key, time, value = entry.key or b"", entry.timestamp, entry.value or b""
        self._close(rows, key, now)
        others = self._known[1 - side].get(key, [])
        met = [other for other in others if abs(other[0] - time) <= self._window]
        out = rows.setdefault(("out", key), [])
        for _, other in sorted(met, key=lambda row: row[0]):
            out.append(value + b"+" + other if side == 0 else other + b"+" + value)
        times = {other[0] for other in met}
        mine = self._waiting.setdefault(key, [])
        mine[:] = [row for row in mine if row[1] == side or row[2] not in times]
        if not met and side in self._alone:
            mine.append((time + self._window + self._grace, side, time, value))
        self._known[side].setdefault(key, []).append((time, value))
        if not out:
            del rows["out", key]

    def _close(self, rows: Rows, key: bytes, now: int) -> None:
        waiting = self._waiting.get(key, [])
        for over in sorted([row for row in waiting if row[0] < now], key=lambda row: row[0]):
            waiting.remove(over)
            shown = over[3] + b"+" if over[1] == 0 else b"+" + over[3]
            rows.setdefault(("out", key), []).append(shown)

    def overdue(self, newest: int) -> list[bytes]:
        """Return what is alone, and was not told."""
        return [key for key, rows in self._waiting.items() for row in rows if row[0] < newest]


class GlobalOracle(Oracle):
    """Each record with a row that a global table had: as of the epoch's mark, or a later one."""

    def __init__(self) -> None:
        self._merge = Merge("in")

    def wrong(self, read: Read, watermark: int, found: Found) -> list[tuple[object, ...]]:
        """Return what an epoch wrote wrongly."""
        known: dict[bytes, dict[int, set[bytes | None]]] = {}
        for partition, entry in read.get("side", ()):
            known.setdefault(entry.key or b"", {})[partition] = {entry.value}
        for partition, entry in read.get(LATER, ()):
            seen = known.setdefault(entry.key or b"", {})
            seen.setdefault(partition, {None}).add(entry.value)
        wrong: list[tuple[object, ...]] = []
        for _, _, entry in self._merge.records(read):
            key, value = entry.key or b"", entry.value or b""
            rows = found.get(("out", key), [])
            held = [row for seen in known.get(key, {}).values() for row in seen]
            joined = {value + b"+" + row for row in held if row is not None}
            told = next((row for row in rows if row in joined), None)
            if told is not None:  # partitions do not wait for each other
                rows.remove(told)
            elif held and None not in held:
                wrong.append((key, rows, value, held))
        return [*wrong, *(item for item in found.items() if item[1])]


class VersionedOracle(Oracle):
    """Each record of a stream with the row that a table had at its time, after a grace period."""

    def __init__(self, grace_ms: int) -> None:
        self._grace = grace_ms
        self._merge = Merge("in", "side")
        self._versions: dict[bytes, list[tuple[int, bytes | None]]] = {}
        self._waiting: list[tuple[int, bytes, bytes]] = []

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        rows: Rows = {}
        for _, side, entry in self._merge.records(read):
            key = entry.key or b""
            if side == 0 and entry.value is not None:
                self._waiting.append((entry.timestamp, key, entry.value))
            elif side == 1:
                versions = self._versions.setdefault(key, [])
                at = bisect_right(versions, entry.timestamp, key=lambda version: version[0])
                versions.insert(at, (entry.timestamp, entry.value))
        over = [row for row in self._waiting if row[0] + self._grace <= watermark]
        self._waiting = [row for row in self._waiting if row[0] + self._grace > watermark]
        for time, key, value in sorted(over, key=lambda row: row[0]):
            versions = self._versions.get(key, [])
            at = bisect_right(versions, time, key=lambda version: version[0])
            found = versions[at - 1][1] if at else None
            if found is not None:
                rows.setdefault(("out", key), []).append(value + b"+" + found)
        return rows

    def overdue(self, newest: int) -> list[bytes]:
        """Return the keys of records that still wait."""
        return [key for time, key, _ in self._waiting if time + self._grace <= newest]


class BranchOracle(Oracle):
    """Two branches that end in one topic: a partition's records leave in their order.

    Where several partitions have records of a key, nothing is said of the order between them.
    """

    def wrong(self, read: Read, watermark: int, found: Found) -> list[tuple[object, ...]]:
        """Return what an epoch wrote wrongly."""
        lines: dict[bytes, dict[int, list[bytes | None]]] = {}
        for partition, entry in read.get("in", ()):
            value = entry.value or b""
            branch = b"low " if value in {b"v0", b"v1"} else b"high "
            mine = lines.setdefault(entry.key or b"", {})
            mine.setdefault(partition, []).append(branch + value)
        wrong: list[tuple[object, ...]] = []
        for key, parts in lines.items():
            rows = found.pop(("out", key), [])
            if not _is_shuffle(rows, [*parts.values()]):
                wrong.append((key, rows, parts))
        return [*wrong, *found.items()]


def _is_shuffle(rows: Sequence[object], lines: Sequence[Sequence[object]]) -> bool:
    """Return whether rows are those of all lines, each line in its order."""
    if len(rows) != sum(map(len, lines)):
        return False
    places = {(0,) * len(lines)}
    for row in rows:
        places = {
            (*place[:n], place[n] + 1, *place[n + 1 :])
            for place in places
            for n, line in enumerate(lines)
            if place[n] < len(line) and line[place[n]] == row
        }
    return bool(places)


class TwiceOracle(Oracle):
    """Counts by value, how many counts leave a remainder, and how many remainders there were."""

    def __init__(self) -> None:
        self._words = CountOracle(lambda entry: [entry.value or b""])
        self._remainders: dict[int, int] = {}
        self._sums: dict[bytes, int] = {}

    def epoch(self, read: Read, watermark: int) -> Rows:
        """Return the rows of an epoch."""
        moved: dict[int, None] = {}
        for word in self._words.touched(read):
            remainder = self._words.totals[word] % 3
            self._remainders[remainder] = self._remainders.get(remainder, 0) + 1
            moved[remainder] = None
        odd: dict[bytes, None] = {}
        for remainder in moved:
            key = b"%d" % (self._remainders[remainder] % 2)
            self._sums[key] = self._sums.get(key, 0) + 1
            odd[key] = None
        return {("out", key): [number(self._sums[key])] for key in odd}
