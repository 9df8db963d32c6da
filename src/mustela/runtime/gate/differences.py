"""The differences between the last epoch record, the broker and the program. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from mustela.connectors.kafka.admin import TopicDescription
from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic, changelog_topics
from mustela.plan.plan import Plan
from mustela.runtime.record.epoch_record import EpochRecord, StoreState, epochs_topic
from mustela.runtime.topics.key_groups import recorded_key_groups
from mustela.runtime.topics.neighbours import Neighbour
from mustela.state.interfaces import STATE_FORMAT, StoreSpec
from mustela.topology.meaning_changes import compare_meanings
from mustela.topology.store_meaning import StoreMeaning

__all__ = [
    "BrokerFacts",
    "Difference",
    "Kind",
    "ProgramFacts",
    "differences",
    "expired",
    "ids_of",
    "led_by_others",
    "marked",
    "names_taken",
    "shared_changelogs",
    "truncated",
    "unchanged",
    "without_leader",
]


_TOLD_ELSEWHERE = frozenset({"layout", "logged"})


class Kind(Enum):
    """The kinds of differences; `answers.ANSWERS` maps each to its outcome."""

    EPOCHS_REMADE = "epochs-remade"
    KEY_GROUPS = "key-groups"
    STATE_FORMAT = "state-format"
    EVENT_TIME = "event-time"
    LIFE_UNNAMED = "life-unnamed"
    STATE_WITHOUT_RECORD = "state-without-record"
    GROUP_FOREIGN = "group-foreign"
    OFFSETS_MOVED = "offsets-moved"
    SOURCE_RECREATED = "source-recreated"
    SOURCE_REPLACED = "source-replaced"
    SOURCE_LEFT = "source-left"
    SOURCE_RETURNED = "source-returned"
    SOURCE_TRUNCATED = "source-truncated"
    SOURCE_EXPIRED = "source-expired"
    STORE_NAME_TAKEN = "store-name-taken"
    STORE_LAYOUT = "store-layout"
    STORE_MEANING = "store-meaning"
    STORE_VALUES = "store-values"
    STORE_AGGREGATES = "store-aggregates"
    STORE_WIDENED = "store-widened"
    STORE_UPGRADED = "store-upgraded"
    STORE_NOT_UPGRADED = "store-not-upgraded"
    STORE_VERSION_FALLEN = "store-version-fallen"
    STORE_UNCLAIMED = "store-unclaimed"
    STORE_SLEPT = "store-slept"
    STORE_RETURNED = "store-returned"
    FORMAT_NOT_HELD = "format-not-held"
    STORE_MOVED = "store-moved"
    STORE_UNLOGGED = "store-unlogged"
    STORE_DROPPED = "store-dropped"
    STORE_REOPENED = "store-reopened"
    CHANGELOG_SHARED = "changelog-shared"
    CHANGELOG_INCOMPLETE = "changelog-incomplete"
    CHANGELOG_RECREATED = "changelog-recreated"
    CHANGELOG_TRUNCATED = "changelog-truncated"


_STOPS_OF: Mapping[str, Kind] = {
    "value": Kind.STORE_VALUES,
    "value_shape": Kind.STORE_VALUES,
    "upgrade": Kind.STORE_NOT_UPGRADED,
    "fallen": Kind.STORE_VERSION_FALLEN,
}
_AGGREGATES = "aggregate:"
"""So begins the name of the serde of aggregates by name; their rows have no type to upgrade."""
_SAY_IT_ALL = frozenset({"version", "upgrade", "fallen"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference from the last epoch record.

    Attributes:
        kind: The kind of difference.
        subject: The topic, partition, store or setting.
        then: What the record says.
        now: What is found.
        fields: Values for programs.
    """

    kind: Kind
    subject: str
    then: str = ""
    now: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """The parts of the program and its settings that results depend on.

    Attributes:
        application_id: The application.
        plan: The plan, including the topics that patterns have found.
        key_groups: Number of key groups.
        event_time: What closes windows and fires timers.
        holds_format: Whether the release before must be able to go on afterwards.
    """

    application_id: str
    plan: Plan
    key_groups: int
    event_time: str
    holds_format: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """The findings on the broker.

    Attributes:
        topics: The sources and changelogs of record and program that exist.
        starts: The first offset of each partition of a recorded source topic that was not
            recreated.
        ends: The offset after the last record of each recorded partition, and of the changelogs'
            partitions.
        group: The offsets of the consumer group.
        kept: For partitions that lost records which were read: up to which offset they still hold
            what was read.
        epochs_id: The id of the epochs topic, empty if there is none.
        leaders: Leader epochs for recorded offsets without one.
        shared: The changelogs that another application writes, with that application.
    """

    topics: Mapping[str, TopicDescription]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    group: Mapping[TopicPartition, int]
    kept: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    epochs_id: str = ""
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    shared: Mapping[str, Neighbour] = field(default_factory=dict[str, Neighbour])


