"""The results of a stream-stream join, as they are found: key group by key group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from operator import le

from mustela.kernel.joins.stream_join_part import Part
from mustela.kernel.joins.stream_join_waiting import Closed
from mustela.plan.columns import picked

__all__ = ["JoinResults"]


@dataclass(slots=True)
class JoinResults:
    """Results being built, as columns.

    Attributes:
        places: The place in merged order of the row that caused each.
        others: The partner's value as bytes, or None.
        times: Timestamps.
        rows: Once they are in order, the row that caused each; for a closed window's result, -1
            minus its place in `closed`.
        closed: The closed windows with results, each with the row that closed it, or -1.
        closed_places: The place of the row before whose results each of them comes.
        closed_times: Their timestamps.
    """

    places: list[int] = field(default_factory=list[int])
    others: list[bytes | None] = field(default_factory=list[bytes | None])
    times: list[int] = field(default_factory=list[int])
    rows: list[int] = field(default_factory=list[int])
    closed: list[tuple[Closed, bytes, int]] = field(default_factory=list[tuple[Closed, bytes, int]])
    closed_places: list[int] = field(default_factory=list[int])
    closed_times: list[int] = field(default_factory=list[int])

    def add_alone(self, place: int, time: int) -> None:
        """Add the result of a row without a partner."""
        self.places.append(place)
        self.others.append(None)
        self.times.append(time)

    def add_pairs(self, part: Part, rows: list[int], partners: list[int]) -> None:
        """Add the results of rows with one partner each, both from the same part."""
        self.places += picked(part.places, rows)
        self.others += picked(part.values, partners)
        self.times.extend(map(max, picked(part.times, rows), picked(part.times, partners)))

    def add_closed(self, closed: Closed, cause: int, time: int, place: int) -> None:
        """Add the records of a closed window."""
        for value in closed.values:
            self.closed.append((closed, value, cause))
            self.closed_places.append(place)
            self.closed_times.append(time)

    def put_in_order(self, order: Sequence[int]) -> None:
        """Set `rows`, and put the columns in merged order.

        Args:
            order: The rows in merged order.
        """
        rows, count = picked(order, self.places), len(self.closed)
        places, others, times = self.places, self.others, self.times
        if count:
            places = self.closed_places + places
            rows = [*range(-1, -1 - count, -1), *rows]
            others = [*repeat(None, count), *others]
            times = self.closed_times + times
        if not all(map(le, places, islice(places, 1, None))):
            index = sorted(range(len(places)), key=places.__getitem__)
            rows, others, times = picked(rows, index), picked(others, index), picked(times, index)
        self.rows, self.others, self.times = rows, others, times
