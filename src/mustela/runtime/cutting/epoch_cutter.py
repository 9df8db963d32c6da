"""Decides what an epoch reads: how much of each partition, and up to which time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.plan.ranges import RangeReport
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.cutting.idle_wait import IdleWait
from mustela.runtime.cutting.prefetch import Turn
from mustela.runtime.cutting.timecut import Backlog, TimeCutter, seen_behind
from mustela.runtime.ports import Cluster
from mustela.runtime.record.source_offsets import Cut

__all__ = ["EpochCut", "EpochCutter", "left_behind"]

_DAY_MS = 86_400_000


class EpochCut(NamedTuple):
    """What the next epoch reads.

    Attributes:
        cuts: The offsets, by partition; empty while waiting for an empty source.
        until_ms: The time at which it is cut, if it is cut by time.
        far: Partitions that have records and are not read because they are too far ahead; their
            records may be before that time.
    """

    cuts: dict[TopicPartition, Cut]
    until_ms: int | None = None
    far: frozenset[TopicPartition] = frozenset()


class EpochCutter:
    """Cuts waiting records into epochs.

    Records of one topic are cut by volume. With several topics, a backlog is cut by time, so that
    all partitions reach the same time together, and empty sources are waited for.

    Args:
        settings: The settings.
        admin: Finds offsets for times.
        clock: Monotonic time.
    """

    def __init__(self, settings: Settings, admin: Cluster, clock: Clock) -> None:
        drift = settings.max_source_drift if settings.event_time == "watermark" else None
        self._drift_ms = None if drift is None else drift // timedelta(milliseconds=1)
        self._admin = admin
        self._idle_wait = IdleWait(clock, settings.max_task_idle.total_seconds())
        self._times = TimeCutter()

    def cut(
        self,
        plan: Plan,
        state: CommittedState,
        ends: Mapping[TopicPartition, int],
        *,
        budget: int,
        now_ms: int,
    ) -> EpochCut:
        """Choose what the next epoch reads; nothing while waiting for an empty source.

        Args:
            plan: The running plan.
            state: The committed state.
            ends: The end of each partition.
            budget: Approximate maximum number of records to read.
            now_ms: Wall-clock time.
        """
        sources = state.sources
        everything = sources.waiting(ends)
        waiting = state.watermark.near(everything, self._drift_ms)
        far = frozenset(everything.keys() - waiting.keys())
        near = {place: end for place, (_, end) in waiting.items()}
        if len(plan.topics) > 1:
            if waiting and not self._idle_wait.is_over(_some_are_empty(state, waiting)):
                return EpochCut({}, far=far)
            if sources.lag(near) > budget:
                backlog = self._backlog(plan, state, waiting, budget, now_ms)
                return EpochCut(*self._times.cut(backlog), far=far)
        return EpochCut(sources.cut(near, budget), far=far)

    def _backlog(
        self,
        plan: Plan,
        state: CommittedState,
        waiting: Mapping[TopicPartition, tuple[int, int]],
        budget: int,
        now_ms: int,
    ) -> Backlog:
        times = state.watermark.partitions

        def lookup(time: int) -> dict[TopicPartition, int]:
            found = self._admin.offsets_for_times(dict.fromkeys(waiting, time))
            return {TopicPartition(*place): at for place, at in found.items() if at is not None}

        return Backlog(
            waiting=waiting,
            floors={place: times[place].max_timestamp for place in waiting},
            budget=budget,
            high=now_ms + _DAY_MS,
            lookup=lookup,
            retimed=plan.retimed,
        )

    def came_to_the_moment(
        self, ranges: Iterable[RangeReport], turn: Turn, topics: Mapping[str, int]
    ) -> bool:
        """Return whether all partitions of an epoch cut by time were read up to its cut."""
        cuts = turn.cuts
        if turn.look.until_ms is None or any(cut.sure is None for cut in cuts.values()):
            return True
        return self._times.settle(cuts, seen_behind(cuts, topics, ranges))


def left_behind(
    state: CommittedState,
    ends: Mapping[TopicPartition, int],
    cuts: Mapping[TopicPartition, Cut],
) -> set[TopicPartition]:
    """Return the partitions with records that the cuts do not read.

    For partitions that are read up to a time, the tasks report it.
    """
    return {
        place
        for place, (_, end) in state.sources.waiting(ends).items()
        if place not in cuts or (cuts[place].sure is None and cuts[place].end < end)
    }


def _some_are_empty(state: CommittedState, waiting: Mapping[TopicPartition, Any]) -> bool:
    """Return whether a partition that is not idle has nothing to read."""
    times = state.watermark.partitions
    return any(
        place not in waiting and not (place in times and times[place].idle)
        for place in state.sources.next_offsets
    )
