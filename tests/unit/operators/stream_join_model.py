"""The join of two streams in plain Python, record by record, as Kafka Streams does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mustela.serdes.primitives import IntSerde

__all__ = [
    "Came",
    "Result",
    "StreamJoinModel",
    "WatermarkJoinModel",
    "in_merged_order",
    "with_order_times",
]

_KEY = IntSerde()
LEFT, RIGHT = 0, 1


class Came(NamedTuple):
    """A record of one side."""

    side: int
    key: int | None
    value: str | None
    timestamp: int


class Result(NamedTuple):
    """A result, with both values as the joiner got them."""

    key: int | None
    left: str | None
    right: str | None
    timestamp: int


@dataclass(slots=True)
class _Group:
    """One key group: what Kafka Streams calls a task."""

    kept: tuple[list[Came], list[Came]] = field(default_factory=lambda: ([], []))
    newest: list[int] = field(default_factory=lambda: [-1, -1])
    now: int = -1
    # By (timestamp, right before left, key): the values that wait.
    waiting: dict[tuple[int, int, bytes], list[str]] = field(default_factory=dict)
    first: int | None = None


class StreamJoinModel:
    """A join.

    Args:
        kind: inner, left or outer.
        before: How much older the right record may be.
        after: How much younger it may be.
        grace: How long a record without a partner waits.
        group_of: The key group of a key.
    """

    def __init__(
        self,
        kind: Literal["inner", "left", "outer"],
        *,
        before: int,
        after: int,
        grace: int,
        group_of: Callable[[bytes], int] = lambda _key: 0,
    ) -> None:
        self.outer = (kind != "inner", kind == "outer")
        self.older = (before, after)
        self.younger = (after, before)
        self.grace = grace
        self.retention = before + after + grace
        self.group_of = group_of
        self.groups: dict[int, _Group] = {}

    def all(self, records: Iterable[Came]) -> list[Result]:
        """Handle records in order."""
        return [result for record in records for result in self.one(record)]

    def one(self, record: Came) -> list[Result]:
        """Handle one record."""
        side, key, value, time = record
        number = 0 if key is None else self.group_of(_bytes(key))
        group = self.groups.setdefault(number, _Group())
        group.now = max(group.now, time)
        if key is None or value is None:
            alone = key is None and value is not None and self.outer[side]
            return [self.result(record, None)] if alone else []
        found: list[Result] = []
        if time == group.now and any(self.outer):
            found += self.close(group, side)
        low = max(0, time - self.older[side], group.newest[1 - side] - self.retention + 1)
        high = max(0, time + self.younger[side])
        others = [o for o in group.kept[1 - side] if o.key == key and low <= o.timestamp <= high]
        others.sort(key=lambda other: other.timestamp)
        for other in others:
            group.waiting.pop(self.place(other), None)
            found.append(self.result(record, other))
        if not others and self.outer[side]:
            if high < group.now:
                found.append(self.result(record, None))
            else:
                group.waiting.setdefault(self.place(record), []).append(value)
                group.first = time if group.first is None else min(group.first, time)
        group.kept[side].append(record)
        group.newest[side] = max(group.newest[side], time)
        return found

    def close(self, group: _Group, side: int) -> list[Result]:
        """Return the results of windows that are over, where Kafka Streams looks for them."""
        if group.first is None or group.first + self.younger[side] + self.grace >= group.now:
            return []
        found: list[Result] = []
        open_sides: set[int] = set()
        group.first = None
        for place, values in sorted(group.waiting.items()):
            time, rank, key = place
            mine = 1 - rank
            for value in values:
                group.first = time
                if len(open_sides) == 2:
                    return found
                if time + self.younger[mine] + self.grace >= group.now:
                    open_sides.add(mine)
                    continue
                number = _KEY.deserialize(key)
                found.append(self.result(Came(mine, number, value, time), None))
                group.waiting.pop(place, None)
        return found

    @staticmethod
    def place(record: Came) -> tuple[int, int, bytes]:
        assert record.key is not None
        return record.timestamp, 1 - record.side, _bytes(record.key)

    @staticmethod
    def result(record: Came, other: Came | None) -> Result:
        values = [record.value, None if other is None else other.value]
        if record.side == RIGHT:
            values.reverse()
        time = record.timestamp if other is None else max(record.timestamp, other.timestamp)
        return Result(record.key, values[0], values[1], time)


def _bytes(key: int) -> bytes:
    data = _KEY.serialize(key)
    assert data is not None
    return data


def in_merged_order(epochs: Sequence[Sequence[Came]]) -> list[Came]:
    """Return records in the order in which epochs of them are handled.

    Each side is a topic of one partition; the head record with the lowest running maximum of
    timestamps comes first, of equal ones the left.
    """
    floors, handled = [-1, -1], list[Came]()
    for epoch in epochs:
        order: list[tuple[int, int, int, Came]] = []
        for number, record in enumerate(epoch):
            floors[record.side] = max(floors[record.side], record.timestamp)
            order.append((floors[record.side], record.side, number, record))
        handled += [record for _, _, _, record in sorted(order, key=lambda one: one[:3])]
    return handled


class WatermarkJoinModel:
    """A join by watermark: one time for all keys, and nothing is lost that is on time.

    Args:
        kind: inner, left or outer.
        before: How much older the right record may be.
        after: How much younger it may be.
        grace: How long a record without a partner waits.
    """

    def __init__(
        self, kind: Literal["inner", "left", "outer"], *, before: int, after: int, grace: int
    ) -> None:
        self.outer = (kind != "inner", kind == "outer")
        self.older = (before, after)
        self.younger = (after, before)
        self.grace = grace
        self.kept_for = max(before, after, before + after) + grace
        self.kept: tuple[list[Came], list[Came]] = ([], [])
        self.waiting: list[Came] = []

    def all(self, records: Iterable[tuple[int, Came]]) -> list[Result]:
        """Handle records with the time at which each is judged, and then the end of time."""
        found: list[Result] = []
        for now, record in records:
            found += self.one(now, record)
        return found + self.close(1 << 60)

    def one(self, now: int, record: Came) -> list[Result]:
        """Handle one record."""
        side, key, value, time = record
        found = self.close(now)
        if value is None:
            return found
        if key is None:
            return found + ([StreamJoinModel.result(record, None)] if self.outer[side] else [])
        low = max(0, time - self.older[side], now - self.kept_for)
        high = time + self.younger[side]
        others = [o for o in self.kept[1 - side] if o.key == key and low <= o.timestamp <= high]
        others.sort(key=lambda other: other.timestamp)
        for other in others:
            found.append(StreamJoinModel.result(record, other))
        self.waiting = [one for one in self.waiting if one not in others]
        if not others and self.outer[side]:
            if high < now:
                found.append(StreamJoinModel.result(record, None))
            else:
                self.waiting.append(record)
        self.kept[side].append(record)
        return found

    def close(self, now: int) -> list[Result]:
        """Return the results of windows that are over: by their end, then right before left."""
        over = [one for one in self.waiting if self.end(one) < now]
        self.waiting = [one for one in self.waiting if self.end(one) >= now]
        over.sort(key=lambda one: (self.end(one), 1 - one.side, _bytes(one.key or 0)))
        return [StreamJoinModel.result(one, None) for one in over]

    def end(self, record: Came) -> int:
        return record.timestamp + self.younger[record.side] + self.grace


def with_order_times(records: Sequence[Came]) -> list[tuple[int, Came]]:
    """Return records in merged order, each with its place in time."""
    floors, placed = [-1, -1], list[tuple[int, int, int, Came]]()
    for number, record in enumerate(records):
        floors[record.side] = max(floors[record.side], record.timestamp)
        placed.append((floors[record.side], record.side, number, record))
    placed.sort(key=lambda one: one[:3])
    return [(place[0], place[3]) for place in placed]
