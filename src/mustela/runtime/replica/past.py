"""What an epoch depended on, as Kafka still holds it: its plan, its input, and the state before it.

Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from mustela.clock import Clock
from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.errors import OffsetOutOfRange
from mustela.connectors.kafka.log import read_between, read_chunks
from mustela.errors import EnvironmentFault, UsageError
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder, GlobalMark, changelog_topic, epochs_topic, history_topic
from mustela.plan.plan import Plan
from mustela.plan.ranges import RawChunk
from mustela.runtime.kafka_world import last_epoch
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.record.history_row import (
    HistoryRow,
    HistoryRows,
    Kept,
    history_row,
    kept_rows,
)
from mustela.runtime.record.source_offsets import SourceOffsets, ranges_of
from mustela.runtime.replica.written import Written, changes_between, rows_of_epoch
from mustela.runtime.time.due_times import DueTimes
from mustela.runtime.time.watermark import (
    Look,
    PartitionTime,
    WatermarkState,
    topic_options,
    watermark_options,
)
from mustela.runtime.topics.application_topics import COMPACTION_LAG, sink_topics
from mustela.state.interfaces import Token

__all__ = ["HistoryGoneError", "NoEpochError", "Past"]

_SLACK_MS = 60_000
"""How far this machine's clock may differ from the broker's."""


class HistoryGoneError(EnvironmentFault):
    """What an epoch depended on is no longer there."""

    code = "HISTORY_GONE"


class NoEpochError(UsageError):
    """There is no such epoch."""

    code = "REPLAY_EPOCH"


class Past:
    """The past of one application.

    Args:
        settings: Name the application and the brokers.
        plan: Its program.
        target: What the user calls it, for the errors.
        clock: The wall clock.
    """

    def __init__(self, settings: Settings, plan: Plan, target: str, clock: Clock) -> None:
        self.settings = settings
        self.plan = plan
        self.target = target
        self.admin = KafkaAdmin(client_properties(settings, "admin"))
        self._clock = clock
        self._consumer = client_properties(settings, "consumer")
        self._lags: dict[str, int] = {}
        self._kept: tuple[dict[int, HistoryRow], HistoryRow | None] | None = None

    def close(self) -> None:
        """Close the connections."""
        self.admin.close()

    def find(self, epoch: int) -> tuple[HistoryRow, bool]:
        """Return an epoch, and whether exactly that is known which it had planned.

        Raises:
            NoEpochError: If it has not run yet.
            HistoryGoneError: If what it depended on is not there any more.
        """
        name = self.settings.application_id
        there = bool(self.admin.describe([epochs_topic(name)]))
        last = last_epoch(self.settings, self.admin) if there else None
        if last is None:
            what = f"{name} has committed no epoch"
            fix = f"run it first: mustela run {self.target}"
            raise NoEpochError(what, fix=fix)
        if self._kept is None:
            self._kept = kept_rows(self._rows())
        kept, failed = self._kept
        if epoch > last.epoch + 1 or epoch < 1:
            what = f"{name} has no epoch {epoch}"
            ahead = f"the last committed epoch is {last.epoch}; {last.epoch + 1} comes next"
            fix = f"mustela replay {self.target} --epoch {max(1, last.epoch)}"
            raise NoEpochError(what, evidence={"epochs": ahead}, fix=fix)
        if epoch == last.epoch + 1:
            if failed is not None and failed.epoch == epoch:
                return failed, True
            return self._planned(last), False
        row = kept.get(epoch)
        gone = "nothing was kept of it" if row is None else self._missing(row)
        if row is None or gone:
            self._refuse(epoch, kept, last.epoch, gone)
        return row, True

    def _rows(self) -> Iterator[HistoryRow]:
        place = TopicPartition(history_topic(self.settings.application_id), 0)
        if not self.admin.describe([place.topic]):
            return
        (first,) = self.admin.earliest_offsets([place]).values()
        (end,) = self.admin.end_offsets([place]).values()
        rows = HistoryRows()
        for chunk in read_chunks(self._consumer, *place, first, end):
            yield from rows.take(zip(chunk.keys, chunk.values, strict=True))

    def _refuse(self, epoch: int, kept: Mapping[int, HistoryRow], last: int, gone: str) -> NoReturn:
        history, name = self.settings.history, self.settings.application_id
        possible = next((one for one in sorted(kept) if not self._missing(kept[one])), last + 1)
        evidence = {"last epoch": last, "can be replayed": f"epoch {possible} and later"}
        more = (
            "to keep more of those to come, raise history.epochs and history.age (now "
            f"{history.epochs} and {history.age})"
            if history.epochs
            else "to keep those to come, set history.epochs, as with MUSTELA__HISTORY__EPOCHS=1000,"
            " and start the application again"
        )
        what = f"epoch {epoch} of {name} cannot be replayed: {gone}"
        raise HistoryGoneError(
            what,
            evidence=evidence,
            fix=f"mustela replay {self.target} --epoch {possible}; {more}",
            fields={"epoch": epoch, "first": possible, "last": last},
        )

    def _missing(self, row: HistoryRow) -> str:
        """Return what is gone of that on which an epoch depends; nothing if all is there."""
        firsts = self.admin.earliest_offsets(
            {(row.topics[one.topic_index], one.partition) for part in row.ranges for one in part}
        )
        for one in (one for part in row.ranges for one in part):
            place = TopicPartition(row.topics[one.topic_index], one.partition)
            if one.start < one.end and firsts[place] > one.start:
                return f"{place.topic} no longer holds offset {one.start} of its input"
        age_ms = self._clock.now_ms() - row.now_ms
        for log, ends in row.changelog_ends.items():
            topic = changelog_topic(self.settings.application_id, log)
            if age_ms + _SLACK_MS >= self._lag_ms(topic) and self._has_moved(topic, ends):
                return f"compaction may have changed what {topic} held before it"
        return ""

    def _lag_ms(self, topic: str) -> int:
        if not self._lags:
            name = self.settings.application_id
            logs = [changelog_topic(name, log) for log in self.plan.log_names.values()]
            self._lags = {
                log: int(config.get(COMPACTION_LAG, 0))
                for log, config in self.admin.configs(self.admin.describe(logs)).items()
            }
        return self._lags.get(topic, 0)

    def _has_moved(self, topic: str, ends: Sequence[int]) -> bool:
        places = [TopicPartition(topic, group) for group in range(len(ends))]
        now = self.admin.end_offsets(places)
        return any(now[place] > end for place, end in zip(places, ends, strict=True))

    def _planned(self, last: EpochRecord) -> HistoryRow:
        """Return the epoch that would come next: the sources from the last one on to their ends."""
        plan = self.plan.with_topics(last.found_topics)
        topics = {topic: index for index, topic in enumerate(plan.topics)}
        now_ms, rules = self._clock.now_ms(), watermark_options(self.settings)
        parts = {part.place: part for part in last.partitions if part.topic in topics}
        ends = self.admin.end_offsets(list(parts)) if parts else {}
        sources = SourceOffsets({place: part.end for place, part in parts.items()})
        cuts = sources.cut(ends, self.settings.epoch.max_records)
        watermark = WatermarkState(
            rules,
            last.watermark,
            {place: PartitionTime(p.max_timestamp, now_ms, p.idle) for place, p in parts.items()},
            by_topic=topic_options(plan, rules),
        )
        latest = {topic: watermark.options_of(topic).latest_ms(now_ms) for topic in topics}
        floors = {place: part.max_timestamp for place, part in parts.items()}
        short = [place for place, cut in cuts.items() if not cut.to_end]
        groups = last.key_groups
        order = EpochOrder(
            token=Token(last.incarnation, last.epoch + 1, 0),
            ranges=(tuple(ranges_of(cuts, topics, floors, latest)),),
            marks={},
            now_ms=now_ms,
            event_time=watermark.order(topics, Look(now_ms=now_ms, short=short), cuts),
            due=DueTimes(plan, groups, known=False).order(),
            global_marks={
                topic: GlobalMark(name, tuple(read))
                for topic, (name, read) in last.global_ends.items()
            },
        )
        return history_row(order, Kept(plan, last.changelog_ends, last.lanes, groups))

    def input(self, topic: str, partition: int, start: int, end: int) -> Iterator[RawChunk]:
        """Read a range of a source.

        Raises:
            HistoryGoneError: If the broker no longer holds all of it.
        """
        try:
            yield from read_chunks(self._consumer, topic, partition, start, end)
        except OffsetOutOfRange as error:
            what = f"{topic}-{partition} no longer holds the offsets {start} to {end}"
            fix = "replay a later epoch; retention.ms of the topic says how long records stay"
            raise HistoryGoneError(what, fix=fix) from error

    def log(self, log: str, group: int, end: int) -> list[tuple[bytes, bytes | None]]:
        """Return what a changelog held before an offset."""
        if not end:
            return []
        topic = changelog_topic(self.settings.application_id, log)
        return list(read_between(self._consumer, topic, group, 0, end))

    def written(self, row: HistoryRow) -> Written:
        """Return what a committed epoch has written, as far as it is still there.

        Args:
            row: The epoch, which `find` has returned.
        """
        settings, plan = self.settings, self.plan
        topics = {*sink_topics(plan), settings.dead_letter_topic}
        found = rows_of_epoch(self.admin, self._consumer, topics, row, settings.epoch_header)
        logged = [store for stage in plan.stages for store in stage.logged]
        after = self._ends_after(row)
        if after is None:
            why = "nothing was kept of the next epoch"
            found.unknown |= {f"store {store}": why for store in logged}
        else:
            logs = {store: plan.log_names.get(store, store) for store in logged}
            name = settings.application_id
            found.changes = changes_between(self._consumer, name, logs, row, after)
        return found

    def _ends_after(self, row: HistoryRow) -> Mapping[str, Sequence[int]] | None:
        """Return where changelogs ended after an epoch; None if that is not known."""
        kept, _ = self._kept or ({}, None)
        following = kept.get(row.epoch + 1)
        if following is not None:
            return following.changelog_ends
        last = last_epoch(self.settings, self.admin)
        return last.changelog_ends if last is not None and last.epoch == row.epoch else None

    def sink_partitions(self, plan: Plan) -> dict[str, int]:
        """Return the partition count of each sink topic of a program that exists."""
        known = self.admin.describe(sink_topics(plan))
        return {topic: described.partitions for topic, described in known.items()}
