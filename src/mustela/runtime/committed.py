"""The committed state of an application, as the driver holds it between epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mustela.model import TopicPartition
from mustela.plan.epoch import GlobalMark, GroupMark
from mustela.plan.plan import Plan
from mustela.runtime.epoch_record import EpochRecord, GroupState, PartitionState
from mustela.runtime.progress import Cut, Progress
from mustela.runtime.watermark import PartitionTime, WatermarkOptions, WatermarkState
from mustela.state.interfaces import STATE_FORMAT, Token

__all__ = ["CommittedState", "EpochChange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochChange:
    """What one epoch adds to the committed state.

    Attributes:
        token: The epoch.
        time_ms: Its wall-clock time.
        cuts: What it read.
        wrote: For each stage the key groups that it wrote.
        changelog_ends: New changelog ends, by (store, key group).
        watermark: The watermark after it.
        mirrored: Whether the offsets of all partitions were mirrored to the group.
    """

    token: Token
    time_ms: int
    cuts: Mapping[TopicPartition, Cut]
    wrote: Mapping[int, Iterable[int]]
    changelog_ends: Mapping[tuple[str, int], int]
    watermark: WatermarkState
    mirrored: bool = False


@dataclass(slots=True, kw_only=True)
class CommittedState:
    """What the last committed epoch left.

    Attributes:
        plan: The plan that runs.
        key_groups: Number of key groups, G.
        lanes: Number of lanes, L.
        incarnation: Number of the run that committed last.
        epoch: Number of the last committed epoch.
        attempt: Its attempt.
        progress: Next offset of each source partition.
        watermark: Event time.
        topic_ids: Id of each source topic.
        groups: By stage identity, the last committed write of each key group.
        changelog_ends: By store, the changelog end of each key group.
        mirrored_ms: When all group offsets were mirrored last.
        global_marks: How far the topic of each global table was read.
    """

    plan: Plan
    key_groups: int
    lanes: int
    incarnation: int = 0
    epoch: int = 0
    attempt: int = 0
    progress: Progress = field(default_factory=Progress)
    watermark: WatermarkState = field(default_factory=WatermarkState)
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    groups: dict[str, list[GroupState | None]] = field(
        default_factory=dict[str, list[GroupState | None]]
    )
    changelog_ends: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    mirrored_ms: int = 0
    global_marks: dict[str, GlobalMark] = field(default_factory=dict[str, GlobalMark])

    def __post_init__(self) -> None:
        for stage in self.plan.stages:
            if stage.stores:
                self.groups.setdefault(stage.identity, [None] * self.key_groups)
            for store in stage.stores:
                if store.logged:
                    self.changelog_ends.setdefault(store.name, [0] * self.key_groups)

    @classmethod
    def from_record(
        cls, record: EpochRecord, plan: Plan, *, lanes: int, options: WatermarkOptions
    ) -> CommittedState:
        """Return the state that an epoch record tells of."""
        watermark = WatermarkState(options, record.watermark)
        progress = Progress()
        for part in record.partitions:
            place = TopicPartition(part.topic, part.partition)
            progress.next_offsets[place] = part.end
            watermark.partitions[place] = PartitionTime(part.max_timestamp, part.seen_ms, part.idle)
        return cls(
            plan=plan,
            key_groups=record.key_groups,
            lanes=lanes,
            incarnation=record.incarnation,
            epoch=record.epoch,
            attempt=record.attempt,
            progress=progress,
            watermark=watermark,
            topic_ids=dict(record.topic_ids),
            groups={identity: list(groups) for identity, groups in record.groups.items()},
            changelog_ends={store: list(ends) for store, ends in record.changelog_ends.items()},
            mirrored_ms=record.mirrored_ms,
            global_marks={
                topic: GlobalMark(topic_id, tuple(ends))
                for topic, (topic_id, ends) in record.global_ends.items()
            },
        )

    @property
    def is_empty(self) -> bool:
        """Whether no epoch was ever committed."""
        return self.epoch == 0

    @property
    def has_lane_state(self) -> bool:
        """Whether any epoch ever wrote a key group."""
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
        """Return the state after an epoch; this one stays as it is."""
        groups = {identity: list(states) for identity, states in self.groups.items()}
        for index, wrote in change.wrote.items():
            states = groups[self.plan.stages[index].identity]
            for group in wrote:
                states[group] = GroupState(*change.token, change.time_ms)
        ends = {store: list(known) for store, known in self.changelog_ends.items()}
        for (store, group), end in change.changelog_ends.items():
            ends[store][group] = end
        progress = Progress(dict(self.progress.next_offsets))
        progress.advance(change.cuts)
        return CommittedState(
            plan=self.plan,
            key_groups=self.key_groups,
            lanes=self.lanes,
            incarnation=change.token.incarnation,
            epoch=change.token.epoch,
            attempt=change.token.attempt,
            progress=progress,
            watermark=change.watermark,
            topic_ids=self.topic_ids,
            groups=groups,
            changelog_ends=ends,
            mirrored_ms=change.time_ms if change.mirrored else self.mirrored_ms,
            global_marks=dict(self.global_marks),
        )

    def claimed_by(self, incarnation: int) -> CommittedState:
        """Return the same state under a new incarnation, which a start commits first."""
        claimed = self.after(
            EpochChange(
                token=Token(incarnation, self.epoch, self.attempt),
                time_ms=0,
                cuts={},
                wrote={},
                changelog_ends={},
                watermark=self.watermark,
            )
        )
        return claimed

    def to_record(self, time_ms: int) -> EpochRecord:
        """Return the epoch record that tells of this state."""
        times = self.watermark.partitions
        nothing = PartitionTime()
        partitions = [
            PartitionState(
                place.topic,
                place.partition,
                end,
                times.get(place, nothing).max_timestamp,
                times.get(place, nothing).seen_ms,
                times.get(place, nothing).idle,
            )
            for place, end in sorted(self.progress.next_offsets.items())
        ]
        return EpochRecord(
            incarnation=self.incarnation,
            epoch=self.epoch,
            attempt=self.attempt,
            time_ms=time_ms,
            partitions=partitions,
            topic_ids=self.topic_ids,
            groups=self.groups,
            changelog_ends=self.changelog_ends,
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
            layouts={name: spec.layout for name, (_, spec) in sorted(self.plan.stores.items())},
        )
