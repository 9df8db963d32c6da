"""Which partition each row goes to, as Kafka's own producers choose it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from mustela.connectors.kafka.columns import Columns
from mustela.connectors.kafka.writers.batches import Rows
from mustela.connectors.kafka.writers.hashing import partitions_of
from mustela.model import Headers
from mustela.plan.columns import picked
from mustela.plan.partitions import partition_of

__all__ = ["Joined", "Origin", "Placing", "joined"]

_TURN_ROWS = 1_000
"""So many rows without a key go to one partition before the next one gets some."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows were before they were sorted by partition.

    Attributes:
        tag: What the caller gave with them.
        columns: Where they were.
        index: Their indices there.
    """

    tag: object
    columns: Columns
    index: Sequence[int]

    def row(self, at: int) -> int:
        """Return the index by which the caller knows a row."""
        return self.columns.original(self.index[at])


@dataclass(frozen=True, slots=True)
class Joined:
    """Where rows were before several parts became one.

    Attributes:
        starts: The first row of each part.
        tags: What each part had as its tag.
    """

    starts: Sequence[int]
    tags: Sequence[object]

    def find(self, at: int) -> tuple[object, int]:
        """Return the tag of a row's part, and the row's index in it."""
        part = bisect_right(self.starts, at) - 1
        return self.tags[part], at - self.starts[part]


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several parts for one partition as one; their tag is a `Joined`."""
    if len(parts) == 1:
        return parts[0]
    stamps: list[int] = []
    headers: list[Headers] = []
    for part in parts:
        count, times = len(part.values), part.timestamps
        stamps += [times] * count if isinstance(times, int) else times
        headers += part.headers if part.headers is not None else [()] * count
    starts = [0, *accumulate(len(part.values) for part in parts[:-1])]
    return Rows(
        [key for part in parts for key in part.keys],
        [value for part in parts for value in part.values],
        stamps,
        headers if any(part.headers is not None for part in parts) else None,
        Joined(starts, [part.tag for part in parts]),
    )


class Placing:
    """Sorts rows by topic and partition; the rows of a partition stay in order.

    Args:
        count: Returns how many partitions a topic has.

    Example:
        >>> placing = Placing(lambda topic: 4)
        >>> columns = Columns(topics="paths", keys=[b"os.py", b"21", b"os.py"], values=[b""] * 3)
        >>> {place: rows.keys for place, rows in placing.sorted(columns, "tag", now_ms=7)}
        {('paths', 0): [b'21'], ('paths', 1): [b'os.py', b'os.py']}
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._keyless = 0

    def sorted(
        self, columns: Columns, tag: object, *, now_ms: int
    ) -> Iterator[tuple[tuple[str, int], Rows]]:
        """Yield the rows of each partition.

        Args:
            columns: The rows.
            tag: Comes back in `Origin.tag`.
            now_ms: The time of rows without one.
        """
        headers, times = _headers(columns), columns.timestamps
        # One behind the other: those that stand in a file are read faster so.
        values = columns.values if isinstance(columns.values, list) else [*columns.values]
        if times and min(times) < 1:
            times = [max(1, time) for time in times]
        for place, index in self._indices(columns).items():
            rows = Rows(
                picked(columns.keys, index),
                picked(values, index),
                now_ms if times is None else picked(times, index),
                None if headers is None else picked(headers, index),
                Origin(tag, columns, index),
            )
            yield place, rows

    def _indices(self, columns: Columns) -> dict[tuple[str, int], Sequence[int]]:
        topics = columns.topics
        if isinstance(topics, str):
            return self._of_topic(topics, columns, range(len(columns)))
        by_topic: dict[str, list[int]] = {}
        for at, topic in enumerate(topics):
            if topic in by_topic:
                by_topic[topic].append(at)
            else:
                by_topic[topic] = [at]
        found: dict[tuple[str, int], Sequence[int]] = {}
        for topic, index in by_topic.items():
            found |= self._of_topic(topic, columns, index)
        return found

    def _of_topic(
        self, topic: str, columns: Columns, index: Sequence[int]
    ) -> dict[tuple[str, int], Sequence[int]]:
        """Return the indices of each partition's rows among those of a topic."""
        partitions, keys = columns.partitions, columns.keys
        if isinstance(partitions, int):
            return {(topic, partitions): index}
        if len(index) < len(keys):
            keys = picked(keys, index)
        if partitions is None and None not in keys:
            return self._by_key(topic, keys, index)
        found: dict[tuple[str, int], list[int]] = {}
        count = 0
        for at, key in zip(index, keys, strict=True):
            chosen = None if partitions is None else partitions[at]
            if chosen is None:
                count = count or self._count(topic)
                chosen = self._next(count) if key is None else partition_of(key, count)
            found.setdefault((topic, chosen), []).append(at)
        return {**found}

    def _by_key(
        self, topic: str, keys: Sequence[Any], index: Sequence[int]
    ) -> dict[tuple[str, int], Sequence[int]]:
        count = self._count(topic)
        buckets: list[list[int]] = [[] for _ in range(count)]
        for at, chosen in zip(index, partitions_of(keys, count), strict=True):
            buckets[chosen].append(at)
        return {(topic, number): own for number, own in enumerate(buckets) if own}

    def _next(self, count: int) -> int:
        self._keyless += 1
        return self._keyless // _TURN_ROWS % count


def _headers(columns: Columns) -> Sequence[Headers] | None:
    """Return the headers of each row; what is the same for several rows is one object."""
    own, header = columns.headers, columns.header
    if header is None:
        return own
    if own is None:
        return [(header,)] * len(columns)
    made: list[Headers] = []
    last, both = None, ()
    for some in own:
        if some is not last:
            last, both = some, (*some, header)
        made.append(both)
    return made
