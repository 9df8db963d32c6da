"""The size of an epoch: a self-tuning budget of records and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from mustela.plan.epoch import FIRST_RECORDS

__all__ = ["EpochBudget", "EpochLimits"]

_GROWTH = 4.0
_CAREFUL_GROWTH = 2.0
"""How much larger epochs become whose records already take a quarter of the target: the next one is
chosen before their duration is known."""
_SHRINK = 0.5
_FLOOR = 2_000
_USED = 0.4
"""An epoch that is cut by time may use little more than half of its budget."""
_LEAST_SECONDS = 1e-6
_FIXED_SHARE = 0.25
"""With a backlog, epochs become so long that their fixed part is about this share of them."""
_STRETCH = 3.0
"""How many times the target that may make them."""
_MEMORY = 0.9
"""The factor by which an epoch's weight shrinks with each newer one."""
_SPREAD = 0.3
"""How much epochs must differ in size, as a share of it, to show the fixed part."""
_FEW = 2.0
"""A line through fewer epochs than this is not used."""
_FORGETTING = 0.99
_SURPRISE = 2.0
"""An epoch that takes this many times the expected time, or that fraction of it, is an outlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLimits:
    """The limits from the settings.

    Attributes:
        max_records: No epoch reads more records.
        max_bytes: No epoch should read more bytes.
        target_seconds: With a backlog, an epoch should take about this long, or up to three times
            as long if much of that time is fixed.
    """

    max_records: int = 500_000
    max_bytes: int = 64 * 1024 * 1024
    target_seconds: float = 0.8


class EpochBudget:
    """The number of records that the next epoch may read.

    An epoch has a fixed cost, and a cost per record. The budget grows while epochs that used much
    of it are faster than the target, and shrinks while they are slower, but never so far that the
    fixed cost dominates. It follows the size of the records, and halves when an epoch fails.
    Nothing is learned from the first epoch, which warms everything up.

    Args:
        limits: The limits from the settings.
        first: Records of the first epoch.

    Example:
        >>> budget = EpochBudget(EpochLimits(max_records=10_000), first=1_000)
        >>> budget.learn(records=1_000, size=100_000, seconds=5.0)
        >>> budget.learn(records=1_000, size=100_000, seconds=0.1)
        >>> budget.records
        4000
    """

    def __init__(self, limits: EpochLimits, *, first: int = FIRST_RECORDS) -> None:
        self.limits = limits
        self._records = float(min(first, limits.max_records))
        self._record_size = 0.0
        self._fixed: _FixedPart | None = None

    @property
    def records(self) -> int:
        """Records that the next epoch may read, at least one."""
        allowed = min(self._records, self.limits.max_records)
        if self._record_size > 0:
            allowed = min(allowed, self.limits.max_bytes / self._record_size)
        return max(1, int(allowed))

    def learn(self, *, records: int, size: int, seconds: float, worked: float = inf) -> None:
        """Learn from an epoch.

        Args:
            records: How many it read.
            size: Their bytes, and those of its rows.
            seconds: How long it took, including the commit.
            worked: How much of that can have to do with what it read: its tasks together, and the
                commit. On a full machine the rest is most of a small epoch.
        """
        if records <= 0:
            return
        self._record_size = size / records
        least = self.limits.target_seconds
        if self._fixed is None:
            self._fixed = _FixedPart(least)
            return
        fixed = self._fixed.after(records, seconds)
        if not self._fixed.is_known:
            fixed = max(fixed, seconds - worked)
        target = min(max(least, fixed / _FIXED_SHARE), least * _STRETCH)
        fixed = min(fixed, target / 2)
        variable = max(seconds - fixed, 0.05 * seconds, _LEAST_SECONDS)
        ratio = (target - fixed) / variable
        growth = _GROWTH if variable < least / 4 else _CAREFUL_GROWTH
        wanted = max(_FLOOR, records * min(growth, max(_SHRINK, ratio)))
        if seconds > 1.2 * target:
            self._records = min(self.limits.max_records, wanted)
        elif records >= _USED * self.records and seconds < 0.9 * target:
            self._records = min(self.limits.max_records, max(self._records, wanted))

    def halve(self) -> bool:
        """Halve the budget; return False if it cannot get smaller."""
        before = self.records
        self._records = max(1.0, before / 2)
        return self.records < before


class _FixedPart:
    """The fixed cost of an epoch: the intercept of a line through the last ones.

    Epochs that all read about the same amount do not show it. It is then forgotten gradually, until
    epochs have become so much smaller that they do. As long as nothing is known, the whole duration
    of an epoch that is not slow is taken as fixed, so the first epochs grow fast. An epoch far from
    the line is left out; a second one in a row means that the records or the machine have changed,
    and the earlier epochs no longer count.

    Args:
        slow: Seconds from which on an epoch is slow.
    """

    def __init__(self, slow: float) -> None:
        self._slow = slow
        self._seconds: float | None = None
        self._slope = 0.0
        self._sums = [0.0] * 5
        self._surprised = False

    @property
    def is_known(self) -> bool:
        """Whether epochs have differed enough to show it."""
        return self._seconds is not None

    def after(self, records: int, seconds: float) -> float:
        """Add another epoch and return the seconds of the fixed part."""
        if self._seconds is not None:
            expected = self._seconds + self._slope * records
            surprised = not expected / _SURPRISE <= seconds <= expected * _SURPRISE
            was_surprised, self._surprised = self._surprised, surprised
            if surprised and not was_surprised:
                return min(self._seconds, seconds)
            if surprised:
                self._sums = [0.0] * 5
        seen = (1.0, records, seconds, records * records, records * seconds)
        self._sums = [old * _MEMORY + new for old, new in zip(self._sums, seen, strict=True)]
        mean, mean_seconds, squares, products = (part / self._sums[0] for part in self._sums[1:])
        spread = squares - mean * mean
        slope = -1.0
        if self._sums[0] > _FEW and spread > (_SPREAD * mean) ** 2:
            slope = (products - mean * mean_seconds) / spread
        if slope >= 0.0:
            self._slope = slope
            self._seconds = max(0.0, mean_seconds - slope * mean)
        elif self._seconds is not None:
            self._seconds *= _FORGETTING
        else:
            return seconds if seconds < self._slow else self._slow * _FIXED_SHARE
        self._seconds = min(self._seconds, seconds)
        return self._seconds