def differences(
    record: EpochRecord | None, broker: BrokerFacts, program: ProgramFacts
) -> list[Difference]:
    """Return all differences between record, broker and program.

    Args:
        record: The last epoch record, if any epoch was ever committed, with the stores under their
            names in the program; see `store_names`.
        broker: The findings on the broker.
        program: The program to run.
    """
    if record is None:
        return [*shared_changelogs(broker, program), *_without_record(broker, program)]
    return [
        *shared_changelogs(broker, program),
        *_epochs(record, broker, program),
        *_settings(record, program),
        *_sources(record, broker, program),
        *_offsets(record, broker),
        *_stores(record, broker, program),
    ]


def shared_changelogs(broker: BrokerFacts, program: ProgramFacts) -> Iterator[Difference]:
    """Yield the stores of the program whose changelogs belong to another application."""
    for name, (_, spec) in sorted(program.plan.stores.items()):
        topic = changelog_topic(program.application_id, spec.log_name)
        other = broker.shared.get(topic)
        if other is not None and spec.logged:
            yield Difference(
                kind=Kind.CHANGELOG_SHARED,
                subject=name,
                then=f"topic {topic}",
                now=f"that of store '{other.store}' of application {other.application_id}",
                fields={"topic": topic, "application": other.application_id},
            )


def _without_record(broker: BrokerFacts, program: ProgramFacts) -> Iterator[Difference]:
    logs = changelog_topics(program.application_id, program.plan)
    full = {place.topic for place, end in broker.ends.items() if place.topic in logs and end > 0}
    for topic in sorted(full - broker.shared.keys()):
        yield Difference(kind=Kind.STATE_WITHOUT_RECORD, subject=topic, now="holds rows")
    for place, offset in sorted(broker.group.items()):
        if place.topic in program.plan.topics:
            yield Difference(
                kind=Kind.GROUP_FOREIGN,
                subject=_name(place),
                now=f"group {offset}",
                fields={"moved": {place: (None, offset)}},
            )


def _epochs(
    record: EpochRecord, broker: BrokerFacts, program: ProgramFacts
) -> Iterator[Difference]:
    then, now = record.epochs_id, broker.epochs_id
    if then and now and then != now:
        yield _changed(Kind.EPOCHS_REMADE, epochs_topic(program.application_id), then, now)


def _settings(record: EpochRecord, program: ProgramFacts) -> Iterator[Difference]:
    if recorded_key_groups(record) not in {None, program.key_groups}:
        yield _changed(Kind.KEY_GROUPS, "key_groups", record.key_groups, program.key_groups)
    if record.state_format != STATE_FORMAT:
        yield _changed(Kind.STATE_FORMAT, "format", record.state_format, STATE_FORMAT)
    if record.event_time and record.event_time != program.event_time:
        yield _changed(Kind.EVENT_TIME, "event_time", record.event_time, program.event_time)
    if not record.life and program.holds_format:
        now = "a record that names the application's life"
        yield _changed(Kind.FORMAT_NOT_HELD, epochs_topic(program.application_id), "", now)
    if not record.life:
        yield Difference(kind=Kind.LIFE_UNNAMED, subject=program.application_id)


