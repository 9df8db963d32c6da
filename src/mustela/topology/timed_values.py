"""Values together with the times of their records, for folds that go by time."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.topology.node import Node

__all__ = ["TimedValuesNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedValuesNode(Node):
    """Each value becomes (value, timestamp in ms); None stays None."""
