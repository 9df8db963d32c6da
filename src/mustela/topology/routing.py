"""Steps that route records: branches, travel to the lane of a key, printing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.api.options import Partitioner
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.node import Arrival, Node

__all__ = ["BranchNode", "PrintNode", "RepartitionNode", "SplitNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitNode(Node):
    """Give each record to the first branch whose predicate holds; `BranchNode` is a branch.

    Attributes:
        predicates: ``predicate(key, value)`` of each branch, in order.
        default: Whether there is one more branch, for records that match no predicate.
    """

    predicates: tuple[Callable[[Any, Any], Any], ...]
    default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchNode(Node):
    """The records of one branch; reads a `SplitNode`.

    Attributes:
        index: Which of the split's branches; the default branch is the last one.
    """

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionNode(Node):
    """Send records to the lane of their key, whether or not a later step needs it.

    Attributes:
        key: Serde of the keys; None takes the typed default (`mustela.serdes.values`).
        value: Serde of the values, if it is known.
        partitions: The number of partitions with which the partitioner is called.
        partitioner: Optional function that may drop or duplicate a record; see `Partitioner`.
        null_keys: Whether records without a key go on whoever uses them; if not, the planner finds
            out whether a later join has results for them.
    """

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    partitions: int | None = None
    partitioner: Partitioner | None = None
    null_keys: bool = True

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records travel to the lane of their key."""
        key = self.key or ValueSerde(sort_keys=True)
        return (Arrival(key=key, keep_null_keys=self.null_keys),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintNode(Node):
    """Write each record as a line of text; it has no output.

    Attributes:
        label: The beginning of each line.
        path: The file to which lines are appended; None for standard output.
        mapper: Optional ``mapper(key, value)`` that gives the text of a record.
    """

    label: str
    path: str | None = None
    mapper: Callable[[Any, Any], Any] | None = None