def _sources(
    record: EpochRecord, broker: BrokerFacts, program: ProgramFacts
) -> Iterator[Difference]:
    found = set(program.plan.found_topics)
    for topic, then in sorted(record.topic_ids.items()):
        there = broker.topics.get(topic)
        slept = topic in record.dormant
        if there is None or topic not in program.plan.topics:
            if not slept:
                now = "is not read" if there else "is not there"
                yield Difference(kind=Kind.SOURCE_LEFT, subject=topic, now=now)
        elif there.topic_id != then:
            kind = Kind.SOURCE_REPLACED if slept and topic in found else Kind.SOURCE_RECREATED
            yield _changed(kind, topic, then, there.topic_id)
        elif slept:
            yield Difference(kind=Kind.SOURCE_RETURNED, subject=topic)
    yield from _logs(record, broker, program)


def _logs(record: EpochRecord, broker: BrokerFacts, program: ProgramFacts) -> Iterator[Difference]:
    kept = {**marked(record), **broker.kept}
    for place, end in sorted(_recorded(record, broker, program).items()):
        last, first = broker.ends.get(place, end), broker.starts.get(place, end)
        if last < end or place in kept:
            yield truncated(place, end, last if last < end else None, kept.get(place))
        elif first > end:
            yield expired(place, end, first)
    for place, first in sorted(_added(record, broker, program).items()):
        if first > 0:
            yield expired(place, None, first)


def _added(
    record: EpochRecord, broker: BrokerFacts, program: ProgramFacts
) -> dict[TopicPartition, int]:
    """Return the starts of partitions that were added to topics since the record was written.

    A record written by a command names only the partitions it was given; a run names all.
    """
    if not record.fingerprint:
        return {}
    recorded = {part.place for part in record.partitions}
    return {
        place: first
        for place, first in broker.starts.items()
        if place not in recorded and place.topic in program.plan.topics
    }


def _recorded(
    record: EpochRecord, broker: BrokerFacts, program: ProgramFacts
) -> dict[TopicPartition, int]:
    """Return the recorded offsets of the topics that are read and were not recreated."""
    read = unchanged(record.topic_ids, ids_of(broker.topics)) & set(program.plan.topics)
    return {part.place: part.end for part in record.partitions if part.topic in read}


def _offsets(record: EpochRecord, broker: BrokerFacts) -> Iterator[Difference]:
    """Compare the group's offsets with the record that they mirror, for all recorded topics."""
    ends = {part.place: part.end for part in record.partitions}
    for place, theirs in sorted(broker.group.items()):
        there, ours = broker.topics.get(place.topic), ends.get(place)
        same = there is None or there.topic_id == record.topic_ids.get(place.topic)
        if ours is not None and ours != theirs and same:
            yield Difference(
                kind=Kind.OFFSETS_MOVED,
                subject=_name(place),
                then=f"epoch record {ours}",
                now=f"group {theirs}",
                fields={"moved": {place: (ours, theirs)}},
            )


def _stores(
    record: EpochRecord, broker: BrokerFacts, program: ProgramFacts
) -> Iterator[Difference]:
    claimed = program.plan.stores
    offsets = {(part.topic, part.partition): part.end for part in record.partitions}
    for name in sorted({*record.stores, *record.changelog_ends}):
        if name not in claimed and holds_rows(record, name):
            state = record.stores.get(name)
            if program.holds_format and (state is None or state.slept_at is None):
                now = "is not in the program, and would miss records"
                yield Difference(kind=Kind.FORMAT_NOT_HELD, subject=f"store '{name}'", now=now)
            if state is None or state.slept_at is None:
                yield Difference(kind=Kind.STORE_UNCLAIMED, subject=name)
    for name, (index, spec) in sorted(claimed.items()):
        if spec.log_name in record.dropped and not spec.logged:
            yield Difference(kind=Kind.STORE_DROPPED, subject=name)
        if not holds_rows(record, name):
            continue
        known = record.layouts.get(name, spec.layout)
        if not spec.reads(known):
            yield _changed(Kind.STORE_LAYOUT, name, known, spec.layout)
        state = record.stores.get(name)
        if state is None:
            continue
        yield from _meaning(name, state, program)
        yield from _rest(name, state, offsets)
        moved = program.plan.stages[index].identity not in record.groups
        yield from _log(record, broker, program, spec, moved=moved)


