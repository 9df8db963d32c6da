"""What the gate looks for while an application runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from mustela.clock import Clock
from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.plan.ranges import RangeReport
from mustela.runtime.gate.answers import refuse
from mustela.runtime.gate.differences import truncated
from mustela.runtime.record.source_offsets import SourceOffsets, leaders_read

__all__ = ["TruncationWatch"]

_SURE_AFTER_S = 5.0
_OFFSET = attrgetter("offset")
_LEADER = attrgetter("leader_epoch")


class _Logs(Protocol):
    def kept_ends(self, read: Mapping[TopicPartition, LogPosition]) -> dict[TopicPartition, int]:
        """Return up to where logs are what was read of them, where they lost some of that."""
        ...


class TruncationWatch:
    """Notices a source that lost records which were read: it ends before them, or holds others.

    A leader that has just been elected may say for a moment that its log ends early, until it knows
    what its followers have: only what stays is believed. Whether a log that is long enough holds
    what was read is asked once for each new leader.

    Args:
        application_id: The application.
        logs: Answers what is left of what was read.
        clock: Monotonic time.
    """

    def __init__(self, application_id: str, logs: _Logs, clock: Clock) -> None:
        self._application_id = application_id
        self._logs = logs
        self._clock = clock
        self._since: dict[TopicPartition, float] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._looked: tuple[list[TopicPartition], list[int]] = [], []

    def see(self, sources: SourceOffsets, ends: Mapping[TopicPartition, LogPosition]) -> bool:
        """Compare where partitions end, and who leads them, with what was read of them.

        Returns:
            Whether all of them end where they may.

        Raises:
            SourceTruncatedError: If one ends before that, and has done so for a while; or if it
                holds other records.
            EnvironmentFault: If no broker answers.
        """
        short = sources.read_beyond(dict(zip(ends, map(_OFFSET, ends.values()), strict=True)))
        if not short:
            self._since.clear()
            self._led_by(sources, ends)
            return True
        now = self._clock.monotonic()
        self._since = {place: self._since.get(place, now) for place in short}
        sure = [p for p in sorted(short) if now - self._since[p] >= _SURE_AFTER_S]
        if sure:
            known = {place: sources.position(place) for place in sure if place in sources.leaders}
            kept = self._logs.kept_ends(known)
            self._stop(sources, {place: (short[place], kept.get(place)) for place in sure})
        return False

    def _led_by(self, sources: SourceOffsets, ends: Mapping[TopicPartition, LogPosition]) -> None:
        """Look at the leaders, unless they are those of the last look."""
        seen = list(ends), list(map(_LEADER, ends.values()))
        if seen != self._looked:
            self.led(sources, dict(zip(*seen, strict=True)))
            self._looked = seen

    def led(self, sources: SourceOffsets, leaders: Mapping[TopicPartition, int]) -> None:
        """See that logs which have another leader now still hold what was read of them.

        Args:
            sources: What was read.
            leaders: The leader epoch of each partition.

        Raises:
            SourceTruncatedError: If one does not.
            EnvironmentFault: If no broker answers.
        """
        if leaders.items() <= self._leaders.items():
            return
        known = sources.leaders
        anew = {
            place: sources.position(place)
            for place, leader in leaders.items()
            if place in known and leader > max(known[place], self._leaders.get(place, -1))
        }
        kept = self._logs.kept_ends(anew)
        self._stop(sources, {place: (None, end) for place, end in kept.items()})
        self._leaders.update(leaders)

    def read(
        self, sources: SourceOffsets, topics: Mapping[str, int], reports: Sequence[RangeReport]
    ) -> None:
        """See that what an epoch read is of the logs that were read before, and of one log each.

        Args:
            sources: What was read before.
            topics: Index of each topic.
            reports: What tasks read.

        Raises:
            SourceTruncatedError: If a log lost what was read of it, before or in this epoch.
            EnvironmentFault: If no broker answers.
        """
        leaders = leaders_read(topics, reports)
        seen = self._leaders
        self.led(sources, {p: epoch for p, epoch in leaders.items() if epoch > seen.get(p, -1)})
        names = {index: topic for topic, index in topics.items()}
        for report in reports:
            place = TopicPartition(names[report.topic_index], report.partition)
            if 0 <= report.leader_epoch < leaders.get(place, -1):  # another task read on later
                kept = self._logs.kept_ends({place: LogPosition(report.end, report.leader_epoch)})
                self._stop(sources, {place: (None, end) for place, end in kept.items()})

    def reached(
        self,
        sources: SourceOffsets,
        places: Iterable[TopicPartition],
        topics: Mapping[str, int],
        reports: Sequence[RangeReport],
    ) -> dict[TopicPartition, int]:
        """Return leader epochs in which logs reached what an epoch read of them.

        The epoch of the last record alone would not do: a control record behind it may be younger.
        Where records have no epoch, the broker cannot tell what was lost. Where there was none to
        read, those that were aborted had one: old formats know no transactions.

        Args:
            sources: What was read before.
            places: The partitions that the epoch read.
            topics: Index of each topic.
            reports: What tasks read.
        """
        leaders = leaders_read(topics, reports)
        names = {index: topic for topic, index in topics.items()}
        unnamed = {
            TopicPartition(names[report.topic_index], report.partition)
            for report in reports
            if report.records and report.leader_epoch < 0
        }
        reached = {
            place: max(leaders.get(place, -1), self._leaders.get(place, -1))
            for place in places
            if place in leaders or place in sources.leaders or place not in unnamed
        }
        return {place: leader for place, leader in reached.items() if leader >= 0}

    def _stop(
        self, sources: SourceOffsets, lost: Mapping[TopicPartition, tuple[int | None, int | None]]
    ) -> None:
        refuse(
            [truncated(place, sources.next_offsets[place], *lost[place]) for place in sorted(lost)],
            self._application_id,
        )
