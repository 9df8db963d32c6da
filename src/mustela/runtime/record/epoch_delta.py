"""The difference between an epoch record and the last whole one, as a small separate row.

A delta is relative to the last whole record, its base, and never to another delta. So the last
committed state is in two rows of the compacted epochs topic, each the newest of its key, whichever
other rows compaction has removed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, chain, compress, count, repeat
from operator import attrgetter, is_not, ne, sub
from typing import Any

import msgspec

from mustela.errors import InvariantError
from mustela.runtime.record.epoch_record import (
    EpochRecord,
    GroupState,
    PartitionState,
    decode_body,
    decode_epoch_record,
)

__all__ = [
    "EPOCH_DELTA_FORMAT",
    "EPOCH_DELTA_KEY",
    "EpochDelta",
    "PartitionColumns",
    "decode_row",
    "delta_between",
    "encode_epoch_delta",
    "is_delta",
    "token_of",
    "with_delta",
]

EPOCH_DELTA_FORMAT = 3
"""Whole records stay in format 2: a version without deltas reads them, and only them."""
EPOCH_DELTA_KEY = b"epoch-delta"
_HEAD = b"MEP" + bytes([EPOCH_DELTA_FORMAT])

_CHANGING = frozenset(
    {
        *("incarnation", "epoch", "attempt", "time_ms", "watermark", "mirrored_ms"),
        *("partitions", "groups", "changelog_ends", "global_ends"),
    }
)
_FIXED = tuple(name for name in EpochRecord.__struct_fields__ if name not in _CHANGING)
"""If any of these differs, a whole record is written."""

Epoch = tuple[int, int, int]


class PartitionColumns:
    """Partition rows as columns: with thousands of rows, no Python code runs per row.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: Sequence[PartitionState]) -> None:
        self.rows = rows

    @cached_property
    def topics(self) -> list[str]:
        """The topics."""
        return list(map(attrgetter("topic"), self.rows))

    @cached_property
    def partitions(self) -> list[int]:
        """The partitions."""
        return list(map(attrgetter("partition"), self.rows))

    @cached_property
    def ends(self) -> list[int]:
        """The offsets of the next records."""
        return list(map(attrgetter("end"), self.rows))

    @cached_property
    def stamps(self) -> list[int]:
        """The largest timestamps."""
        return list(map(attrgetter("max_timestamp"), self.rows))

    @cached_property
    def seen_ms(self) -> list[int]:
        """When records were last seen."""
        return list(map(attrgetter("seen_ms"), self.rows))

    @cached_property
    def idle(self) -> list[bool]:
        """Whether partitions are idle."""
        return list(map(attrgetter("idle"), self.rows))

    @cached_property
    def leaders(self) -> list[int]:
        """The leader epochs."""
        return list(map(attrgetter("leader_epoch"), self.rows))

    def where(self, wanted: Sequence[bool]) -> PartitionColumns:
        """Return some of the rows, with the columns that are known."""
        some = PartitionColumns(list(compress(self.rows, wanted)))
        known: dict[str, list[Any]] = {**vars(self)}
        del known["rows"]
        vars(some).update({name: list(compress(column, wanted)) for name, column in known.items()})
        return some


class PartitionChanges(msgspec.Struct, frozen=True, array_like=True):
    """How far source partitions were read, as columns of small numbers.

    Attributes:
        at: Which partitions of the base, each as its distance from the previous one.
        ends: How many offsets were read since the base.
        newest: The largest of their timestamps.
        older: By how much each one's largest timestamp is lower.
        turned: The places in these columns whose idleness differs from the base.
        others: Partitions with other changes, with their place in the base.
    """

    at: list[int] = []
    ends: list[int] = []
    newest: int = -1
    older: list[int] = []
    turned: list[int] = []
    others: list[tuple[int, PartitionState]] = []


class GroupChanges(msgspec.Struct, frozen=True, array_like=True):
    """The last writes of key groups of one stage; many of them are from the same epoch.

    Attributes:
        at: Which key groups, each as its distance from the previous one.
        which: For each, the place of its write in ``writes``.
        writes: The writes.
    """

    at: list[int]
    which: list[int]
    writes: list[GroupState | None]


