"""What the gate checks while an application runs."""

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
        """Return, for logs that lost what was read, up to which offset they still hold it."""
        ...


class TruncationWatch:
    """Detects a source that lost records which were read: it ends before them, or holds others.

    A newly elected leader may briefly report an early end of its log, until it knows what its
    followers have: only a lasting loss counts. Whether a log that is long enough holds what was
    read is checked once for each new leader.

    Args:
        application_id: The application.
        logs: Finds out how much of what was read is left.
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
        """Compare the ends and leaders of partitions with what was read.

        Returns:
            Whether none of them ends before what was read.

        Raises:
            SourceTruncatedError: If one has ended before what was read for a while, or holds other
                records.
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
        """Check the leaders, unless they have not changed since the last look."""
        seen = list(ends), list(map(_LEADER, ends.values()))
        if seen != self._looked:
            self.led(sources, dict(zip(*seen, strict=True)))
            self._looked = seen

    def led(self, sources: SourceOffsets, leaders: Mapping[TopicPartition, int]) -> None:
        """Check that logs with a new leader still hold what was read.

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
        """Check that an epoch read from the same logs as before, and from one log per partition.

        Args:
            sources: What was read before.
            topics: Index of each topic.
            reports: The reports of the tasks.

        Raises:
            SourceTruncatedError: If a log lost records that were read before or in this epoch.
            EnvironmentFault: If no broker answers.
        """
        leaders = leaders_read(topics, reports)
        seen = self._leaders
        self.led(sources, {p: epoch for p, epoch in leaders.items() if epoch > seen.get(p, -1)})
        names = {index: topic for topic, index in topics.items()}
        for report in reports:
            place = TopicPartition(names[report.topic_index], report.partition)
            if 0 <= report.leader_epoch < leaders.get(place, -1):  # another task continued later
                kept = self._logs.kept_ends({place: LogPosition(report.end, report.leader_epoch)})
                self._stop(sources, {place: (None, end) for place, end in kept.items()})

    def reached(
        self,
        sources: SourceOffsets,
        places: Iterable[TopicPartition],
        topics: Mapping[str, int],
        reports: Sequence[RangeReport],
    ) -> dict[TopicPartition, int]:
        """Return leader epochs in which the logs reached the offsets that an epoch read.

        The leader epoch of the last record alone is not enough: a control record after it may be
        newer. If records have no leader epoch, the broker cannot tell what was lost. If there was
        no record to read, the aborted ones had one: old formats have no transactions.

        Args:
            sources: What was read before.
            places: The partitions that the epoch read.
            topics: Index of each topic.
            reports: The reports of the tasks.
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
