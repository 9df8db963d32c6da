"""Edits of an epoch record, by commands that set where an application continues.

Pure functions: from the record, the group's offsets, the broker's offsets and the request to the
record that the next start should find. `repair` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from mustela.errors import UsageError
from mustela.model import TopicPartition
from mustela.runtime.record.epoch_record import EpochRecord, PartitionState
from mustela.state.interfaces import STATE_FORMAT

__all__ = [
    "Edit",
    "OffsetNotThereError",
    "SkipNotNextError",
    "SourceView",
    "UnknownSourceError",
    "Wanted",
    "accept_broker",
    "accept_group",
    "beginning",
    "edited",
    "move",
    "skip",
    "whole_topics",
]


class UnknownSourceError(UsageError):
    """The topic or partition of an offset to set does not exist."""

    code = "OFFSETS_UNKNOWN_SOURCE"


class OffsetNotThereError(UsageError):
    """An offset to be set is outside the range that the broker holds."""

    code = "OFFSETS_NOT_THERE"


class SkipNotNextError(UsageError):
    """The record to be skipped is not the next one that the application would read."""

    code = "OFFSETS_SKIP_NOT_NEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """One source partition as the epoch record, the group and the broker see it.

    Attributes:
        place: The partition.
        recorded: Its next offset in the epoch record; None if the record does not have it.
        group: The offset of the consumer group, which mirrors the record; None if it has none.
        earliest: The first offset that the broker holds; None if it has no such partition.
        end: The last stable offset; None if the broker has no such partition.
        leader: The leader epoch at that time, or -1 if unknown.
        kept: Up to which offset the log still holds what was read; None if it lost nothing, as far
            as leader epochs show.
        recorded_id: The id of the topic that was read, empty if the record does not have it.
        broker_id: The id of the existing topic, empty if there is none.
        is_added: Whether the partition was added to its topic since the record was written.

    Example:
        >>> view = SourceView(
        ...     place=TopicPartition("lines", 0), recorded=7, group=5, earliest=0, end=9,
        ...     recorded_id="a", broker_id="a",
        ... )
        >>> view.lag, view.trouble
        (2, 'the group was moved')
    """

    place: TopicPartition
    recorded: int | None = None
    group: int | None = None
    earliest: int | None = None
    end: int | None = None
    leader: int = -1
    kept: int | None = None
    recorded_id: str = ""
    broker_id: str = ""
    is_added: bool = False

    @property
    def lag(self) -> int | None:
        """The number of waiting offsets, or None if unknown."""
        if self.recorded is None or self.end is None:
            return None
        return max(0, self.end - self.recorded)

    @property
    def is_recreated(self) -> bool:
        """Whether the topic was recreated since it was read."""
        return bool(self.recorded_id and self.broker_id) and self.recorded_id != self.broker_id

    @property
    def trouble(self) -> str:
        """What has changed since the application stopped; empty if nothing."""
        if not self.broker_id or self.end is None or self.earliest is None:
            return "not there"
        if self.is_recreated:
            return "the topic was recreated"
        if self.is_added and self.earliest > 0:
            return "records were deleted unread"
        if self.recorded is None:
            return "" if self.group is None else "never read; only the group has an offset"
        if self.recorded > self.end or self.kept is not None:
            return "the log was truncated"
        if self.recorded < self.earliest:
            return "records were deleted unread"
        if self.group is not None and self.group != self.recorded:
            return "the group was moved"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The changes to a record.

    Attributes:
        offsets: New next offsets.
        leaders: Leader epochs in which the logs reached them, if known.
        topic_ids: Ids of their topics.
        dropped: Partitions that no longer exist.
    """

    offsets: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    leaders: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    dropped: frozenset[TopicPartition] = frozenset()


Wanted = Mapping[TopicPartition, int]
Views = Mapping[TopicPartition, SourceView]


def move(views: Views, wanted: Wanted) -> Edit:
    """Set the given offsets.

    Raises:
        UnknownSourceError: If there is no such topic or partition.
        OffsetNotThereError: If the broker does not hold the offset.
    """
    for place, offset in wanted.items():
        view = _there(views, place)
        assert view.earliest is not None, "it is there"
        assert view.end is not None, "it is there"
        if not view.earliest <= offset <= view.end:
            msg = f"{_name(place)} has no offset {offset}"
            raise OffsetNotThereError(
                msg,
                evidence={"earliest": view.earliest, "end": view.end},
                fix=f"choose an offset from {view.earliest} to {view.end}",
                fields={"topic": place.topic, "partition": place.partition},
            )
    ids = {place.topic: views[place].broker_id for place in wanted}
    return _with_rest(views, dict(wanted), ids)


def skip(views: Views, place: TopicPartition, offset: int) -> Edit:
    """Skip one record, which must be the next one.

    Raises:
        UnknownSourceError: If there is no such topic or partition.
        SkipNotNextError: If it is not the next record.
    """
    view = _there(views, place)
    if view.recorded == offset and view.end is not None and offset < view.end:
        return _edit(views, {place: offset + 1})
    msg = f"offset {offset} is not the next one of {_name(place)}"
    past = view.recorded is not None and view.recorded > offset
    raise SkipNotNextError(
        msg,
        evidence={"next": view.recorded, "end": view.end},
        why="it has been read already" if past else "the records before it have not been read yet",
        fix="mustela offsets show prints where the application is"
        if past
        else "let the application advance to it in epochs of one record: mustela run MODULE:APP "
        "--set epoch.max_records=1; when it stops at the record, skip it",
        fields={"next": view.recorded},
    )


def accept_group(views: Views) -> Edit:
    """Continue from the offsets of the consumer group, which were changed from outside.

    Raises:
        OffsetNotThereError: If the broker does not hold the offset.
    """
    moved = {
        place: view.group
        for place, view in views.items()
        if view.group is not None and view.group != view.recorded and view.end is not None
    }
    return move(views, moved)