class EndChanges(msgspec.Struct, frozen=True, array_like=True):
    """The ends of changelog partitions of one store.

    Attributes:
        at: Which key groups, each as its distance from the previous one.
        grown: By how many offsets each has grown.
    """

    at: list[int]
    grown: list[int]


class EpochDelta(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One committed epoch, as the difference from a whole record.

    Attributes:
        incarnation: Number of the run of the application.
        epoch: Number of the epoch.
        attempt: Which run of the epoch was committed.
        base: Incarnation, epoch and attempt of the whole record.
        time_ms: The epoch's one wall-clock time, in milliseconds.
        watermark: The watermark in milliseconds, or -1.
        mirrored_ms: When group offsets of every partition were last committed.
        partitions: Source partitions.
        groups: Key groups, by stage identity.
        changelog_ends: Changelogs, by store.
        global_ends: The global tables' topics of which more was read.
    """

    incarnation: int
    epoch: int
    attempt: int
    base: Epoch
    time_ms: int
    watermark: int
    mirrored_ms: int
    partitions: PartitionChanges
    groups: dict[str, GroupChanges]
    changelog_ends: dict[str, EndChanges]
    global_ends: dict[str, tuple[str, list[int]]]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(EpochDelta)


def token_of(record: EpochRecord | EpochDelta) -> Epoch:
    """Return incarnation, epoch and attempt, which identify a committed record."""
    return record.incarnation, record.epoch, record.attempt


def delta_between(
    base: EpochRecord, now: EpochRecord, columns: PartitionColumns | None = None
) -> EpochDelta | None:
    """Return the difference of ``now`` from ``base``, or None if a delta cannot express it.

    Rows of partitions and key groups that are the same objects in both are skipped.

    Args:
        base: A whole record.
        now: A later one.
        columns: The partitions of ``base``, for callers that make several deltas to it.
    """
    if any(_differ(getattr(base, name), getattr(now, name)) for name in _FIXED):
        return None
    same_shape = (
        _lengths(base.groups) == _lengths(now.groups)
        and _lengths(base.changelog_ends) == _lengths(now.changelog_ends)
        and base.global_ends.keys() == now.global_ends.keys()
    )
    if not same_shape:
        return None
    partitions = _partition_changes(columns or PartitionColumns(base.partitions), now.partitions)
    if partitions is None:
        return None
    groups = {
        stage: _group_changes(base.groups[stage], states) for stage, states in now.groups.items()
    }
    ends = {
        store: _end_changes(base.changelog_ends[store], found)
        for store, found in now.changelog_ends.items()
    }
    return EpochDelta(
        incarnation=now.incarnation,
        epoch=now.epoch,
        attempt=now.attempt,
        base=token_of(base),
        time_ms=now.time_ms,
        watermark=now.watermark,
        mirrored_ms=now.mirrored_ms,
        partitions=partitions,
        groups={stage: changes for stage, changes in groups.items() if changes.at},
        changelog_ends={store: changes for store, changes in ends.items() if changes.at},
        global_ends={
            topic: read
            for topic, read in now.global_ends.items()
            if read != base.global_ends[topic]
        },
    )


def with_delta(base: EpochRecord, delta: EpochDelta) -> EpochRecord:
    """Return the record that ``delta`` was created from.

    Raises:
        InvariantError: If the delta belongs to another record.
    """
    if delta.base != token_of(base):
        msg = f"a delta to {delta.base} does not fit the epoch record {token_of(base)}"
        raise InvariantError(msg, fix="this is a bug in Mustela: please report it")
    partitions = list(base.partitions)
    changes = delta.partitions
    turned = set(changes.turned)
    columns = zip(accumulate(changes.at), changes.ends, changes.older, strict=True)
    for row, (at, grown, older) in enumerate(columns):
        was = partitions[at]
        partitions[at] = PartitionState(
            was.topic,
            was.partition,
            was.end + grown,
            changes.newest - older,
            was.seen_ms,
            was.idle != (row in turned),
            was.leader_epoch,
        )
    for at, state in changes.others:
        partitions[at] = state
    groups = {stage: list(states) for stage, states in base.groups.items()}
    for stage, written in delta.groups.items():
        for at, which in zip(accumulate(written.at), written.which, strict=True):
            groups[stage][at] = written.writes[which]
    ends = {store: list(known) for store, known in base.changelog_ends.items()}
    for store, longer in delta.changelog_ends.items():
        for at, grown in zip(accumulate(longer.at), longer.grown, strict=True):
            ends[store][at] += grown
    return msgspec.structs.replace(
        base,
        incarnation=delta.incarnation,
        epoch=delta.epoch,
        attempt=delta.attempt,
        time_ms=delta.time_ms,
        watermark=delta.watermark,
        mirrored_ms=delta.mirrored_ms,
        partitions=partitions,
        groups=groups,
        changelog_ends=ends,
        global_ends={**base.global_ends, **delta.global_ends},
    )


def encode_epoch_delta(delta: EpochDelta) -> bytes:
    """Return the delta as the value of a Kafka record: magic, format, compressed msgpack."""
    data = _HEAD + zlib.compress(_ENCODER.encode(delta), 1)
    assert token_of(decode_row(data)) == token_of(delta)
    return data


def is_delta(data: bytes) -> bool:
    """Return whether the value of a row of the epochs topic is a delta."""
    return data[:4] == _HEAD


def decode_row(data: bytes, application_id: str = "APP") -> EpochRecord | EpochDelta:
    """Decode a row of the epochs topic.

    Args:
        data: Its value.
        application_id: The application, for the errors.

    Raises:
        EpochRecordFormatError: If another version wrote it.
        InvariantError: If it is damaged, or not an epoch record.
    """
    if not is_delta(data):
        return decode_epoch_record(data, application_id)
    return decode_body(_DECODER, data, application_id)


def _partition_changes(
    base: PartitionColumns, now: Sequence[PartitionState]
) -> PartitionChanges | None:
    """Return the differences of partitions, or None if they are not the same partitions."""
    if len(base.rows) != len(now):
        return None
    moved = list(map(is_not, now, base.rows))
    after = PartitionColumns(list(compress(now, moved)))
    if len(after.rows) == len(now):
        before = base  # whose columns exist from the previous delta
    else:
        before = PartitionColumns(list(compress(base.rows, moved)))
    if (after.topics, after.partitions) != (before.topics, before.partitions):
        return None
    changed = list(compress(count(), moved))
    others: list[tuple[int, PartitionState]] = []
    if (after.seen_ms, after.leaders) != (before.seen_ms, before.leaders):
        differs = [
            new != old
            for new, old in zip(
                zip(after.seen_ms, after.leaders, strict=True),
                zip(before.seen_ms, before.leaders, strict=True),
                strict=True,
            )
        ]
        others = list(compress(zip(changed, after.rows, strict=True), differs))
        same = [not other for other in differs]
        changed, after, before = (
            list(compress(changed, same)),
            after.where(same),
            before.where(same),
        )
    newest = max(after.stamps, default=-1)
    return PartitionChanges(
        at=_gaps(changed),
        ends=list(map(sub, after.ends, before.ends)),
        newest=newest,
        older=list(map(sub, repeat(newest), after.stamps)),
        turned=list(compress(count(), map(ne, after.idle, before.idle))),
        others=others,
    )


def _group_changes(
    base: Sequence[GroupState | None], now: Sequence[GroupState | None]
) -> GroupChanges:
    changed = [n for n in compress(range(len(now)), map(is_not, now, base)) if now[n] != base[n]]
    writes: list[GroupState | None] = []
    places: dict[int, int] = {}  # by identity: all writes of one epoch are one object
    which: list[int] = []
    for n in changed:
        state = now[n]
        place = places.get(id(state))
        if place is None:
            place = places[id(state)] = len(writes)
            writes.append(state)
        which.append(place)
    return GroupChanges(_gaps(changed), which, writes)


def _end_changes(base: Sequence[int], now: Sequence[int]) -> EndChanges:
    changed = [n for n, (old, new) in enumerate(zip(base, now, strict=True)) if old != new]
    return EndChanges(_gaps(changed), [now[n] - base[n] for n in changed])


def _gaps(places: Sequence[int]) -> list[int]:
    """Return each place as its distance from the previous one, the first one unchanged."""
    return list(map(sub, places, chain((0,), places)))


def _lengths(columns: dict[str, list[GroupState | None]] | dict[str, list[int]]) -> dict[str, int]:
    return {name: len(column) for name, column in columns.items()}


def _differ(one: object, other: object) -> bool:
    return one is not other and one != other
