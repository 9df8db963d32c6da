"""What joins and windows must give, worked out from the inputs alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.oracles import Multiset, OutputRecord, table_faults
from benchmarks.records import TimedRecord

_JOIN_MS = 5_000
_WINDOW_MS = 10_000
_CLOSING = b"closing-"
_JOINED_BYTES = 64


@dataclass(slots=True)
class RowJoinOracle:
    """W3: each record with the row of its key, the same for the whole stream, or without one.

    The output's value is the beginning of the record, a bar, and the row.
    """

    _rows: dict[bytes, bytes] = field(default_factory=dict)
    _expected: Multiset = field(default_factory=Multiset)

    def see_side(self, _ending: str, record: TimedRecord) -> None:
        assert record[0] is not None
        self._rows[record[0]] = record[1]

    def see(self, record: TimedRecord) -> None:
        key, value, _ = record
        assert key is not None
        self._expected.add(key, value[:_JOINED_BYTES] + b"|" + self._rows.get(key, b"nobody"))

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        found = Multiset()
        for _, key, value in output:
            found.add(key or b"", value or b"")
        return self._expected.difference(found)


@dataclass(slots=True)
class MatchOracle:
    """W4: each order with each payment of its key that lies within the window."""

    _orders: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    _payments: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)

    def see_side(self, _ending: str, record: TimedRecord) -> None:
        key, value, time = record
        assert key is not None
        self._payments[key] = (value, time)

    def see(self, record: TimedRecord) -> None:
        key, value, time = record
        assert key is not None
        self._orders[key] = (value, time)

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        expected = Multiset()
        for key, (order, ordered) in self._orders.items():
            payment = self._payments.get(key)
            if payment is not None and abs(payment[1] - ordered) <= _JOIN_MS:
                expected.add(key, order + b"+" + payment[0])
        found = Multiset()
        for _, key, value in output:
            found.add(key or b"", value or b"")
        return expected.difference(found)


@dataclass(slots=True)
class WindowOracle:
    """W5: exactly one row for each key and window that is over: count, sum, smallest, largest."""

    _rows: dict[bytes, tuple[int, int, int, int]] = field(default_factory=dict)

    def see(self, record: TimedRecord) -> None:
        key, value, time = record
        assert key is not None
        if key.startswith(_CLOSING):
            return
        number = int(value)
        place = b"%s@%d" % (key, time // _WINDOW_MS * _WINDOW_MS)
        count, total, low, high = self._rows.get(place, (0, 0, number, number))
        self._rows[place] = (count + 1, total + number, min(low, number), max(high, number))

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        found: dict[bytes, bytes] = {}
        for _, key, value in output:
            if key is None or value is None:
                return ["a record without key or value in the output"]
            if key.startswith(_CLOSING):
                continue
            if key in found:
                return [f"two rows for {key!r}"]
            found[key] = value
        return table_faults(
            {key: ",".join(map(str, row)).encode() for key, row in self._rows.items()}, found
        )