def accept_broker(views: Views) -> Edit:
    """Continue where the broker's logs allow it, after topics were recreated or logs truncated.

    A recreated topic is read from its start. If records were deleted unread, including those of a
    partition added since, reading continues at the first record left. If the log lost records that
    were read, reading continues where it still holds what was read, or at its end if leader epochs
    do not show that.
    """
    offsets: dict[TopicPartition, int] = {}
    ids: dict[str, str] = {}
    dropped: set[TopicPartition] = set()
    for place, view in views.items():
        if view.is_added and view.earliest:
            offsets[place] = view.earliest
            continue
        if view.recorded is None and not view.is_recreated:
            continue
        if view.earliest is None or view.end is None:
            if view.is_recreated:
                dropped.add(place)
            continue
        if view.is_recreated:
            offsets[place], ids[place.topic] = view.earliest, view.broker_id
            continue
        assert view.recorded is not None, "asked above"
        kept = max(view.earliest, min(view.recorded if view.kept is None else view.kept, view.end))
        if kept != view.recorded:
            offsets[place] = kept
    return _edit(views, offsets, ids, frozenset(dropped))


def edited(record: EpochRecord, edit: Edit, *, now_ms: int) -> EpochRecord:
    """Return the record after an edit, with a new incarnation and the same epoch and state.

    Watermarks stay, as they never go back; a partition of a recreated topic has none.
    """
    anew = {topic for topic, id_ in edit.topic_ids.items() if record.topic_ids.get(topic) != id_}
    partitions: dict[TopicPartition, PartitionState] = {}
    for part in record.partitions:
        place = part.place
        if place not in edit.dropped:
            partitions[place] = part
    for place, offset in edit.offsets.items():
        before, leader = partitions.get(place), edit.leaders.get(place, -1)
        if before is None or place.topic in anew:
            partitions[place] = PartitionState(*place, offset, leader_epoch=leader)
        else:
            # Nothing else in the record about the old offset applies to the new one.
            time = before.max_timestamp, before.seen_ms, before.idle
            partitions[place] = PartitionState(*place, offset, *time, leader)
    return msgspec.structs.replace(
        record,
        incarnation=record.incarnation + 1,
        time_ms=now_ms,
        partitions=[part for _, part in sorted(partitions.items())],
        topic_ids={**record.topic_ids, **edit.topic_ids},
        mirrored_ms=now_ms,
        truncated=[
            mark
            for mark in record.truncated
            if TopicPartition(*mark[:2]) not in edit.offsets.keys() | edit.dropped
            and mark[0] not in anew
        ],
    )


def beginning(
    record: EpochRecord | None, edit: Edit, *, key_groups: int, now_ms: int, life: str
) -> EpochRecord:
    """Return the record of an application without state that begins at these offsets.

    Args:
        record: The last record, whose incarnation is continued.
        edit: Where to begin.
        key_groups: The number of key groups.
        now_ms: Wall-clock time.
        life: The name of the new life.
    """
    return EpochRecord(
        incarnation=1 if record is None else record.incarnation + 1,
        epoch=0,
        attempt=0,
        time_ms=now_ms,
        partitions=[
            PartitionState(*place, offset, leader_epoch=edit.leaders.get(place, -1))
            for place, offset in sorted(edit.offsets.items())
        ],
        topic_ids=dict(edit.topic_ids),
        groups={},
        changelog_ends={},
        watermark=-1,
        key_groups=key_groups,
        lanes=1,
        fingerprint="",
        state_format=STATE_FORMAT,
        mirrored_ms=now_ms,
        life=life,
    )


def _there(views: Views, place: TopicPartition) -> SourceView:
    view = views.get(place)
    if view is not None and view.end is not None and view.earliest is not None:
        return view
    known = sorted(other.partition for other in views if other.topic == place.topic)
    if known:
        msg = f"the topic {place.topic} has no partition {place.partition}"
        fix = f"its partitions are {known[0]} to {known[-1]}"
    else:
        msg = f"there is no topic {place.topic}"
        topics = ", ".join(sorted({other.topic for other in views}))
        fix = f"the application reads {topics}" if topics else "check the topic's name"
    raise UnknownSourceError(msg, fix=fix, fields={"topic": place.topic})


def _with_rest(views: Views, wanted: dict[TopicPartition, int], ids: dict[str, str]) -> Edit:
    """Add the other partitions of recreated topics, whose offsets mean other records."""
    again = {place.topic for place in wanted if views[place].is_recreated}
    rest = accept_broker({p: view for p, view in views.items() if p.topic in again})
    offsets = {**rest.offsets, **wanted}
    return _edit(views, offsets, {**rest.topic_ids, **ids}, rest.dropped)


def _edit(
    views: Views,
    offsets: dict[TopicPartition, int],
    topic_ids: Mapping[str, str] | None = None,
    dropped: frozenset[TopicPartition] = frozenset(),
) -> Edit:
    """Return an edit with the leaders that have the logs up to the offsets."""
    leaders = {
        place: views[place].leader
        for place, offset in offsets.items()
        if 0 < offset <= (views[place].end or 0)
    }
    return Edit(offsets=offsets, leaders=leaders, topic_ids=dict(topic_ids or {}), dropped=dropped)


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


def whole_topics(views: Views, topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of topics on the broker.

    Raises:
        UnknownSourceError: If there is no such topic.
    """
    found: list[TopicPartition] = []
    for topic in topics:
        places = [p for p, view in views.items() if p.topic == topic and view.end is not None]
        if not places:
            _there(views, TopicPartition(topic, 0))
        found += sorted(places)
    return found
