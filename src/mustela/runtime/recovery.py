"""What a start finds in Kafka: topics, the last epoch record, and where to begin reading."""

from __future__ import annotations

from collections.abc import Mapping

from mustela.config.settings import Settings
from mustela.config.units import reset_duration_ms
from mustela.errors import EnvironmentFault, InvariantError, UsageError
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.plan.plan import Plan
from mustela.runtime.committed import CommittedState
from mustela.runtime.epoch_record import EpochRecord
from mustela.runtime.epochs import EpochReader, refuse_gone
from mustela.runtime.found_topics import with_found
from mustela.runtime.lagging import describe_all
from mustela.runtime.ports import World
from mustela.runtime.staleness import stale_ages
from mustela.runtime.topics import ensure_topics, internal_topics, sink_topics
from mustela.runtime.watermark import WatermarkState, watermark_options
from mustela.state.interfaces import STATE_FORMAT

__all__ = [
    "KeyGroupsChangedError",
    "NoStartOffsetError",
    "OffsetsMovedError",
    "Recovery",
    "SourceTopicRecreatedError",
    "StateWithoutRecordError",
    "StoreLayoutChangedError",
]


class KeyGroupsChangedError(UsageError):
    """The number of key groups differs from the one that the state was made with."""

    code = "KEY_GROUPS_CHANGED"


class StateFormatError(EnvironmentFault):
    """State and changelogs are of another format."""

    code = "STATE_FORMAT"


class StoreLayoutChangedError(UsageError):
    """A store is to be laid out in another way than the rows that it holds."""

    code = "STORE_LAYOUT_CHANGED"


class SourceTopicRecreatedError(EnvironmentFault):
    """A source topic was deleted and made anew: its offsets mean other records now."""

    code = "SOURCE_TOPIC_RECREATED"


class OffsetsMovedError(EnvironmentFault):
    """Somebody changed the consumer group's offsets, which only mirror the epoch record."""

    code = "OFFSETS_MOVED"


class StateWithoutRecordError(InvariantError):
    """Changelogs hold state, but there is no epoch record."""

    code = "STATE_WITHOUT_RECORD"


class NoStartOffsetError(UsageError):
    """A source has no recorded offset, and ``auto_offset_reset`` is ``none``."""

    code = "NO_START_OFFSET"


