"""A step that the planner adds: it keeps only the last change of each key in an epoch."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.topology.node import Node

__all__ = ["SettleNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleNode(Node):
    """One change for each key and epoch, of a table that forwards every change.

    A table forwards every change if a later join looks rows up as of a moment. Its other readers
    read it through this step, and see what they would see without the join.
    """
