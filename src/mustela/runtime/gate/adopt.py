"""Turns the findings of the gate into the state that a run begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.plan.epoch import GlobalMark, changelog_topic
from mustela.plan.feeds import topics_behind
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.gate.differences import holds_rows, marked
from mustela.runtime.gate.gate import Examination
from mustela.runtime.record.epoch_record import EpochRecord, GroupState, PartitionState, StoreState
from mustela.runtime.record.source_offsets import SourceOffsets
from mustela.runtime.time.watermark import PartitionTime, WatermarkOptions, WatermarkState
from mustela.topology.store_meaning import StoreMeaning, rows_left

__all__ = ["adopted", "global_marks_of"]


def adopted(
    seen: Examination, *, lanes: int, options: WatermarkOptions, new_id: Callable[[], str]
) -> CommittedState:
    """Return the state that a run begins with; new sources have no offsets in it yet.

    Args:
        seen: The findings of the gate, without a stop.
        lanes: Number of lanes.
        options: How the watermark follows partitions.
        new_id: Returns a name for a new life.
    """
    program, record = seen.program, seen.record
    plan = program.plan
    state = CommittedState(
        plan=plan,
        key_groups=program.key_groups,
        lanes=lanes,
        watermark=WatermarkState(options),
        event_time=program.event_time,
    )
    there = seen.broker.topics
    ids = {topic: there[topic].topic_id for topic in plan.topics if topic in there}
    if record is None:
        state.life = new_id()
        state.topic_ids = ids
        state.stores = _stores(seen, None)
        return state
    state.incarnation, state.epoch, state.attempt = record.incarnation, record.epoch, record.attempt
    state.life = record.life or new_id()
    state.epochs_id = seen.broker.epochs_id
    state.adopts_unnamed = record.adopts_unnamed or not record.life
    state.mirrored_ms = record.mirrored_ms
    state.watermark.value = record.watermark
    state.changelog_ends.update({name: list(ends) for name, ends in record.changelog_ends.items()})
    state.groups = _groups(state, record)
    state.global_marks = global_marks_of(record)
    _take_sources(state, record, ids, seen.broker.leaders)
    state.stores = _stores(seen, record)
    state.dropped = list(record.dropped)
    state.truncated = marked(record)
    return state


def global_marks_of(record: EpochRecord) -> dict[str, GlobalMark]:
    """Return how far the copies of global tables had read, by topic."""
    return {
        topic: _global_mark(topic_id, ends, *record.global_logs.get(topic, (0, ())))
        for topic, (topic_id, ends) in record.global_ends.items()
    }


def _global_mark(
    topic_id: str, ends: Sequence[int], losses: int, leaders: Sequence[int]
) -> GlobalMark:
    return GlobalMark(topic_id, tuple(ends), tuple(leaders), losses)


def _take_sources(
    state: CommittedState,
    record: EpochRecord,
    ids: dict[str, str],
    leaders: Mapping[TopicPartition, int],
) -> None:
    """Give each source its recorded offsets, and make sources that are not read now dormant."""
    state.sources = SourceOffsets()
    by_topic: dict[str, list[PartitionState]] = {topic: [] for topic in record.topic_ids}
    for part in record.partitions:
        by_topic.setdefault(part.topic, []).append(part)
    for topic, parts in by_topic.items():
        if topic in ids and ids[topic] == record.topic_ids.get(topic, ids[topic]):
            for part in parts:
                place = part.place
                leader = part.leader_epoch
                if leader < 0:
                    leader = leaders.get(place, -1)
                state.sources.put(place, LogPosition(part.end, leader))
                state.watermark.partitions[place] = PartitionTime(part.max_timestamp, 0, part.idle)
        elif topic not in ids:  # a recreated topic is not the one that was read
            state.dormant[topic] = parts
    then = record.topic_ids
    state.topic_ids = {**{t: then[t] for t in state.dormant if t in then}, **ids}


def _groups(state: CommittedState, record: EpochRecord) -> dict[str, list[GroupState | None]]:
    """Return the last writes of key groups, by stage of the program.

    Stages that are gone are forgotten: stores that come back are restored from their changelogs,
    whatever is still on disk. A stage with different stores than before has another place; there
    its stores are restored, as of the last epoch.
    """
    last = GroupState(record.incarnation, record.epoch, record.attempt, record.time_ms)
    groups: dict[str, list[GroupState | None]] = {}
    for stage in state.plan.stages:
        if not stage.stores:
            continue
        known = record.groups.get(stage.identity)
        if known is None:
            ends = [state.changelog_ends[name] for name in stage.logged]
            known = [last if any(column) else None for column in zip(*ends, strict=True)]
        groups[stage.identity] = list(known) or [None] * state.key_groups
    return groups


def _stores(seen: Examination, record: EpochRecord | None) -> dict[str, StoreState]:
    """Return the properties of all stores, including those no longer in the program."""
    program, topics = seen.program, seen.broker.topics
    sources, meanings = topics_behind(program.plan), program.plan.meanings
    stores: dict[str, StoreState] = {}
    for name, (index, spec) in program.plan.stores.items():
        log = topics.get(changelog_topic(program.application_id, spec.log_name))
        stores[name] = StoreState(
            logged=spec.logged,
            changelog_id=log.topic_id if log is not None and spec.logged else "",
            stage=program.plan.stages[index].identity,
            meaning=_meaning(name, meanings[name], record),
            sources=sources[name],
        )
    if record is not None:
        for name, was in record.stores.items():
            if name not in stores and holds_rows(record, name):
                stores[name] = was if was.slept_at is not None else _asleep(was, record)
    return stores


def _meaning(name: str, now: StoreMeaning, record: EpochRecord | None) -> dict[str, Any]:
    """Return the meaning of a store's rows from now on, with the older versions that may remain."""
    was = None if record is None else record.stores.get(name)
    if record is None or was is None or not was.meaning or not holds_rows(record, name):
        return replace(now, older=()).as_dict()
    return replace(now, older=rows_left(StoreMeaning.from_dict(was.meaning), now)).as_dict()


def _asleep(store: StoreState, record: EpochRecord) -> StoreState:
    at = [(p.topic, p.partition, p.end) for p in record.partitions if p.topic in store.sources]
    return StoreState(
        logged=store.logged,
        changelog_id=store.changelog_id,
        stage=store.stage,
        meaning=store.meaning,
        sources=store.sources,
        slept_at=at,
    )
