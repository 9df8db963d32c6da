"""Event time and wall-clock time of an epoch, as its lanes see them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

__all__ = ["ALWAYS", "AT_ONCE", "FULL", "NEVER", "NOTHING_DUE", "Due", "EpochTime"]

NEVER: Final = 2**63 - 1
ALWAYS: Final = -(2**63)
FULL: Final = 2**40
"""All records that a step may have parked; the number for a key group is a part of it."""


class Due(NamedTuple):
    """When a key group of a stage wants to run although no record arrives.

    Attributes:
        event_ms: The watermark at which it wants to run, or `NEVER`.
        wall_ms: The wall-clock time at which it wants to run, or `NEVER`.
        parked: The share of a step's parked records that is in this key group, as a part of `FULL`;
            with several steps, the largest share.
    """

    event_ms: int = NEVER
    wall_ms: int = NEVER
    parked: int = 0

    def reached(self, watermark: int, now_ms: int) -> bool:
        """Say whether the time has come.

        Example:
            >>> Due(event_ms=50).reached(50, 0), NOTHING_DUE.reached(50, 0)
            (True, False)
        """
        return self.event_ms <= watermark or self.wall_ms <= now_ms

    @classmethod
    def first(cls, dues: Iterable[Due]) -> Due:
        """Return the earliest time of each kind."""
        event_ms = wall_ms = NEVER
        for due in dues:
            event_ms = min(event_ms, due.event_ms)
            wall_ms = min(wall_ms, due.wall_ms)
        return cls(event_ms, wall_ms)


NOTHING_DUE: Final = Due()
AT_ONCE: Final = Due(ALWAYS, NEVER)
"""For a key group that has not yet been asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTime:
    """What time it is in an epoch; the same for every lane.

    Attributes:
        before: The watermark before the epoch, in milliseconds; -1 if there is none yet.
        watermark: The watermark after the epoch's rows. A stage handles its rows first and then
            moves to it.
        now_ms: The epoch's one wall-clock time.
        late_ms: How far the records of a topic may be behind its largest timestamp, by the topic's
            index in the plan; 0 for a topic that is left out.
        custom: For topics with a custom watermark: from the largest timestamp to the time that has
            been reached.
        triggered: Scheduled sources that tick now, whatever their schedules say; for tests.

    Example:
        >>> EpochTime(before=5, watermark=9).watermark
        9
    """

    before: int = -1
    watermark: int = -1
    now_ms: int = 0
    late_ms: Mapping[int, int] = field(default_factory=dict[int, int])
    custom: Mapping[int, Callable[[int], int]] = field(
        default_factory=dict[int, Callable[[int], int]]
    )
    triggered: Collection[str] = ()

    def due_groups(self, dues: Sequence[Due]) -> set[int]:
        """Return the key groups, by their place in ``dues``, whose time has come."""
        return {group for group, due in enumerate(dues) if due.reached(self.watermark, self.now_ms)}

    def judge(self, order: Iterable[tuple[int, ...]]) -> list[int]:
        """Return the time at which each row is judged, by its order.

        It is the lower of the watermark and the row's own order time, less how far records of its
        topic may be behind: so it does not matter where a backlog was cut. But it is never lower
        than the watermark of the previous epoch, which has already closed windows.

        Example:
            >>> EpochTime(before=5, watermark=9).judge([(3, 0, 0, 1), (7, 0, 0, 2), (12, 0, 0, 3)])
            [5, 7, 9]
        """
        before, watermark, late = self.before, self.watermark, self.late_ms
        if self.custom:
            return [max(before, min(self._reached(place), watermark)) for place in order]
        if not late:
            latest = max(before, watermark)
            return [
                latest if place[0] >= latest else before if place[0] < before else place[0]
                for place in order
            ]
        return [max(before, min(place[0] - late.get(place[1], 0), watermark)) for place in order]

    def _reached(self, place: tuple[int, ...]) -> int:
        custom = self.custom.get(place[1])
        return place[0] - self.late_ms.get(place[1], 0) if custom is None else custom(place[0])
