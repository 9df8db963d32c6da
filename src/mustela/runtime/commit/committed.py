"""The committed state of an application, as the driver holds it between epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.plan.epoch import GlobalMark, GroupMark
from mustela.plan.plan import Plan
from mustela.runtime.commit.partition_rows import PartitionRows, partition_row
from mustela.runtime.record.epoch_record import EpochRecord, GroupState, PartitionState, StoreState
from mustela.runtime.record.history_row import Kept
from mustela.runtime.record.source_offsets import Cut, SourceOffsets
from mustela.runtime.record.store_names import with_log_names
from mustela.runtime.time.watermark import PartitionTime, WatermarkState
from mustela.state.interfaces import STATE_FORMAT, Token

__all__ = ["CommittedState", "EpochChange", "kept_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochChange:
    """What one epoch adds to the committed state.

    Attributes:
        token: The epoch.
        time_ms: Its wall-clock time.
        cuts: What it read.
        wrote: By stage, the key groups that it wrote.
        changelog_ends: New changelog ends, by (store, key group).
        watermark: The watermark after it.
        leaders: For the partitions that it read, a leader epoch in which the log reached the end of
            the cut, if known.
        mirrored: Whether the offsets of all partitions were mirrored to the group.
    """

    token: Token
    time_ms: int
    cuts: Mapping[TopicPartition, Cut]
    wrote: Mapping[int, Iterable[int]]
    changelog_ends: Mapping[tuple[str, int], int]
    watermark: WatermarkState
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    mirrored: bool = False


@dataclass(slots=True, kw_only=True)
class CommittedState:
    """The state after the last committed epoch.

    Attributes:
        plan: The running plan.
        key_groups: Number of key groups, G.
        lanes: Number of lanes, L.
        incarnation: Number of the last run that committed.
        epoch: Number of the last committed epoch.
        attempt: Its attempt.
        sources: Next offset of each source partition.
        watermark: Event time.
        topic_ids: Id of each source topic.
        groups: By stage identity, the last committed write of each key group.
        changelog_ends: By store, the changelog end of each key group.
        mirrored_ms: When all group offsets were last mirrored.
        global_marks: How far the topic of each global table was read.
        life: The name of the application's life.
        adopts_unnamed: Whether local state that names no life belongs to this one.
        event_time: What closes windows and fires timers.
        stores: Each store's properties, as of when it was last part of the program.
        dropped: The stores that were dropped, as in the record.
        dormant: For sources that are not read now, by topic, how far each partition was read.
        epochs_id: The id of the epochs topic, empty until it is confirmed.
        truncated: For sources that stop the application because they lost records that were read:
            up to which offset they still hold what was read.
    """

    plan: Plan
    key_groups: int
    lanes: int
    incarnation: int = 0
    epoch: int = 0
    attempt: int = 0
    sources: SourceOffsets = field(default_factory=SourceOffsets)
    watermark: WatermarkState = field(default_factory=WatermarkState)
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    groups: dict[str, list[GroupState | None]] = field(
        default_factory=dict[str, list[GroupState | None]]
    )
    changelog_ends: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    mirrored_ms: int = 0
    global_marks: dict[str, GlobalMark] = field(default_factory=dict[str, GlobalMark])
    life: str = ""
    adopts_unnamed: bool = False
    event_time: str = ""
    stores: dict[str, StoreState] = field(default_factory=dict[str, StoreState])
    dropped: list[str] = field(default_factory=list[str])
    dormant: dict[str, list[PartitionState]] = field(
        default_factory=dict[str, list[PartitionState]]
    )
    epochs_id: str = ""
    truncated: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    _rows: PartitionRows = field(default_factory=PartitionRows, repr=False, compare=False)

    def __post_init__(self) -> None:
        for stage in self.plan.stages:
            if stage.stores:
                self.groups.setdefault(stage.identity, [None] * self.key_groups)
            for store in stage.stores:
                if store.logged:
                    self.changelog_ends.setdefault(store.name, [0] * self.key_groups)

    @property
    def is_empty(self) -> bool:
        """Return whether no epoch was ever committed."""
        return self.epoch == 0

    @property
    def has_lane_state(self) -> bool:
        """Return whether any epoch ever wrote a key group."""
        return any(state is not None for states in self.groups.values() for state in states)

    def marks(self) -> dict[int, tuple[GroupMark, ...]]:
        """Return the committed state of each key group, by stage, for an epoch's order."""
        result: dict[int, tuple[GroupMark, ...]] = {}
        for stage in self.plan.stages:
            if not stage.stores:
                continue
            ends = [self.changelog_ends[store] for store in stage.logged]
            result[stage.index] = tuple(
                GroupMark(
                    None if state is None else (state.incarnation, state.epoch, state.attempt),
                    tuple(end[group] for end in ends),
                    0 if state is None else state.time_ms,
                )
                for group, state in enumerate(self.groups[stage.identity])
            )
        return result

    def after(self, change: EpochChange) -> CommittedState:
        """Return the state after an epoch; this one is not changed."""
        groups = {identity: list(states) for identity, states in self.groups.items()}
        for index, wrote in change.wrote.items():
            states = groups[self.plan.stages[index].identity]
            for group in wrote:
                states[group] = GroupState(*change.token, change.time_ms)
        ends = {store: list(known) for store, known in self.changelog_ends.items()}
        for (store, group), end in change.changelog_ends.items():
            ends[store][group] = end
        sources = SourceOffsets(dict(self.sources.next_offsets), dict(self.sources.leaders))
        sources.advance(change.cuts, change.leaders)
        return replace(
            self,
            incarnation=change.token.incarnation,
            epoch=change.token.epoch,
            attempt=change.token.attempt,
            sources=sources,
            watermark=change.watermark,
            groups=groups,
            changelog_ends=ends,
            mirrored_ms=change.time_ms if change.mirrored else self.mirrored_ms,
            global_marks=dict(self.global_marks),
        )

    def claimed_by(self, incarnation: int) -> CommittedState:
        """Return the same state under a new incarnation, which a start commits first."""
        return replace(self, incarnation=incarnation)

    def let_rest(self, topic: str) -> None:
        """Stop reading a source; its offsets are kept as long as its topic exists."""
        times, sources = self.watermark.partitions, self.sources
        places = sorted(place for place in sources.next_offsets if place.topic == topic)
        self.dormant[topic] = [
            partition_row(place, sources.position(place), times.pop(place, PartitionTime()))
            for place in places
        ]
        for place in places:
            del sources.next_offsets[place]
            sources.leaders.pop(place, None)

    def wake(self, topic: str, now_ms: int) -> None:
        """Read a source again, from where reading stopped."""
        for part in self.dormant.pop(topic, []):
            place = part.place
            self.sources.put(place, LogPosition(part.end, part.leader_epoch))
            self.watermark.partitions[place] = PartitionTime(part.max_timestamp, now_ms)

    def forget(self, topic: str) -> None:
        """Forget a dormant source whose topic is gone."""
        self.dormant.pop(topic, None)
        self.topic_ids.pop(topic, None)
        self.truncated = {place: at for place, at in self.truncated.items() if place.topic != topic}

    def to_record(self, time_ms: int) -> EpochRecord:
        """Return the epoch record of this state; later changes do not affect it."""
        sources, times = self.sources, self.watermark.partitions
        partitions = self._rows.rows(sources.next_offsets, times, sources.leaders)
        for _, parts in sorted(self.dormant.items()):
            partitions.extend(parts)
        record = EpochRecord(
            incarnation=self.incarnation,
            epoch=self.epoch,
            attempt=self.attempt,
            time_ms=time_ms,
            partitions=partitions,
            topic_ids=dict(self.topic_ids),
            groups={identity: list(states) for identity, states in self.groups.items()},
            changelog_ends={store: list(ends) for store, ends in self.changelog_ends.items()},
            watermark=self.watermark.value,
            key_groups=self.key_groups,
            lanes=self.lanes,
            fingerprint=self.plan.fingerprint,
            state_format=STATE_FORMAT,
            mirrored_ms=self.mirrored_ms,
            found_topics=list(self.plan.found_topics),
            global_ends={
                topic: (mark.topic_id, list(mark.ends))
                for topic, mark in sorted(self.global_marks.items())
            },
            global_logs={
                topic: (mark.losses, list(mark.leaders))
                for topic, mark in sorted(self.global_marks.items())
                if mark.losses or max(mark.leaders, default=-1) >= 0
            },
            layouts={name: spec.layout for name, (_, spec) in sorted(self.plan.stores.items())},
            life=self.life,
            adopts_unnamed=self.adopts_unnamed,
            event_time=self.event_time,
            stores=dict(self.stores),
            dropped=list(self.dropped),
            dormant=sorted(self.dormant),
            epochs_id=self.epochs_id,
            truncated=[(p.topic, p.partition, kept) for p, kept in sorted(self.truncated.items())],
        )
        return with_log_names(record, self.plan)


def kept_of(state: CommittedState) -> Kept:
    """Return what a row of the history topic names of a state."""
    return Kept(state.plan, state.changelog_ends, state.lanes, state.key_groups)
