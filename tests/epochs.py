"""Records in epochs of chosen sizes, and what came out of them: for tests against models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from mustela import TopologyTestDriver

__all__ = ["by_key", "cut", "ms", "pipe", "pipe_in_epochs"]

R = TypeVar("R")


class Record(Protocol):
    """A record that a test sends."""

    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def timestamp(self) -> int: ...


def ms(count: int) -> timedelta:
    """Return so many milliseconds."""
    return timedelta(milliseconds=count)


def by_key(rows: Iterable[tuple[Any, Any, int]]) -> dict[Any, list[tuple[Any, int]]]:
    """Return value and time of rows by their key: order holds within a key."""
    found: dict[Any, list[tuple[Any, int]]] = defaultdict(list)
    for key, value, timestamp in rows:
        found[key].append((value, timestamp))
    return dict(found)


def cut(records: Sequence[R], sizes: Iterable[int] | None) -> list[Sequence[R]]:
    """Cut records into epochs of these sizes; what is left is one more.

    Without sizes each record is in an epoch of its own.

    Example:
        >>> cut("abcde", [2, 1, 9])
        ['ab', 'c', 'de']
    """
    if sizes is None:
        sizes = [1] * len(records)
    parts: list[Sequence[R]] = []
    start = 0
    for size in sizes:
        parts.append(records[start : start + size])
        start += size
    parts.append(records[start:])
    return [part for part in parts if part]


def pipe(driver: TopologyTestDriver, record: Record, topic: str) -> None:
    """Send a record."""
    piped = driver.create_input_topic(topic)
    piped.pipe_input(record.key, record.value, timestamp=record.timestamp)


def pipe_in_epochs(
    driver: TopologyTestDriver, epochs: Iterable[Iterable[Any]], *, topic: str | None = None
) -> None:
    """Send records, those of an epoch together; each to its own topic if none is said."""
    for epoch in epochs:
        with driver.epoch():
            for record in epoch:
                pipe(driver, record, topic or record.topic)
