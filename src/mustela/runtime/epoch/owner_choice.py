"""Whether the owners of partitions write an epoch's sink rows, by what the epochs before gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mustela.plan.epoch import TaskReport
from mustela.plan.ranges import SourceRange

__all__ = ["OwnerChoice"]

_BYTES: Final = 4 << 20
_FEW: Final = 8
"""The driver takes 3 ns of a core for a byte that it passes on, and an exchange 7 ns of those of
executors (`benchmarks/cluster.md`): it pays where they share that among so many."""


class OwnerChoice:
    """Expects of each record as many bytes of sink rows as those of the last epoch gave.

    A task costs the same for few rows as for many, so there are no more owners than have enough to
    write.

    Args:
        least_bytes: What an owner is to have at least, if there are two or more. With None there
            are eight owners or more, or the driver writes.

    Example:
        >>> choice = OwnerChoice(1_000)
        >>> made = TaskReport(stage=0, task=0, sink_bytes=5_000)
        >>> choice.learn([made], records=10)
        >>> [choice.owners([SourceRange(0, 0, 0, end)], 4) for end in (3, 4, 6, 20)]
        [0, 2, 3, 4]
    """

    def __init__(self, least_bytes: int | None) -> None:
        self._least = _BYTES if least_bytes is None else least_bytes
        self._fewest = _FEW if least_bytes is None else 2
        self._bytes_each = 0.0

    def owners(self, ranges: Iterable[SourceRange], tasks: int) -> int:
        """Return how many owners an epoch is to have.

        Args:
            ranges: What it reads.
            tasks: How many there can be.
        """
        expected = self._bytes_each * sum(part.end - part.start for part in ranges)
        owners = min(tasks, int(expected / self._least))
        return owners if owners >= self._fewest else 0

    def learn(self, reports: Sequence[TaskReport], *, records: int) -> None:
        """Take in what an epoch gave.

        Args:
            reports: What its tasks did.
            records: How many records it read.
        """
        if records:
            self._bytes_each = sum(report.sink_bytes for report in reports) / records
