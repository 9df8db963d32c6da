"""The epoch record: the only record of an application's progress, kept in Kafka."""

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
"""Format 2 holds lives, stores and dormant sources; format 1 does not."""
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
        seen_ms: When the last record was seen, by the driver's clock, in milliseconds.
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
    """The properties of a store when it was last part of the program.

    Attributes:
        logged: Whether it had a changelog that holds all of it.
        changelog_id: The id of the changelog topic, which changes when it is recreated.
        stage: Identity of its stage.
        meaning: The meaning of its bytes, by name of the aspect.
        sources: The source topics whose records reach it.
        slept_at: If it is no longer part of the program: topic, partition and offset that its
            sources had been read to when it was removed.
    """

    logged: bool
    changelog_id: str = ""
    stage: str = ""
    meaning: dict[str, Any] = {}
    sources: tuple[str, ...] = ()
    slept_at: list[tuple[str, int, int]] | None = None


class GroupState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last committed write of one key group of one stage."""

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
        time_ms: The epoch's one wall-clock time, in milliseconds.
        partitions: Each source partition.
        topic_ids: Each source topic's id, which changes when a topic is recreated.
        groups: By stage identity, the last committed write of each key group, or None.
        changelog_ends: By store, the end offset of each key group's changelog partition.
        watermark: The watermark in milliseconds, or -1.
        key_groups: Number of key groups, G.
        lanes: Number of lanes, L; the state does not depend on it.
        fingerprint: Hash of the topology.
        state_format: Format of stores and changelogs.
        mirrored_ms: When group offsets of every partition were last committed.
        found_topics: Topics that matched a pattern, in the order in which they were found, which is
            part of the order of their records.
        global_ends: By topic of a global table, its id and the offset read in each partition.
        layouts: By store, the layout of its rows.
        life: The name of the application's life: a reset begins a new one.
        adopts_unnamed: Whether local state that names no life belongs to this one, because the life
            began under a version that did not name lives.
        event_time: What closes windows and fires timers.
        stores: By name, each store that was ever part of the program.
        dormant: The source topics that were not read in this epoch, because they are not in the
            program or did not exist. Their offsets stay in ``partitions`` and ``topic_ids``.
        dropped: The stores that were dropped: some local state may still have their rows, which no
            program may use.
        epochs_id: The id of the epochs topic, which changes when it is recreated; empty until it is
            confirmed.
        global_logs: By topic of a global table, how often it lost records that were read, and a
            leader epoch for each partition in which the log reached the end in ``global_ends``.
        truncated: The source partitions that stopped the application because they lost records
            which were read, and up to which offset they still held what was read at that time. The
            application does not continue until a command says how, however far the logs have grown
            since.
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
    """Return the record that `encode_epoch_record` encoded as ``data``.

    Args:
        data: The value of a row of the epochs topic.
        application_id: The application, for the errors.

    Raises:
        EpochRecordFormatError: If another version wrote it.
        InvariantError: If it is not an epoch record.
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
    """Decode a row of the epochs topic after its magic and format.

    Args:
        decoder: The decoder of its format.
        data: The row's value.
        application_id: The application, for the error.

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
