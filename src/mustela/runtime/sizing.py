"""How large an epoch should be: a self-tuning budget of records and bytes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EpochBudget", "EpochLimits"]

_GROWTH = 4.0
_SHRINK = 0.5
_FLOOR = 2_000
_USED = 0.4
"""An epoch that is cut by time may use little more than half of its budget."""
_LEAST_SECONDS = 1e-6


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

    An epoch costs something whatever it reads, and something for each record. The budget grows
    while epochs that used much of it are faster than the target, and shrinks while they are slower,
    but never to where the fixed part is most of the time. It follows the size of the records, and
    halves when an epoch failed. The first epoch, which warms everything up, teaches nothing.

    Args:
        limits: What the settings allow.
        first: Records of the first epoch.

    Example:
        >>> budget = EpochBudget(EpochLimits(max_records=10_000), first=1_000)
        >>> budget.learn(records=1_000, size=100_000, seconds=5.0)
        >>> budget.learn(records=1_000, size=100_000, seconds=0.1)
        >>> budget.records
        4000
    """

    def __init__(self, limits: EpochLimits, *, first: int = 1_000) -> None:
        self.limits = limits
        self._records = float(min(first, limits.max_records))
        self._record_size = 0.0
        self._fixed_seconds: float | None = None

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
        if self._fixed_seconds is None:
            self._fixed_seconds = self.limits.target_seconds / 4
            return
        target = self.limits.target_seconds
        self._fixed_seconds = min(self._fixed_seconds * 1.02, seconds, target / 2)
        variable = max(seconds - self._fixed_seconds, 0.05 * seconds, _LEAST_SECONDS)
        ratio = (target - self._fixed_seconds) / variable
        wanted = max(_FLOOR, records * min(_GROWTH, max(_SHRINK, ratio)))
        if seconds > 1.2 * target:
            self._records = min(self.limits.max_records, wanted)
        elif records >= _USED * self.records and seconds < 0.9 * target:
            self._records = min(self.limits.max_records, max(self._records, wanted))

    def halve(self) -> bool:
        """Allow half as much; return False if it cannot get smaller."""
        before = self.records
        self._records = max(1.0, before / 2)
        return self.records < before
