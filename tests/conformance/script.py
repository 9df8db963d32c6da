"""What goes into a topology, and what comes out of it, whatever runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mustela.model import Headers
from mustela.topology.graph import TopologyGraph

__all__ = ["At", "Produced", "Run", "Sent", "Written", "at"]


class Sent(NamedTuple):
    """A record that a case sends."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()


class At(NamedTuple):
    """A moment; see `at`."""

    timestamp: int

    def send(self, topic: str, key: Any, value: Any, headers: Headers = ()) -> Sent:
        """Send a record at this moment."""
        return Sent(topic, key, value, self.timestamp, headers)


def at(timestamp: int) -> At:
    """Name a moment, in milliseconds: ``at(3).send("orders", "apple", 2)``."""
    return At(timestamp)


class Written(NamedTuple):
    """A record that a topology wrote."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    after_input: int
    headers: Headers = ()


@dataclass(slots=True)
class Produced:
    """Everything that a topology wrote.

    Attributes:
        records: The records; order holds within each topic.
        counters: Counts by name, where the engine tells them.
    """

    records: list[Written] = field(default_factory=list[Written])
    counters: dict[str, int] = field(default_factory=dict[str, int])

    def __getitem__(self, topic: str) -> list[tuple[Any, Any]]:
        """Return key and value of each record of a topic."""
        return [(record.key, record.value) for record in self.of(topic)]

    def of(self, topic: str) -> list[Written]:
        """Return the records of a topic."""
        return [record for record in self.records if record.topic == topic]


Run = Callable[[TopologyGraph, Sequence[Sequence[Sent]]], Produced]
"""Runs a topology over epochs of records; ``after_input`` counts records over all epochs."""
