"""Makes the first epoch of an application out of what another one left.

Changelogs are written in transactions of bounded size, and the epoch record in the last one. Until
then there is no record, so that a start refuses what is there (STATE_WITHOUT_RECORD). A topic marks
that it comes from an interrupted seed, which the next one deletes and begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.topic_checks import TopicSpec
from mustela.connectors.kafka.truncation import LogPosition
from mustela.errors import UsageError
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.plan.feeds import topics_behind
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.gate.adopt import adopted
from mustela.runtime.gate.differences import Kind
from mustela.runtime.gate.gate import Examination, Gate
from mustela.runtime.ports import World
from mustela.runtime.record.epoch_record import (
    EPOCH_RECORD_KEY,
    EpochRecord,
    GroupState,
    encode_epoch_record,
    epochs_topic,
)
from mustela.runtime.takeover.bearers import Bearer, bearer_of
from mustela.runtime.takeover.matching import Match
from mustela.runtime.takeover.planning import Takeover, checked_rows, commits_of, old_rows
from mustela.runtime.takeover.spill import Spill
from mustela.runtime.time.watermark import PartitionTime, topic_options, watermark_options
from mustela.runtime.topics.application_topics import internal_topics
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay, StoreOverlay

__all__ = ["ROWS_MAX", "SeededBeforeError", "Seeding", "empty_view", "marker_topic"]

ROWS_MAX: Final = 5_000
"""The maximum number of rows that one transaction writes."""

_FIRST: Final = (1, 1, 0)
"""Incarnation, epoch and attempt of the record."""


class SeededBeforeError(UsageError):
    """The new application has an epoch record already."""

    code = "MIGRATE_SEEDED"


def marker_topic(application_id: str) -> str:
    """Return the topic that exists while an application is being seeded.

    Its name is that of an internal topic, so that commands which clear an application delete it.
    """
    return changelog_topic(application_id, "migrate-seed")


def empty_view(settings: Settings, spec: StoreSpec, group: int, groups: int) -> StoreOverlay:
    """Return a store of one key group without rows, in memory."""
    place = EnvironmentSpec(
        application_id=settings.application_id,
        stage="takeover",
        group=group,
        groups=groups,
        stores=(spec,),
    )
    return Overlay(MemoryEnvironment(place).snapshot(Committed())).store(spec.name)


@dataclass(slots=True)
class _Written:
    """What the open transaction holds, and where each changelog ended after those before it."""

    ends: dict[tuple[str, int], int]
    rows: int = 0


class Seeding:
    """Writes an application's changelogs and its first epoch record.

    Args:
        settings: Of the new application.
        world: Kafka.
        delete: Deletes topics.
    """

    def __init__(
        self, settings: Settings, world: World, delete: Callable[[Iterable[str]], None]
    ) -> None:
        self._settings = settings
        self._name = settings.application_id
        self._world = world
        self._delete = delete
        self._gate = Gate(settings, world)
        self._marker = marker_topic(self._name)

    def seed(
        self, seen: Examination, takeover: Takeover, say: Callable[[str], None]
    ) -> EpochRecord:
        """Write everything; the old application is only read.

        Args:
            seen: From `look`.
            takeover: What is taken over; nothing is in its way.
            say: Is told what was done.

        Raises:
            NotReadyError: If a row cannot be read; nothing can be started from what was written.
        """
        plan, world = seen.program.plan, self._world
        specs = internal_topics(self._settings, plan, key_groups=seen.program.key_groups)
        world.transactions.reopen()  # what an interrupted seed left open ends
        self._clear(list(specs))
        world.cluster.create([self._marker_spec()])
        world.cluster.create([*specs.values()])
        written = _Written({})
        reached: dict[str, int] = {}
        for match in takeover.matches:
            if match.spec is None or match.node is None or not match.topic:
                continue
            count = self._store(match, takeover, seen, written)
            reached[match.spec.name] = count
            say(f"wrote {count} rows of {match.spec.name}")
        self._commit(written)
        state = self._state(self._gate.examine(plan), takeover, written)
        record = self._finish(state)
        self._delete([self._marker])
        return record

    def look(self, plan: Any) -> Examination:
        """Return what is there of the new application: nothing, or what an interrupted seed left.

        Raises:
            SeededBeforeError: If it has an epoch record.
            MustelaError: If it has state or offsets that no seed left.
        """
        seen = self._gate.look(plan)
        if seen.record is not None:
            msg = f"{self._name} has an epoch record: it was seeded, or has run"
            raise SeededBeforeError(
                msg,
                evidence={"epoch": seen.record.epoch, "run": seen.record.incarnation},
                why="its state would be overwritten",
                fix=f"start it with mustela run; or clear it with: mustela reset {self._name}",
            )
        if self._marker in self._world.cluster.describe([self._marker]):
            found = [one for one in seen.found if one.kind is not Kind.STATE_WITHOUT_RECORD]
            seen = replace(seen, found=found)
        seen.decide(lambda _text: None)
        return seen

    def _marker_spec(self) -> TopicSpec:
        return TopicSpec(
            name=self._marker,
            partitions=1,
            replication_factor=self._settings.replication_factor,
            application_id=self._name,
            config={"cleanup.policy": "compact"},
        )

    def _clear(self, topics: Iterable[str]) -> None:
        """Delete what an interrupted seed left."""
        cluster = self._world.cluster
        if self._marker in cluster.describe([self._marker]):
            own = [topic for topic in topics if topic != epochs_topic(self._name)]
            self._delete(sorted(cluster.describe(own)))

    def _store(self, match: Match, takeover: Takeover, seen: Examination, written: _Written) -> int:
        spec, node = match.spec, match.node
        assert spec is not None, match.old
        assert node is not None, match.old
        bearer = bearer_of(spec, node)
        topic = changelog_topic(self._name, spec.log_name)
        groups = seen.program.key_groups
        properties = client_properties(self._settings, "consumer")
        with closing(Spill(bearer, groups)) as spill:
            spill.add(checked_rows(bearer, old_rows(match, takeover.old, properties)))
            now = self._stream_time(bearer, spill, takeover, seen)
            for group in range(groups):
                view = empty_view(self._settings, spec, group, groups)
                bearer.fill(view, spill.rows(group))
                if now is not None:
                    bearer.keep_time(view, now)
                self._write(topic, group, view, written)
            return spill.count()

    def _stream_time(
        self, bearer: Bearer, spill: Spill, takeover: Takeover, seen: Examination
    ) -> int | None:
        """Return the stream time of all key groups, the lowest of the old tasks'.

        A key group has keys of several of them; with a later time records that one of them would
        have taken would be late.
        """
        if self._settings.event_time != "stream-time" or not bearer.by_event_time:
            return None
        topics = topics_behind(seen.program.plan)[bearer.spec.name]
        by_task: dict[int, int] = {}
        for place, time in takeover.old.times.items():
            if place.topic in topics:
                by_task[place.partition] = max(by_task.get(place.partition, -1), time)
        times = list((by_task or spill.times).values())
        return min((time for time in times if time >= 0), default=None)

    def _write(self, topic: str, group: int, view: StoreOverlay, written: _Written) -> None:
        transactions = self._world.transactions
        rows = view.logged(view.changes())
        for start in range(0, len(rows), ROWS_MAX):
            part = rows[start : start + ROWS_MAX]
            if not written.rows:
                transactions.begin()
            transactions.produce_tracked(
                topic, group, [key for key, _ in part], [row for _, row in part]
            )
            written.rows += len(part)
            if written.rows >= ROWS_MAX:
                self._commit(written)

    def _commit(self, written: _Written) -> None:
        if written.rows:
            written.ends.update(self._world.transactions.flush())
            self._world.transactions.commit()
            written.rows = 0

    def _state(self, seen: Examination, takeover: Takeover, written: _Written) -> CommittedState:
        """Return the state after the first epoch."""
        plan, settings = seen.program.plan, self._settings
        state = adopted(
            replace(seen, record=None, found=[]),
            lanes=1,
            options=watermark_options(settings),
            new_id=self._world.new_id,
        )
        now = self._world.clock.now_ms()
        state.incarnation, state.epoch, state.attempt = _FIRST
        state.mirrored_ms = now
        for place, offset in commits_of(takeover, plan).items():
            state.sources.put(place, LogPosition(offset, -1))
            time = takeover.old.times.get(place, -1)
            state.watermark.partitions[place] = PartitionTime(time, now)
        state.topic_ids = {
            topic: topic_id
            for topic, topic_id in state.topic_ids.items()
            if topic in takeover.old.sources
        }
        if settings.event_time == "watermark" and state.watermark.partitions:
            state.watermark.by_topic = topic_options(plan, state.watermark.options)
            state.watermark.advance()
        for stage in plan.stages:
            for spec in stage.stores:
                topic = changelog_topic(self._name, spec.log_name)
                for group in range(state.key_groups):
                    end = written.ends.get((topic, group), 0)
                    if end and spec.logged:
                        state.changelog_ends[spec.name][group] = end
                        state.groups[stage.identity][group] = GroupState(*_FIRST, now)
        return state

    def _finish(self, state: CommittedState) -> EpochRecord:
        transactions = self._world.transactions
        record = state.to_record(self._world.clock.now_ms())
        transactions.begin()
        places: dict[TopicPartition, int] = state.sources.next_offsets
        if places:
            transactions.send_offsets({(p.topic, p.partition): at for p, at in places.items()})
        transactions.produce_tracked(
            epochs_topic(self._name), 0, [EPOCH_RECORD_KEY], [encode_epoch_record(record)]
        )
        transactions.commit()
        return record
