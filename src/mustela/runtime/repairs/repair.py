"""Changes where a stopped application continues: fences it, and writes its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mustela.config.settings import Settings
from mustela.errors import EnvironmentFault, UsageError
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.plan.plan import Plan
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.commit.epochs import EpochReader
from mustela.runtime.gate.answers import refuse
from mustela.runtime.gate.differences import Difference, Kind, led_by_others, marked
from mustela.runtime.ports import World
from mustela.runtime.record.epoch_record import (
    EPOCH_RECORD_KEY,
    EpochRecord,
    encode_epoch_record,
    epochs_topic,
)
from mustela.runtime.repairs.dropping import Drop, without
from mustela.runtime.repairs.edits import Edit, SourceView, beginning, edited
from mustela.runtime.repairs.upgrading import (
    ROWS_MAX,
    LogRow,
    Upgrading,
    imported_into,
    in_parts,
    old_rows,
    upgraded,
    written,
)
from mustela.runtime.topics.application_topics import internal_topics
from mustela.runtime.topics.found_topics import internal_topics_of
from mustela.runtime.topics.neighbours import CHANGELOG

__all__ = [
    "NoEpochRecordError",
    "RecordMovedError",
    "Repair",
    "Sight",
]


class NoEpochRecordError(UsageError):
    """The application has never run, so there is nothing to change."""

    code = "NO_EPOCH_RECORD"


class RecordMovedError(EnvironmentFault):
    """The application wrote an epoch between reading its record and changing it."""

    code = "EPOCH_RECORD_MOVED"


@dataclass(frozen=True, slots=True)
class Sight:
    """The situation before a change.

    Attributes:
        record: The last epoch record, None if there is none.
        views: Each source partition.
    """

    record: EpochRecord | None
    views: dict[TopicPartition, SourceView]


class Repair:
    """Finds out where an application is, and commits where it continues.

    A change is one transaction of the application's own producer, which fences a running instance:
    it holds the new epoch record and the group's offsets that mirror it. The next start finds a
    consistent state.

    Args:
        settings: Name the application and the brokers.
        world: Kafka, and the wall clock.
    """

    def __init__(self, settings: Settings, world: World) -> None:
        self._settings = settings
        self._name = settings.application_id
        self._world = world
        self._cluster = world.cluster

    def look(self, more: Iterable[str] = ()) -> Sight:
        """Return where the application is, without disturbing a running instance.

        Args:
            more: Further topics to look at, which it may never have read.
        """
        record = self._record()
        group = self._cluster.group_offsets(self._name)
        recorded: dict[TopicPartition, int] = {}
        ids: dict[str, str] = {}
        added = frozenset[TopicPartition]()
        if record is not None:
            recorded = {part.place: part.end for part in record.partitions}
            ids = dict(record.topic_ids)
        own = {epochs_topic(self._name)}
        topics = {*ids, *more, *(place.topic for place in (*recorded, *group))} - own
        there = self._cluster.describe(topics)
        places = [
            TopicPartition(topic, partition)
            for topic, found in there.items()
            for partition in range(found.partitions)
        ]
        starts = self._cluster.earliest_offsets(places) if places else {}
        ends = self._cluster.log_ends(places) if places else {}
        same = {p: e for p, e in ends.items() if there[p.topic].topic_id == ids.get(p.topic)}
        kept = self._cluster.kept_ends(led_by_others(record, same)) if record else {}
        if record is not None:
            kept = {p: at for p, at in marked(record).items() if p in same} | kept
        if record is not None and record.fingerprint:  # a run records all existing partitions
            added = frozenset(same.keys() - recorded.keys())
        views = {
            place: SourceView(
                place=place,
                recorded=recorded.get(place),
                group=group.get(place),
                earliest=starts.get(place),
                end=ends[place].offset if place in ends else None,
                leader=ends[place].leader_epoch if place in ends else -1,
                kept=kept.get(place),
                recorded_id=ids.get(place.topic, ""),
                broker_id=there[place.topic].topic_id if place.topic in there else "",
                is_added=place in added,
            )
            for place in sorted({*places, *recorded, *group})
        }
        return Sight(record, views)

    def recorded(self, sight: Sight) -> EpochRecord:
        """Return the record, which must exist.

        Raises:
            NoEpochRecordError: If there is none.
        """
        if sight.record is None:
            msg = f"{self._name} has no epoch record: it has never run on these brokers"
            raise NoEpochRecordError(
                msg,
                evidence={"brokers": self._settings.bootstrap_servers},
                fix="check the application's id; a first start reads from where auto_offset_reset "
                "says",
            )
        return sight.record

    def group_alone(self, sight: Sight) -> bool:
        """Return whether the group has offsets, and nothing else of the application exists.

        Raises:
            StateWithoutRecordError: If a changelog holds rows, which the record of a new
                application would not include.
        """
        own = internal_topics_of(self._name, self._cluster.topics())
        logs = [topic for topic in own if topic.endswith(CHANGELOG)]
        places = [
            TopicPartition(topic, partition)
            for topic, found in self._cluster.describe(logs).items()
            for partition in range(found.partitions)
        ]
        ends = self._cluster.end_offsets(places) if places else {}
        full = sorted({place.topic for place, end in ends.items() if end > 0})
        left = [Difference(kind=Kind.STATE_WITHOUT_RECORD, subject=topic) for topic in full]
        refuse(left, self._name)
        return any(view.group is not None for view in sight.views.values())

    def take_over(self) -> None:
        """Fence any running instance of the application."""
        self._world.transactions.reopen()

    def fence(self, sight: Sight) -> None:
        """Fence any running instance, and check that the record has not changed since ``sight``.

        Raises:
            RecordMovedError: If it has changed.
        """
        self.take_over()
        now, then = self._record(), sight.record
        if _token(now) != _token(then):
            msg = f"{self._name} wrote an epoch in the meantime, so nothing was changed"
            raise RecordMovedError(
                msg,
                evidence={"record then": _token(then), "record now": _token(now)},
                why="an instance was running; it is now fenced",
                fix="run the command again",
            )

    def change(self, sight: Sight, edit: Edit) -> EpochRecord:
        """Commit an edit of the record; state stays. Call it when older instances are fenced.

        Args:
            sight: The situation that the edit is based on.
            edit: The changes.
        """
        now_ms = self._world.clock.now_ms()
        record = edited(self.recorded(sight), edit, now_ms=now_ms)
        return self._commit(record, _mirrored(record, sight))

    def claim(self, state: CommittedState) -> EpochRecord:
        """Commit the record of a run that reads nothing. Call it when older instances are fenced.

        Args:
            state: What the claim of the run says.
        """
        return self._commit(state.to_record(self._world.clock.now_ms()), {})

    def drop(self, sight: Sight, drop: Drop) -> EpochRecord:
        """Commit a record without a store.

        Call it when older instances are fenced and its changelog is deleted. This order is safe if
        an application starts in between: it finds the store in the record without its changelog,
        and stops. In the other order it would take the rows in the changelog for rows of a new
        store.

        Args:
            sight: The situation that the drop is based on.
            drop: The store.
        """
        now_ms = self._world.clock.now_ms()
        record = without(self.recorded(sight), drop.store, now_ms=now_ms)
        return self._commit(record, {})  # a drop does not decide about a group that a tool moved

    def upgrade(
        self,
        sight: Sight,
        jobs: Iterable[Upgrading],
        read: Callable[[str, int, int], Iterator[LogRow]],
        say: Callable[[str], None],
    ) -> EpochRecord:
        """Rewrite the older rows of stores, and commit that none are left.

        Call it when older instances are fenced. Each transaction holds some rows and a record with
        the new end of their changelog, so that an application can continue after any of them, and
        the upgrade can be resumed.

        Args:
            sight: The situation that the jobs are based on.
            jobs: The stores.
            read: Reads a partition of a changelog up to an offset.
            say: Called with reports of what was done.

        Raises:
            SerdeError: If a row cannot be read, or its upgrade fails; what was committed stays.
        """
        record = self.recorded(sight)
        for job in jobs:
            count = 0
            for group, end in enumerate(record.changelog_ends[job.store]):
                rows = old_rows(job, partial(read, job.topic, group, end)) if end else iter(())
                for part in in_parts(rows):
                    record = self._rewrite(record, job, group, part)
                    count += len(part)
            record = self._commit(upgraded(record, job, now_ms=self._world.clock.now_ms()), {})
            say(f"rewrote {count} rows of {job.spec.name}")
        return record

    def _rewrite(
        self, record: EpochRecord, job: Upgrading, group: int, rows: list[tuple[bytes, bytes]]
    ) -> EpochRecord:
        transactions = self._world.transactions
        transactions.begin()
        keys: list[bytes | None] = [key for key, _ in rows]
        values: list[bytes | None] = [row for _, row in rows]
        transactions.produce_tracked(job.topic, group, keys, values)
        end = transactions.flush()[job.topic, group]
        record = written(record, job, group, end, now_ms=self._world.clock.now_ms())
        transactions.produce_tracked(
            epochs_topic(self._name), 0, [EPOCH_RECORD_KEY], [encode_epoch_record(record)]
        )
        transactions.commit()
        return record

    def import_rows(
        self,
        sight: Sight,
        store: tuple[str, str],
        rows: Iterable[tuple[int, Sequence[tuple[bytes, bytes | None]]]],
    ) -> EpochRecord:
        """Write rows to a changelog and the record of a new run, in one transaction.

        Call it when older instances are fenced.

        Args:
            sight: The situation that the rows are based on.
            store: The store's name in the record, and the identity of its stage.
            rows: The changelog rows of each key group; None deletes.
        """
        record, transactions = self.recorded(sight), self._world.transactions
        name, stage = store
        topic = changelog_topic(self._name, name)
        transactions.begin()
        written: list[int] = []
        for group, some in rows:
            for start in range(0, len(some), ROWS_MAX):
                part = some[start : start + ROWS_MAX]
                transactions.produce_tracked(
                    topic, group, [key for key, _ in part], [row for _, row in part]
                )
            written.append(group)
        ends = transactions.flush()
        now_ms = self._world.clock.now_ms()
        imported = imported_into(
            record, name, stage, {group: ends[topic, group] for group in written}, now_ms=now_ms
        )
        transactions.produce_tracked(
            epochs_topic(self._name), 0, [EPOCH_RECORD_KEY], [encode_epoch_record(imported)]
        )
        transactions.commit()
        return imported

    def begin(self, sight: Sight, edit: Edit, *, key_groups: int) -> EpochRecord:
        """Commit the record of an application without state that begins at these offsets.

        Call it when older instances are fenced and their state is deleted.

        Args:
            sight: The situation that the edit is based on.
            edit: Where to begin.
            key_groups: The number of key groups.
        """
        nothing = Plan(stages=(), topics=(), fingerprint="")
        self._cluster.create([*internal_topics(self._settings, nothing).values()])
        made = beginning(
            sight.record,
            edit,
            key_groups=key_groups,
            now_ms=self._world.clock.now_ms(),
            life=self._world.new_id(),
        )
        return self._commit(made, _mirrored(made, sight))

    def offsets_at(
        self, places: Iterable[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record at or after a time, or the end."""
        asked = list(places)
        found = self._cluster.offsets_for_times(dict.fromkeys(asked, time_ms)) if asked else {}
        offsets = {place: at for place, at in found.items() if at is not None}
        rest = [place for place in asked if place not in offsets]
        return {**offsets, **(self._cluster.end_offsets(rest) if rest else {})}

    def _record(self) -> EpochRecord | None:
        if not self._cluster.describe([epochs_topic(self._name)]):
            return None
        return EpochReader(self._world.epochs, self._name).last()

    def _commit(self, record: EpochRecord, offsets: Mapping[tuple[str, int], int]) -> EpochRecord:
        transactions = self._world.transactions
        transactions.begin()
        if offsets:
            transactions.send_offsets(offsets)
        transactions.produce_tracked(
            epochs_topic(self._name), 0, [EPOCH_RECORD_KEY], [encode_epoch_record(record)]
        )
        transactions.commit()
        return record

    def close(self) -> None:
        """Close the connections."""
        self._world.transactions.close()
        self._cluster.close()


def _mirrored(record: EpochRecord, sight: Sight) -> dict[tuple[str, int], int]:
    """Return the group's offsets that mirror a record, for existing partitions."""
    there = {place for place, view in sight.views.items() if view.end is not None}
    return {
        (part.topic, part.partition): part.end
        for part in record.partitions
        if (part.topic, part.partition) in there
    }


def _token(record: EpochRecord | None) -> tuple[int, int, int] | None:
    return None if record is None else (record.incarnation, record.epoch, record.attempt)