def ids_of(topics: Mapping[str, TopicDescription]) -> dict[str, str]:
    """Return the current id of each topic."""
    return {topic: found.topic_id for topic, found in topics.items()}


def unchanged(then: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the topics that were not recreated, by their ids.

    Example:
        >>> unchanged({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4"})
        {'a'}
    """
    return {topic for topic, topic_id in then.items() if now.get(topic) == topic_id}


def led_by_others(
    record: EpochRecord, ends: Mapping[TopicPartition, LogPosition]
) -> dict[TopicPartition, LogPosition]:
    """Return the read positions of partitions whose leader has changed since.

    Args:
        record: The last epoch record.
        ends: The ends of partitions that were not recreated.
    """
    read: dict[TopicPartition, LogPosition] = {}
    for part in record.partitions:
        place = part.place
        leader = ends[place].leader_epoch if place in ends else -1
        if -1 not in (leader, part.leader_epoch) and leader != part.leader_epoch:
            read[place] = LogPosition(part.end, part.leader_epoch)
    return read


def without_leader(
    record: EpochRecord, ends: Mapping[TopicPartition, LogPosition]
) -> dict[TopicPartition, int]:
    """Return the leaders of partitions that reach recorded offsets without a leader."""
    return {
        place: ends[place].leader_epoch
        for part in record.partitions
        if part.leader_epoch < 0
        and (place := part.place) in ends
        and 0 < part.end <= ends[place].offset
        and ends[place].leader_epoch >= 0
    }


def marked(record: EpochRecord) -> dict[TopicPartition, int]:
    """Return the sources that stopped the application, and what is left of what was read."""
    return {TopicPartition(topic, number): kept for topic, number, kept in record.truncated}


def expired(place: TopicPartition, read: int | None, first: int) -> Difference:
    """Return the difference for a source whose records were deleted before they were read.

    Args:
        place: The partition.
        read: The next offset to read; None if it was added since, and never read.
        first: Its first offset.
    """
    then = "never read" if read is None else f"read to {read}"
    return _changed(Kind.SOURCE_EXPIRED, _name(place), then, f"begins at {first}")


def truncated(place: TopicPartition, read: int, end: int | None, kept: int | None) -> Difference:
    """Return the difference for a source that lost records which were read.

    Args:
        place: The partition.
        read: The next offset to read.
        end: Its end; None if it has grown past ``read`` again.
        kept: Up to which offset it still holds what was read, if known.
    """
    parts = [] if end is None else [f"ends at {end}"]
    if kept is not None:
        parts.append(f"differs from {kept} on")
    now = ", ".join(parts)
    known = [at for at in (end, kept) if at is not None]
    return Difference(
        kind=Kind.SOURCE_TRUNCATED,
        subject=_name(place),
        then=f"read to {read}",
        now=now,
        fields={"kept": {place: min([read, *known])}},
    )


def names_taken(record: EpochRecord, plan: Plan) -> list[Difference]:
    """Return the renamed stores whose new name belonged to another store that still has rows.

    Args:
        record: The last epoch record as it was written, with stores under their changelogs' names.
        plan: The plan to run.
    """
    logs = plan.log_names
    return [
        Difference(kind=Kind.STORE_NAME_TAKEN, subject=name, now=log, fields={"renamed_from": log})
        for name, log in sorted(logs.items())
        if name != log and name not in logs.values() and holds_rows(record, name)
    ]


def holds_rows(record: EpochRecord, store: str) -> bool:
    """Return whether a store was ever written, as far as the record shows."""
    state = record.stores.get(store)
    if state is not None and not state.logged:
        return any(known is not None for known in record.groups.get(state.stage, ()))
    return any(record.changelog_ends.get(store, ()))


def _meaning(name: str, state: StoreState, program: ProgramFacts) -> Iterator[Difference]:
    """Compare the meaning of a store's rows with what the program expects."""
    if not state.meaning:
        return
    then, now = StoreMeaning.from_dict(state.meaning), program.plan.meanings[name]
    if now.grace_ms > then.grace_ms and then.retention_ms not in (-1, now.retention_ms):
        # Rows were kept only as long as late records were accepted: some that would count are gone.
        was, new = f"{then.grace_ms} ms", f"{now.grace_ms} ms"
        yield _changed(Kind.STORE_REOPENED, name, was, new)
    if program.holds_format:
        yield from _not_held(name, then, now)
    for change in compare_meanings(then, now):
        if change.field in _TOLD_ELSEWHERE:
            continue
        if change.compatible:
            kind = Kind.STORE_UPGRADED if change.field == "version" else Kind.STORE_WIDENED
        else:
            kind = _STOPS_OF.get(change.field, Kind.STORE_MEANING)
            if kind is Kind.STORE_VALUES and change.then.startswith(_AGGREGATES):
                kind = Kind.STORE_AGGREGATES
        yield Difference(
            kind=kind,
            subject=name,
            then=change.then if change.field in _SAY_IT_ALL else f"{change.field} {change.then}",
            now=change.now,
            fields={"store": name, "aspect": change.field, "why": change.why},
        )


def _not_held(name: str, then: StoreMeaning, now: StoreMeaning) -> Iterator[Difference]:
    """Yield what stops the program that wrote the rows when it comes back."""
    if then.version > now.version:
        there = f"rows of version {then.version} are there already"
        yield _changed(Kind.FORMAT_NOT_HELD, f"store '{name}'", there, f"version {now.version}")
        return
    for change in compare_meanings(replace(now, older=()), then):
        if not change.compatible and change.field not in _TOLD_ELSEWHERE:
            yield _changed(Kind.FORMAT_NOT_HELD, f"store '{name}'", change.now, change.then)
            return


def _rest(
    name: str, state: StoreState, offsets: Mapping[tuple[str, int], int]
) -> Iterator[Difference]:
    """Compare the offsets of a store's topics when it was removed with the current ones."""
    if state.slept_at is None:
        return
    missed = [
        f"{topic}-{partition}"
        for topic, partition, end in state.slept_at
        if offsets.get((topic, partition), end) != end
    ]
    if missed:
        now = f"records of {', '.join(missed[:5])} were read in the meantime"
        yield Difference(kind=Kind.STORE_SLEPT, subject=name, now=now)
    else:
        yield Difference(kind=Kind.STORE_RETURNED, subject=name)


def _log(
    record: EpochRecord,
    broker: BrokerFacts,
    program: ProgramFacts,
    spec: StoreSpec,
    *,
    moved: bool,
) -> Iterator[Difference]:
    """Compare a store's changelog with what the record says it holds."""
    name, state = spec.name, record.stores[spec.name]
    if not state.logged and (moved or record.groups.get(state.stage) is None):
        yield Difference(kind=Kind.STORE_MOVED, subject=name)
        return
    if spec.logged and not state.logged:
        yield Difference(kind=Kind.CHANGELOG_INCOMPLETE, subject=name)
        return
    if not spec.logged:
        if state.logged:
            kind = Kind.STORE_MOVED if moved else Kind.STORE_UNLOGGED
            yield Difference(kind=kind, subject=name)
        return
    topic = changelog_topic(program.application_id, spec.log_name)
    there = broker.topics.get(topic)
    if there is None:
        yield _changed(Kind.CHANGELOG_RECREATED, name, f"topic {topic}", "no such topic")
        return
    if state.changelog_id and there.topic_id != state.changelog_id:
        yield _changed(Kind.CHANGELOG_RECREATED, name, state.changelog_id, there.topic_id)
        return
    for group, end in enumerate(record.changelog_ends.get(name, ())):
        last = broker.ends.get(TopicPartition(topic, group), end)
        if last < end:
            told = f"{topic}-{group} ends at {last}"
            yield _changed(Kind.CHANGELOG_TRUNCATED, name, f"written to {end}", told)
            return


def _changed(kind: Kind, subject: str, then: object, now: object) -> Difference:
    return Difference(kind=kind, subject=subject, then=str(then), now=str(now))


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"
