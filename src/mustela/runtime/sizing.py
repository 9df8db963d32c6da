"""How large an epoch should be: a self-tuning budget of records and bytes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EpochBudget", "EpochLimits"]

_GROWTH = 1.5
_FLOOR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLimits:
    """What the settings allow.

    Attributes:
        max_records: No epoch reads more records.
        max_bytes: No epoch should read more bytes.
        target_seconds: An epoch that has a backlog before it should take about this long.
    """

    max_records: int = 500_000
    max_bytes: int = 64 * 1024 * 1024
    target_seconds: float = 0.8


class EpochBudget:
    """The number of records that the next epoch may read.

    It grows while epochs that used all of it are faster than the target, shrinks while they are
    slower, follows the size of the records, and halves when an epoch failed for its size or time.

    Args:
        limits: What the settings allow.
        first: Records of the first epoch.

    Example:
        >>> budget = EpochBudget(EpochLimits(max_records=10_000), first=1_000)
        >>> budget.learn(records=1_000, size=100_000, seconds=0.1)
        >>> budget.records
        1500
    """

    def __init__(self, limits: EpochLimits, *, first: int = 20_000) -> None:
        self.limits = limits
        self._records = float(min(first, limits.max_records))
        self._record_size = 0.0

    @property
    def records(self) -> int:
        """Records that the next epoch may read, at least one."""
        allowed = min(self._records, self.limits.max_records)
        if self._record_size > 0:
            allowed = min(allowed, self.limits.max_bytes / self._record_size)
        return max(1, int(allowed))

    def learn(self, *, records: int, size: int, seconds: float) -> None:
        """Take in what an epoch read and how long it took, commit included."""
        if records <= 0:
            return
        self._record_size = size / records
        full = records >= 0.8 * self.records
        target = self.limits.target_seconds
        if seconds > 1.2 * target:
            fitting = max(_FLOOR, records * target / seconds)
            self._records = min(self._records, fitting)
        elif full and seconds < 0.9 * target:
            wanted = min(_GROWTH, 0.95 * target / max(seconds, 0.001))
            self._records = min(self.limits.max_records, records * max(1.0, wanted))

    def halve(self) -> bool:
        """Allow half as much; return False if it cannot get smaller."""
        before = self.records
        self._records = max(1.0, before / 2)
        return self.records < before
