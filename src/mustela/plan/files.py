"""Records and rows in files, where an application runs over what there is and not over Kafka.

A source partition is a row of files, each with some of its records in order; a record's offset is
its place. What sinks write goes into files, too, one for each task of an epoch and each sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["LETTERS", "Files", "Segment", "row_place"]

LETTERS = "~letters"
"""Stands for the sink and the topic of dead letters; no topic has such a name."""

_ROW_BITS, _TASK_BITS, _STAGE_BITS = 31, 10, 5


class Segment(NamedTuple):
    """A file with records of one partition.

    Attributes:
        path: The file.
        start: Offset of its first record.
        rows: Number of records.
    """

    path: str
    start: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where a program without a broker reads and writes.

    Attributes:
        inputs: By topic, the segments of each partition, in order.
        output: Directory for the rows of sinks.
    """

    inputs: Mapping[str, tuple[tuple[Segment, ...], ...]] = field(
        default_factory=dict[str, tuple[tuple[Segment, ...], ...]]
    )
    output: str = ""

    def size(self, topic: str) -> int:
        """Return how many records a topic has."""
        return sum(part.rows for parts in self.inputs.get(topic, ()) for part in parts)


def row_place(epoch: int, stage: int, task: int) -> int:
    """Return the number of the first row of a task; numbers ascend as a stream would send rows.

    Example:
        >>> row_place(1, 0, 5) < row_place(1, 1, 0) < row_place(2, 0, 0)
        True
    """
    assert stage < 1 << _STAGE_BITS, stage
    assert task < 1 << _TASK_BITS, task
    return ((((epoch << _STAGE_BITS) | stage) << _TASK_BITS) | task) << _ROW_BITS
