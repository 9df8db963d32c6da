"""What tasks measured, added up over committed epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mustela.plan.epoch import TaskReport
from mustela.runtime.status.snapshot import Histogram
from mustela.state.interfaces import StoreSize

__all__ = ["AGE_BOUNDS_S", "Measures"]

AGE_BOUNDS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the buckets for ages of records, in seconds."""
_NO_AGES: Final = Histogram.of(AGE_BOUNDS_S)
_RECENT: Final = 20
"""Over how many epochs the skew of lanes is computed."""
_CLIENTS_MAX: Final = 1_000

Task = tuple[int, int]
"""A stage and the index of a task in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What was measured since this process started the application.

    Attributes:
        taken: Records that each step took in.
        given: Records that each step passed on, or wrote.
        tasks: Records that each task took in.
        seconds: How long each task was in each step.
        recent: Records that each task took in, for each of the last epochs.
        stores: By store and key group, its size when last measured.
        parked: By step and key group, how many records wait for a result.
        ages: How old the oldest record of each partition was when its epoch was committed, counted
            in buckets.
        clients: By process and name, the latest statistics of a Kafka client; the most recent come
            last.
        standby_lag: Records that copies on second hosts lack; -1 if there are none.
    """

    taken: Mapping[str, int] = field(default_factory=dict[str, int])
    given: Mapping[str, int] = field(default_factory=dict[str, int])
    tasks: Mapping[Task, int] = field(default_factory=dict[Task, int])
    seconds: Mapping[Task, Mapping[str, float]] = field(
        default_factory=dict[Task, Mapping[str, float]]
    )
    recent: tuple[Mapping[Task, int], ...] = ()
    stores: Mapping[str, Mapping[int, StoreSize]] = field(
        default_factory=dict[str, Mapping[int, StoreSize]]
    )
    parked: Mapping[str, Mapping[int, int]] = field(default_factory=dict[str, Mapping[int, int]])
    ages: Histogram = _NO_AGES
    clients: Mapping[tuple[int, str], Mapping[str, float]] = field(
        default_factory=dict[tuple[int, str], Mapping[str, float]]
    )
    standby_lag: int = -1

    def restored(self, reports: Sequence[TaskReport]) -> Measures:
        """Return the same with the store sizes that a restore measured."""
        return replace(self, stores=_with_sizes(self.stores, reports))

    def after(self, reports: Sequence[TaskReport], now_ms: int) -> Measures:
        """Return the same with what the tasks of an epoch measured.

        Args:
            reports: Their reports.
            now_ms: Wall-clock time of the end of its commit.

        Example:
            >>> report = TaskReport(stage=1, task=0, counters={"records:x": 7})
            >>> report.measured.taken["count"] = 7
            >>> seen = Measures().after([report], now_ms=0).after([report], now_ms=0)
            >>> seen.taken, seen.tasks
            ({'count': 14}, {(1, 0): 14})
        """
        taken, given, tasks = dict(self.taken), dict(self.given), dict(self.tasks)
        seconds = dict(self.seconds)
        lately: dict[Task, int] = {}
        ages, clients = self.ages, self.clients
        for report in reports:
            place = report.stage, report.task
            records = _records(report)
            tasks[place] = tasks.get(place, 0) + records
            lately[place] = lately.get(place, 0) + records
            seconds[place] = with_seconds(seconds.get(place, {}), report.measured.seconds)
            _add(taken, report.measured.taken)
            _add(given, report.measured.given)
            for part in report.ranges:
                if part.records and part.first_ms >= 0:
                    ages = ages.plus(max(0, now_ms - part.first_ms) / 1000)
            if report.measured.clients:
                clients = _with_clients(clients, report.pid, report.measured.clients)
        return replace(
            self,
            taken=taken,
            given=given,
            tasks=tasks,
            seconds=seconds,
            recent=(*self.recent, lately)[-_RECENT:],
            stores=_with_sizes(self.stores, reports),
            parked=_with_parked(self.parked, reports),
            ages=ages,
            clients=clients,
            standby_lag=max((one.measured.standby_lag for one in reports), default=-1),
        )

    def heard(self, pid: int, told: Mapping[str, Mapping[str, float]]) -> Measures:
        """Return the same with the statistics of the Kafka clients of a process.

        Args:
            pid: The process.
            told: The statistics of each client, by its name.
        """
        return replace(self, clients=_with_clients(self.clients, pid, told))

    def skew(self, lanes: int) -> dict[int, float]:
        """Return, by stage after the first, the load of the busiest lane relative to the mean.

        Args:
            lanes: Number of lanes.

        Example:
            >>> Measures(recent=({(1, 0): 30, (1, 1): 10},)).skew(2)
            {1: 1.5}
        """
        sums: dict[int, dict[int, int]] = {}
        for epoch in self.recent:
            for (stage, task), records in epoch.items():
                if stage > 0:
                    lane = sums.setdefault(stage, {})
                    lane[task] = lane.get(task, 0) + records
        return {
            stage: max(lane.values()) * lanes / total
            for stage, lane in sorted(sums.items())
            if (total := sum(lane.values()))
        }

    def sizes(self) -> dict[str, StoreSize]:
        """Return the size of each store, over all key groups."""
        return {
            store: StoreSize(
                sum(size.rows for size in groups.values()),
                sum(size.size for size in groups.values()),
            )
            for store, groups in self.stores.items()
        }

    def waiting(self) -> dict[str, int]:
        """Return how many records each step has parked."""
        return {step: sum(groups.values()) for step, groups in self.parked.items()}


def _with_clients(
    before: Mapping[tuple[int, str], Mapping[str, float]],
    pid: int,
    told: Mapping[str, Mapping[str, float]],
) -> dict[tuple[int, str], Mapping[str, float]]:
    found = {known: of for known, of in before.items() if known[0] != pid or known[1] not in told}
    found.update({(pid, name): of for name, of in told.items()})
    return dict(list(found.items())[-_CLIENTS_MAX:])


def _records(report: TaskReport) -> int:
    return sum(count for name, count in report.counters.items() if name.startswith("records:"))


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


def with_seconds(before: Mapping[str, float], more: Mapping[str, float]) -> Mapping[str, float]:
    """Return the sums of seconds by step.

    Example:
        >>> with_seconds({"parse": 1.0}, {"parse": 0.5, "count": 2.0})
        {'parse': 1.5, 'count': 2.0}
    """
    if not more:
        return before
    return {**before, **{step: before.get(step, 0.0) + spent for step, spent in more.items()}}


def _with_sizes(
    before: Mapping[str, Mapping[int, StoreSize]], reports: Sequence[TaskReport]
) -> Mapping[str, Mapping[int, StoreSize]]:
    told: dict[str, dict[int, StoreSize]] = {}
    for report in reports:
        for (store, group), size in report.measured.stores.items():
            told.setdefault(store, {})[group] = size
    new = {store: {**before.get(store, {}), **groups} for store, groups in told.items()}
    return {**before, **new} if new else before


def _with_parked(
    before: Mapping[str, Mapping[int, int]], reports: Sequence[TaskReport]
) -> Mapping[str, Mapping[int, int]]:
    told: dict[str, dict[int, int]] = {}
    for report in reports:
        for (step, group), count in report.measured.parked.items():
            told.setdefault(step, {})[group] = count
    new = {step: {**before.get(step, {}), **groups} for step, groups in told.items()}
    return {**before, **new} if new else before