class Recovery:
    """Reads what the last run left, and refuses to go on where it does not fit.

    Args:
        settings: The settings.
        plan: The plan that is to run.
        world: Kafka, and the wall clock.
    """

    def __init__(self, settings: Settings, plan: Plan, world: World) -> None:
        self._settings = settings
        self._plan = plan
        self._admin = world.cluster
        self._epochs = EpochReader(world.epochs)
        self._clock = world.clock
        self._partitions: Mapping[str, int] = {}
        self.cluster_id = ""

    def ensure_topics(self) -> None:
        """Check all topics and create the internal ones."""
        self.cluster_id = self._admin.cluster_id()
        self._partitions = ensure_topics(self._admin, self._settings, self._plan, self._clock)

    def stale_after_ms(self) -> dict[str, int]:
        """Return by topic the age above which a local copy of it is not believed."""
        copied = [table.topic for table in self._plan.global_tables]
        topics = [*changelog_names(self._settings, self._plan), *copied]
        return stale_ages(self._admin.configs(topics))

    @property
    def widest_source(self) -> int:
        """The number of partitions of the widest source topic: what a new topic gets."""
        return max(self._partitions.values(), default=1)

    def sink_partitions(self) -> dict[str, int]:
        """Return the partition count of each sink topic that exists."""
        known = describe_all(self._admin, self._clock, sink_topics(self._plan))
        return {topic: described.partitions for topic, described in known.items()}

    def read_state(self, *, lanes: int) -> CommittedState:
        """Return the committed state, with a start offset for every live partition.

        Only to be called when older instances are fenced.
        """
        record = self._epochs.last()
        if self._plan.has_patterns:
            known = record.found_topics if record else ()
            name, there = self._settings.application_id, self._admin.topics()
            self._plan = with_found(self._plan, name, known, there)
        found = self._admin.describe(list(self._plan.topics))
        topic_ids = {topic: described.topic_id for topic, described in found.items()}
        self._partitions = {topic: described.partitions for topic, described in found.items()}
        options = watermark_options(self._settings)
        if record is None:
            self._refuse_state_without_record()
            self._refuse_foreign_group()
            state = CommittedState(
                plan=self._plan,
                key_groups=self._settings.key_groups,
                lanes=lanes,
                watermark=WatermarkState(options),
            )
        else:
            self._check(record, topic_ids)
            state = CommittedState.from_record(record, self._plan, lanes=lanes, options=options)
            self._check_group_offsets(state)
        state.topic_ids = topic_ids
        self._start_offsets(state, known=set(record.topic_ids) if record else set())
        return state

    def _check(self, record: EpochRecord, topic_ids: Mapping[str, str]) -> None:
        settings = self._settings
        if record.key_groups != settings.key_groups:
            msg = (
                f"key_groups is {settings.key_groups}, the state was made with {record.key_groups}"
            )
            raise KeyGroupsChangedError(
                msg,
                why="the number of key groups decides where each key's state is",
                fix=f"set key_groups to {record.key_groups}, or clear with mustela reset",
            )
        if record.state_format != STATE_FORMAT:
            msg = f"the state is of format {record.state_format}, this version reads {STATE_FORMAT}"
            raise StateFormatError(
                msg,
                fix="run the version that wrote it, or clear with mustela reset",
            )
        self._check_layouts(record)
        for topic, known in record.topic_ids.items():
            now = topic_ids.get(topic)
            if now is not None and now != known:
                raise _recreated(topic, known, now)

    def _check_layouts(self, record: EpochRecord) -> None:
        """Refuse a store whose rows were written in another layout."""
        for name, (_, spec) in self._plan.stores.items():
            known = record.layouts.get(name, spec.layout)
            holds = any(record.changelog_ends.get(name, ())) or not spec.logged
            if holds and not spec.reads(known):
                msg = f"store {name!r} is laid out in another way than its rows"
                raise StoreLayoutChangedError(
                    msg,
                    evidence={"rows": known, "program": spec.layout},
                    why="the kind of the store, or the times that it is made for, were changed",
                    fix="give the changed store another name, change it back, or clear with"
                    " mustela reset",
                    fields={"store": name},
                )

    def _refuse_state_without_record(self) -> None:
        names = changelog_names(self._settings, self._plan)
        places = [
            TopicPartition(name, group)
            for name in names
            for group in range(self._settings.key_groups)
        ]
        ends = self._admin.end_offsets(places) if places else {}
        full = sorted({place.topic for place, end in ends.items() if end > 0})
        if full:
            msg = f"{', '.join(full)} holds state, but no epoch record tells how far it goes"
            raise StateWithoutRecordError(
                msg,
                why="the epochs topic was deleted, or it lost its records",
                fix="mustela reset clears state and internal topics of the application",
            )

    def _refuse_foreign_group(self) -> None:
        """Offsets without any epoch record are those of a program that is not this one."""
        group = self._admin.group_offsets(self._settings.application_id)
        moved = {
            place: (None, offset)
            for place, offset in group.items()
            if place.topic in self._plan.topics
        }
        if moved:
            name = self._settings.application_id
            msg = f"consumer group {name} has offsets, but no epoch of {name} was ever committed"
            raise OffsetsMovedError(
                msg,
                evidence={
                    f"{place.topic}-{place.partition}": f"group {offset}"
                    for place, (_, offset) in list(moved.items())[:5]
                },
                why="another program uses this group, or a tool set its offsets; where to begin is"
                " for auto_offset_reset and the epoch record to say",
                fix="choose another application_id, or let mustela reset delete the group",
                fields={"moved": moved},
            )

    def _check_group_offsets(self, state: CommittedState) -> None:
        """Compare the group's offsets with the record they mirror."""
        group = self._admin.group_offsets(self._settings.application_id)
        moved = {
            place: (state.progress.next_offsets[place], offset)
            for place, offset in group.items()
            if place in state.progress.next_offsets and offset != state.progress.next_offsets[place]
        }
        if moved:
            shown = list(moved.items())[:5]
            msg = f"the offsets of consumer group {self._settings.application_id} were changed"
            raise OffsetsMovedError(
                msg,
                evidence={
                    f"{place.topic}-{place.partition}": f"epoch record {ours}, group {theirs}"
                    for place, (ours, theirs) in shown
                },
                why="the epoch record is the truth, the group only mirrors it: to follow the group"
                " alone would count records twice or lose them",
                fix="mustela reset --offsets keep-record writes the record's offsets back to the"
                " group; mustela reset begins anew without state, where auto_offset_reset says",
                fields={"moved": moved},
            )

    def add_new_partitions(self, state: CommittedState) -> None:
        """Read what was made since: partitions of known topics, and topics that match a pattern.

        New partitions are read from their start, new topics as ``auto_offset_reset`` says. With
        new topics ``state`` gets another plan.
        """
        known = set(state.topic_ids)
        if self._plan.has_patterns:
            name, there = self._settings.application_id, self._admin.topics()
            self._plan = state.plan = with_found(self._plan, name, (), there)
        internal = internal_topics(self._settings, self._plan)
        may_go = set(self._plan.found_topics)
        wanted = [*internal, *(topic for topic in self._plan.topics if topic not in may_go)]
        described = describe_all(self._admin, self._clock, wanted, maybe=may_go)
        refuse_gone(self._settings.application_id, internal.keys() - described.keys())
        for topic in self._plan.topics:
            if topic not in described:
                if topic not in may_go:
                    raise self._admin.missing_topic(topic, use="source")
                state.topic_ids.pop(topic, None)
                continue
            now = described[topic].topic_id
            then = state.topic_ids.setdefault(topic, now)
            if now != then:
                raise _recreated(topic, then, now)
        self._partitions = {
            topic: found.partitions for topic, found in described.items() if topic not in internal
        }
        self._start_offsets(state, known=known)

    def _start_offsets(self, state: CommittedState, known: set[str]) -> None:
        """Give every live partition without a recorded offset a start."""
        places = [
            TopicPartition(topic, partition)
            for topic, partitions in self._partitions.items()
            for partition in range(partitions)
        ]
        live = set(places)
        for place in list(state.progress.next_offsets):
            if place not in live:
                del state.progress.next_offsets[place]
        new = [place for place in places if place not in state.progress.next_offsets]
        if not new:
            return
        resets = self._resets()
        earliest = [p for p in new if p.topic in known or resets[p.topic] == "earliest"]
        others = [p for p in new if p.topic not in known]
        latest = [p for p in others if resets[p.topic] == "latest"]
        refused = [p for p in others if resets[p.topic] == "none"]
        since = {p: ms for p in others if (ms := reset_duration_ms(resets[p.topic])) is not None}
        if refused:
            msg = f"no recorded offset for {refused[0].topic}-{refused[0].partition}"
            raise NoStartOffsetError(
                msg,
                why="auto_offset_reset is none",
                fix="set auto_offset_reset to earliest, latest or by_duration:<duration>",
            )
        if since:
            state.progress.next_offsets.update(self._since(since))
        state.progress.next_offsets.update(self._admin.earliest_offsets(earliest))
        state.progress.next_offsets.update(self._admin.end_offsets(latest))

    def _since(self, spans: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of the first record that is not older than a span; else the end."""
        now = self._clock.now_ms()
        found = self._admin.offsets_for_times(
            {place: max(0, now - span) for place, span in spans.items()}
        )
        offsets = {place: offset for place, offset in found.items() if offset is not None}
        offsets.update(self._admin.end_offsets([place for place in spans if place not in offsets]))
        return offsets

    def _resets(self) -> dict[str, str]:
        resets = dict.fromkeys(self._plan.topics, self._settings.auto_offset_reset)
        for source in self._plan.stages[0].sources:
            if source.auto_offset_reset is not None:
                for topic in source.topics:
                    resets[topic] = source.auto_offset_reset  # type: ignore[assignment]
        return resets  # type: ignore[return-value]


def _recreated(topic: str, then: str, now: str) -> SourceTopicRecreatedError:
    msg = f"the source topic {topic} was deleted and made anew"
    return SourceTopicRecreatedError(
        msg,
        evidence={"id then": then, "id now": now},
        why="the offsets of the last epoch mean other records now",
        fix="clear with mustela reset to begin with the new topic",
    )


def changelog_names(settings: Settings, plan: Plan) -> list[str]:
    """Return the changelog topics of the application."""
    return [
        changelog_topic(settings.application_id, name)
        for name, (_, store) in plan.stores.items()
        if store.logged
    ]
