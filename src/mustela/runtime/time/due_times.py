"""When key groups need to run without records, as last reported by the lanes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mustela.plan.epoch import TaskReport
from mustela.plan.keygroups import schedule_group
from mustela.plan.plan import Plan
from mustela.plan.time import AT_ONCE, FULL, NEVER, NOTHING_DUE, Due
from mustela.topology.scheduled import ScheduledSourceNode

__all__ = ["DueTimes"]


class DueTimes:
    """The next due time of each key group in each stage that acts on time.

    Args:
        plan: The plan.
        key_groups: Number of key groups.
        known: False after a restart with committed state: each key group is then due once, to
            report what it waits for.

    Example:
        >>> times = DueTimes(Plan(stages=(), topics=(), fingerprint=""), 4, known=False)
        >>> times.first
        Due(event_ms=9223372036854775807, wall_ms=9223372036854775807, parked=0)
    """

    def __init__(self, plan: Plan, key_groups: int, *, known: bool) -> None:
        self._times = {
            stage.index: [NOTHING_DUE if known and not stage.acts_at_start else AT_ONCE]
            * key_groups
            for stage in plan.stages
            if stage.acts_on_time
        }
        self._first: Due | None = None
        self._now_ms = -1
        self._following: dict[tuple[int, int], int] = {}
        for stage in plan.stages:
            for step in stage.steps:
                if isinstance(step.node, ScheduledSourceNode):  # starts by itself, at once
                    group = schedule_group(step.node.name, key_groups)
                    self._times[stage.index][group] = AT_ONCE
                    self._following[stage.index, group] = -1

    @property
    def scheduled_ms(self) -> int | None:
        """The time up to which scheduled sources have handled their ticks.

        The time of the first tick still to come, -1 while a source has not begun, None if there is
        no scheduled source.
        """
        return min(self._following.values(), default=None)

    @property
    def first(self) -> Due:
        """The earliest time of each kind, over all key groups."""
        if self._first is None:
            self._first = Due.first(due for dues in self._times.values() for due in dues)
        return self._first

    @property
    def is_full(self) -> bool:
        """Whether a step has reached its limit of parked records, so that nothing is read."""
        return any(sum(due.parked for due in dues) >= FULL for dues in self._times.values())

    def order(self) -> Mapping[int, tuple[Due, ...]]:
        """Return the due times for an epoch's lanes, by stage."""
        return {stage: tuple(dues) for stage, dues in self._times.items()}

    def wake(self, places: Iterable[tuple[int, int]], now_ms: int) -> None:
        """Make key groups, by stage and number, run in the next epoch.

        If the clock was set back, all that wait for a time run: some of them had counted from when
        it was ahead, and report a new time.
        """
        if now_ms < self._now_ms:
            for dues in self._times.values():
                dues[:] = [due._replace(wall_ms=_sooner(due.wall_ms, now_ms)) for due in dues]
            self._first = None
        self._now_ms = now_ms
        for stage, group in places:
            dues = self._times.get(stage)
            if dues is not None:
                dues[group] = dues[group]._replace(wall_ms=min(dues[group].wall_ms, now_ms))
                self._first = None

    def learn(self, reports: Iterable[TaskReport], *, watermark: int, now_ms: int) -> None:
        """Learn the due times that the lanes of an epoch reported.

        A key group that would be due at the same time again has had its turn: it is due when time
        advances, otherwise epochs would follow each other without a pause.
        """
        for report in reports:
            dues = self._times.get(report.stage)
            if dues is None:
                continue
            for group, due in report.due.items():
                wall_ms = _later(due.wall_ms, now_ms)
                known = self._following.get((report.stage, group))
                if known is not None:
                    self._following[report.stage, group] = due.wall_ms
                    # Ticks that are left have come closer to now: do not pause before them.
                    wall_ms = due.wall_ms if due.wall_ms > known else wall_ms
                dues[group] = Due(_later(due.event_ms, watermark), wall_ms, due.parked)
        self._first = None


def _later(due: int, now: int) -> int:
    return due if due == NEVER else max(due, now + 1)


def _sooner(due: int, now: int) -> int:
    return due if due == NEVER else min(due, now)
