"""What joins and windows must give, worked out from the inputs alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.oracles import Multiset, OutputRecord, table_faults
from benchmarks.records import TimedRecord

_JOIN_MS = 5_000
_WINDOW_MS = 10_000
_GAP_MS = 5_000
_CLOSING = b"closing-"
_NOTHING = b"-"
_JOINED_BYTES = 64
_CUSTOMER_BYTES = 17


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
class ForeignKeyOracle:
    """W3 with two tables: the last row of each order whose customer is known, and no other.

    Changes on the way there are free: the order between two topics is not defined.
    """

    _customers: dict[bytes, bytes] = field(default_factory=dict)
    _orders: dict[bytes, bytes] = field(default_factory=dict)

    def see_side(self, _ending: str, record: TimedRecord) -> None:
        assert record[0] is not None
        self._customers[record[0]] = record[1]

    def see(self, record: TimedRecord) -> None:
        assert record[0] is not None
        self._orders[record[0]] = record[1]

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        expected: dict[bytes, bytes] = {}
        for key, order in self._orders.items():
            row = self._customers.get(order[:_CUSTOMER_BYTES])
            if row is not None:
                expected[key] = order + b"|" + row
        found: dict[bytes, bytes] = {}
        for _, key, value in output:
            if key is None:
                return ["a record without key in the table's output"]
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return table_faults(expected, found)


@dataclass(slots=True, kw_only=True)
class MatchOracle:
    """W4: each order with each payment of its key that lies within the window.

    Attributes:
        orders_alone: Whether an order without a payment is a result too, exactly once.
        payments_alone: Whether a payment without an order is.
    """

    orders_alone: bool = False
    payments_alone: bool = False
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
        expected = self._expected()
        found = Multiset()
        for _, key, value in output:
            if key is None or not key.startswith(_CLOSING):
                found.add(key or b"", value or b"")
        return expected.difference(found)

    def _expected(self) -> Multiset:
        expected = Multiset()
        matched: set[bytes] = set()
        for key, (order, ordered) in self._orders.items():
            payment = self._payments.get(key)
            if payment is not None and abs(payment[1] - ordered) <= _JOIN_MS:
                matched.add(key)
                expected.add(key, order + b"+" + payment[0])
            elif self.orders_alone:
                expected.add(key, order + b"+" + _NOTHING)
        if self.payments_alone:
            for key, (payment, _) in self._payments.items():
                if key not in matched:
                    expected.add(key, _NOTHING + b"+" + payment)
        return expected


_Row = tuple[int, int, int, int]


@dataclass(slots=True, kw_only=True)
class WindowOracle:
    """W5: exactly one row for each key and window that is over: count, sum, smallest, largest.

    Attributes:
        advance_ms: From one window's start to the next one's.
    """

    advance_ms: int = _WINDOW_MS
    _rows: dict[bytes, _Row] = field(default_factory=dict)

    def see(self, record: TimedRecord) -> None:
        key, value, time = record
        assert key is not None
        if key.startswith(_CLOSING):
            return
        start = time // self.advance_ms * self.advance_ms
        while start > time - _WINDOW_MS:
            place = b"%s@%d" % (key, start)
            self._rows[place] = _with(self._rows.get(place), int(value))
            start -= self.advance_ms

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        return _closed_faults(self._rows, output)


@dataclass(slots=True)
class SessionOracle:
    """W5 with sessions: a pause of more than five seconds ends one; one row for each."""

    _numbers: dict[bytes, list[tuple[int, int]]] = field(default_factory=dict)

    def see(self, record: TimedRecord) -> None:
        key, value, time = record
        assert key is not None
        if not key.startswith(_CLOSING):
            self._numbers.setdefault(key, []).append((time, int(value)))

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        rows: dict[bytes, _Row] = {}
        for key, numbers in self._numbers.items():
            for session in _sessions(sorted(numbers)):
                row: _Row | None = None
                for _, number in session:
                    row = _with(row, number)
                assert row is not None, "a session has a record at least"
                rows[b"%s@%d-%d" % (key, session[0][0], session[-1][0])] = row
        return _closed_faults(rows, output)


def _sessions(numbers: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    session: list[tuple[int, int]] = []
    for number in numbers:
        if session and number[0] - session[-1][0] > _GAP_MS:
            yield session
            session = []
        session.append(number)
    yield session


def _with(row: _Row | None, number: int) -> _Row:
    count, total, low, high = row or (0, 0, number, number)
    return count + 1, total + number, min(low, number), max(high, number)


def _closed_faults(rows: dict[bytes, _Row], output: Iterable[OutputRecord]) -> list[str]:
    """What is wrong with rows of which each must be there exactly once."""
    found: dict[bytes, bytes] = {}
    for _, key, value in output:
        if key is None or value is None:
            return ["a record without key or value in the output"]
        if key.startswith(_CLOSING):
            continue
        if key in found:
            return [f"two rows for {key!r}"]
        found[key] = value
    expected = {key: ",".join(map(str, row)).encode() for key, row in rows.items()}
    return table_faults(expected, found)
