"""The epoch record: what Kafka alone knows of how far an application has come."""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

import msgspec

from mustela.errors import EnvironmentFault, InvariantError
from mustela.model import TopicPartition
from mustela.plan.epoch import epochs_topic

__all__ = [
    "EPOCH_RECORD_FORMAT",
    "EPOCH_RECORD_KEY",
    "EpochRecord",
    "EpochRecordFormatError",
    "GroupState",
    "PartitionState",
    "StoreState",
    "decode_body",
    "decode_epoch_record",
    "encode_epoch_record",
    "epochs_topic",
]

T = TypeVar("T")

EPOCH_RECORD_FORMAT = 2
"""2 names lives, stores and dormant sources; a record of format 1 names none."""
_READ = (1, EPOCH_RECORD_FORMAT)
EPOCH_RECORD_KEY = b"epoch"
_MAGIC = b"MEP"


class EpochRecordFormatError(EnvironmentFault):
    """The epochs topic holds a record that this version cannot read."""

    code = "EPOCH_RECORD_FORMAT"


class PartitionState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far one source partition was read.

    Attributes:
        topic: The topic.
        partition: The partition.
        end: Offset of the next record to read.
        max_timestamp: The largest timestamp seen, or -1.
        seen_ms: When the last record was seen, by the driver's clock.
        idle: Whether the partition is idle.
        leader_epoch: A leader epoch in which the log reached ``end``, or -1.
    """

    topic: str
    partition: int
    end: int
    max_timestamp: int = -1
    seen_ms: int = 0
    idle: bool = False
    leader_epoch: int = -1

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class StoreState(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a store was when it was last part of the program.

    Attributes:
        logged: Whether it had a changelog that holds all of it.
        changelog_id: The id of the changelog topic, which changes when it is made anew.
        stage: Identity of the stage where it lived.
        meaning: What its bytes mean, by name of the aspect.
        sources: The source topics whose records reach it.
        slept_at: Where it is not part of the program any more: topic, partition and offset of what
            its sources were read to when it left.
    """

    logged: bool
    changelog_id: str = ""
    stage: str = ""
    meaning: dict[str, Any] = {}
    sources: tuple[str, ...] = ()
    slept_at: list[tuple[str, int, int]] | None = None


class GroupState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was last committed of one key group of one stage."""

    incarnation: int
    epoch: int
    attempt: int
    time_ms: int


class EpochRecord(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One committed epoch.

    Attributes:
        incarnation: Number of the run of the application, counted from 1.
        epoch: Number of the epoch, counted from 1.
        attempt: Which run of the epoch was committed, counted from 0.
        time_ms: The epoch's one wall-clock time.
        partitions: Each source partition.
        topic_ids: Each source topic's id, which changes when a topic is deleted and made anew.
        groups: By stage identity, for each key group what was last committed, or None.
        changelog_ends: By store, for each key group the end offset of its changelog partition.
        watermark: The watermark in milliseconds, or -1.
        key_groups: Number of key groups, G.
        lanes: Number of lanes, L; says nothing about the state.
        fingerprint: Hash of the topology.
        state_format: Format of stores and changelogs.
        mirrored_ms: When group offsets of every partition were last committed.
        found_topics: Topics that were found by a pattern, in the order in which they were found,
            which is part of the order of their records.
        global_ends: By topic of a global table, its id and how far each partition was read.
        layouts: By store, how its rows are laid out.
        life: Names the life of the application: a reset begins another one.
        adopts_unnamed: Whether local state that names no life is this life's, because it began
            under a version that gave lives no names.
        event_time: What closes windows and fires timers.
        stores: By name, what each store was that was ever part of the program.
        dormant: The source topics that were not read in this epoch: they are not in the program,
            or were not there. What was read of them stays in ``partitions`` and ``topic_ids``.
        dropped: The stores that were dropped: some local state may have their rows yet, which no
            program may take for its own.
        epochs_id: The id of the epochs topic, which changes when it is deleted and made anew; empty
            where no look has made sure of it.
        global_logs: By topic of a global table, how often it lost records that were read, and for
            each partition a leader epoch in which the log reached the end in ``global_ends``.
        truncated: The source partitions that stopped the application because they lost what was
            read of them, and up to where they still were what was read, as it saw then. Nobody
            goes on until a person has said how, however far the logs have grown since.
    """

    incarnation: int
    epoch: int
    attempt: int
    time_ms: int
    partitions: list[PartitionState]
    topic_ids: dict[str, str]
    groups: dict[str, list[GroupState | None]]
    changelog_ends: dict[str, list[int]]
    watermark: int
    key_groups: int
    lanes: int
    fingerprint: str
    state_format: int
    mirrored_ms: int = 0
    found_topics: list[str] = []
    global_ends: dict[str, tuple[str, list[int]]] = {}
    layouts: dict[str, str] = {}
    life: str = ""
    adopts_unnamed: bool = False
    event_time: str = ""
    stores: dict[str, StoreState] = {}
    dormant: list[str] = []
    dropped: list[str] = []
    epochs_id: str = ""
    global_logs: dict[str, tuple[int, list[int]]] = {}
    truncated: list[tuple[str, int, int]] = []


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(EpochRecord)


def encode_epoch_record(record: EpochRecord) -> bytes:
    """Return the record as the value of a Kafka record: magic, format, compressed msgpack."""
    body = zlib.compress(_ENCODER.encode(record), 1)
    data = _MAGIC + bytes([EPOCH_RECORD_FORMAT]) + body
    assert decode_epoch_record(data).epoch == record.epoch
    return data


def decode_epoch_record(data: bytes, application_id: str = "APP") -> EpochRecord:
    """Return the record that `encode_epoch_record` made ``data`` from.

    Args:
        data: The value of a row of the epochs topic.
        application_id: Whose it is, for the errors.

    Raises:
        EpochRecordFormatError: If another version wrote it.
        InvariantError: If it is no epoch record at all.
    """
    if data[:3] != _MAGIC or len(data) < 4:
        msg = "the epochs topic holds something that is not an epoch record"
        raise InvariantError(msg, fix="find out who else writes to this topic")
    if data[3] not in _READ:
        msg = (
            f"the last epoch was written in format {data[3]}, this is format {EPOCH_RECORD_FORMAT}"
        )
        raise EpochRecordFormatError(
            msg,
            fix="run the version of Mustela that wrote it, or clear everything with: mustela reset"
            f" {application_id}",
        )
    return decode_body(_DECODER, data, application_id)


def decode_body(decoder: msgspec.msgpack.Decoder[T], data: bytes, application_id: str) -> T:
    """Return what a row of the epochs topic says after its magic and format.

    Args:
        decoder: Of its format.
        data: The row's value.
        application_id: Whose it is, for the error.

    Raises:
        InvariantError: If it is damaged.
    """
    try:
        return decoder.decode(zlib.decompress(data[4:]))
    except (zlib.error, msgspec.MsgspecError) as error:
        msg = f"the last epoch record is damaged: {error}"
        raise InvariantError(
            msg,
            fix="clear the application's state and internal topics with: mustela reset"
            f" {application_id}",
        ) from error
