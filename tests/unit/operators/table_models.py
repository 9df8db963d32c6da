"""Tables in plain Python, record by record, as Kafka Streams does them with its cache off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mustela import TopologyTestDriver
from mustela.topology.graph import TopologyGraph
from tests.epochs import pipe_in_epochs

__all__ = ["Change", "Given", "GroupModel", "JoinModel", "Out", "TableModel", "in_order", "run"]


class Given(NamedTuple):
    """A record of an input."""

    topic: str
    key: Any
    value: Any
    timestamp: int


class Out(NamedTuple):
    """A record of an output."""

    key: Any
    value: Any
    timestamp: int


class Change(NamedTuple):
    """A change of a row."""

    key: Any
    new: Any
    old: Any
    timestamp: int


def in_order(epochs: Sequence[Sequence[Given]]) -> list[Given]:
    """Return the records in the order in which they are processed, epoch by epoch."""
    tops: dict[str, int] = {}
    offsets: dict[str, int] = {}
    found: list[Given] = []
    for epoch in epochs:
        placed: list[tuple[int, str, int, Given]] = []
        for record in epoch:
            topic = record.topic
            tops[topic] = max(tops.get(topic, -1), record.timestamp)
            offsets[topic] = offsets.get(topic, -1) + 1
            placed.append((tops[topic], topic, offsets[topic], record))
        found += [place[3] for place in sorted(placed, key=lambda place: place[:3])]
    return found


def run(
    topology: TopologyGraph, epochs: Sequence[Sequence[Given]], *outputs: str, **options: Any
) -> dict[str, list[Out]]:
    """Return what a topology writes; several records of an epoch are piped together."""
    with TopologyTestDriver(topology, initial_wall_clock=0, **options) as driver:
        pipe_in_epochs(driver, epochs)
        return {
            name: [
                Out(row.key, row.value, row.timestamp)
                for row in driver.create_output_topic(name).read_records_to_list()
            ]
            for name in outputs
        }


class TableModel:
    """A topic as a table, by order of arrival."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.times: dict[Any, int] = {}

    def put(self, record: Given) -> Iterator[Change]:
        """Set a row; a record without a key changes nothing."""
        if record.key is None:
            return
        old = self.rows.pop(record.key, None)
        if record.value is not None:
            self.rows[record.key] = record.value
            self.times[record.key] = record.timestamp
        yield Change(record.key, record.value, old, record.timestamp)


class GroupModel:
    """A re-grouped table and its aggregation."""

    def __init__(
        self,
        mapper: Callable[[Any, Any], tuple[Any, Any] | None],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
    ) -> None:
        self._mapper, self._adder, self._subtractor = mapper, adder, subtractor
        self.rows: dict[Any, tuple[Any, int]] = {}

    def put(self, change: Change) -> Iterator[Change]:
        """Take a change of the table; give the changes of the groups."""
        new, old = self._place(change.key, change.new), self._place(change.key, change.old)
        if new is not None and old is not None and new[0] == old[0]:
            yield self._fold(new[0], new[1], old[1], change.timestamp)
            return
        if old is not None:
            yield self._fold(old[0], None, old[1], change.timestamp)
        if new is not None:
            yield self._fold(new[0], new[1], None, change.timestamp)

    def _place(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        place = None if value is None else self._mapper(key, value)
        return None if place is None or None in place else place

    def _fold(self, group: Any, new: Any, old: Any, time: int) -> Change:
        before, latest = self.rows.get(group, (None, -1))
        total = before
        if old is not None and total is not None:
            total = self._subtractor(group, old, total)
        if new is not None:
            total = self._adder(group, new, total)
        time = max(time, latest)
        if total is None:
            self.rows.pop(group, None)
        else:
            self.rows[group] = total, time
        return Change(group, total, before, time)


class JoinModel:
    """A join by foreign key; every answer comes back before the next record is read."""

    def __init__(
        self,
        kind: str,
        foreign_key: Callable[[Any, Any], Any],
        joiner: Callable[[Any, Any], Any],
    ) -> None:
        self._left_join = kind == "left"
        self._foreign_key, self._joiner = foreign_key, joiner
        self.left: dict[Any, tuple[Any, Any, int]] = {}
        self.right: dict[Any, tuple[Any, int]] = {}

    def put_left(self, change: Change) -> Iterator[Out]:
        """Take a change of the left table."""
        key, new, _, time = change
        before = self.left.pop(key, None)
        if new is None and before is None:
            return
        old_key = None if before is None else before[1]
        mine = None if new is None else self._foreign_key(key, new)
        if new is not None:
            self.left[key] = (new, mine, time)
        if mine in self.right:
            right, right_time = self.right[mine]
            yield Out(key, self._joiner(new, right), max(time, right_time))
        elif self._left_join:
            yield Out(key, None if new is None else self._joiner(new, None), time)
        elif old_key not in (None, mine):
            # A row that refers to nothing is answered by the right row that it referred to.
            yield Out(key, None, max(time, self._time(old_key)) if mine is None else time)

    def put_right(self, change: Change, *, but: Any = None) -> Iterator[Out]:
        """Take a change of the right table; the left row ``but`` is about to answer itself."""
        key, new, _, time = change
        if new is None:
            self.right.pop(key, None)
        else:
            self.right[key] = (new, time)
        for left_key in sorted(self.left):
            left, mine, _ = self.left[left_key]
            if mine == key and left_key != but:
                gone = new is None and not self._left_join
                yield Out(left_key, None if gone else self._joiner(left, new), time)

    def _time(self, key: Any) -> int:
        return self.right[key][1] if key in self.right else -1
