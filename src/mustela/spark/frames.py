"""The byte frames that travel between the tasks of one Spark job, and back to the driver.

A frame is one shuffled item: a header, a name, and a body. Frames live as long
as one job and come from the application's own workers, so bodies may hold pickled Python objects.
Nothing that outlives the job is written this way.
"""

from __future__ import annotations

import marshal
import pickle
import struct
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

from mustela.model import Headers
from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.sealed import SealedPart, SealedRows
from mustela.spark.pickling import dump_by_value

__all__ = [
    "CHANGELOG",
    "DEAD_LETTERS",
    "EXCHANGE",
    "FRAME_FORMAT",
    "MARKERS",
    "OWNED",
    "OWNER",
    "PLACED",
    "REPORT",
    "ROWS",
    "SEALED",
    "Frame",
    "FrameColumns",
    "dump_object",
    "load_object",
    "pack",
    "pack_batch",
    "pack_columns",
    "pack_placed",
    "pack_sealed",
    "unpack",
    "unpack_batch",
    "unpack_columns",
    "unpack_placed",
    "unpack_sealed",
]

FRAME_FORMAT = 1

EXCHANGE, MARKERS, ROWS, CHANGELOG, DEAD_LETTERS, REPORT, PLACED, SEALED, OWNED, OWNER = range(10)
"""Kinds of frames: records for a stage; what sources saw; and, for the driver, sink rows,
changelog rows, dead letters, a task's report, sink rows that the driver sorts, and sink rows that
are put together already. Such rows for an owner of partitions, which the driver writes if there are
no owners; and what an owner reports."""

_HEAD = struct.Struct("!BBhhiIH")
_LENGTHS = struct.Struct("!?Q")
_SIZE = struct.Struct("!Q")

_PLAIN = 2
"""The format of ``marshal`` that does not look for objects that come twice, which takes longer."""

_PLAIN_TYPES = frozenset({bytes, str, int, float, bool, type(None)})
"""What ``marshal`` gives back as it was; of other types it may make one of these."""


class Frame(NamedTuple):
    """A frame, its body still packed.

    Attributes:
        kind: One of the kinds of this module.
        stage: Stage that receives it, or -1 for the driver.
        sender_stage: Stage that sent it.
        sender_task: Task of that stage.
        sequence: Number of the frame in its task; with the sender it orders frames.
        name: Exchange, topic or store; an owner's number.
        body: The packed columns.
    """

    kind: int
    stage: int
    sender_stage: int
    sender_task: int
    sequence: int
    name: str
    body: bytes

    @property
    def place(self) -> tuple[int, int, int]:
        """What frames are sorted by: a shuffle delivers them in any order."""
        return self.sender_stage, self.sender_task, self.sequence


class FrameColumns(NamedTuple):
    """Encoded rows for one topic, or for one partition of a changelog.

    Attributes:
        topics: One topic for all rows, or one for each.
        keys: Keys as bytes.
        values: Values as bytes.
        timestamps: Milliseconds; None lets the broker choose.
        headers: Headers per row, or None where no row has any.
        partitions: Partition per row, one for all rows, or None for Kafka's partitioner.
    """

    topics: str | list[str]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int] | None = None
    headers: list[Headers] | None = None
    partitions: list[int | None] | int | None = None


def pack(frame: Frame) -> bytes:
    """Return the frame as bytes."""
    name = frame.name.encode()
    head = _HEAD.pack(
        FRAME_FORMAT,
        frame.kind,
        frame.stage,
        frame.sender_stage,
        frame.sender_task,
        frame.sequence,
        len(name),
    )
    return b"".join((head, name, frame.body))


def unpack(data: bytes) -> Frame:
    """Return the frame that `pack` made ``data`` from."""
    version, kind, stage, sender_stage, sender_task, sequence, length = _HEAD.unpack_from(data)
    assert version == FRAME_FORMAT, f"frame of format {version} in a job of format {FRAME_FORMAT}"
    start = _HEAD.size + length
    name = data[_HEAD.size : start].decode()
    return Frame(kind, stage, sender_stage, sender_task, sequence, name, data[start:])


def pack_columns(columns: FrameColumns) -> bytes:
    """Return rows of bytes and integers as bytes; ``marshal`` is the fastest way for those."""
    return marshal.dumps(tuple(columns), _PLAIN)


def unpack_columns(data: bytes | memoryview) -> FrameColumns:
    """Return the rows that `pack_columns` made ``data`` from."""
    return FrameColumns(*marshal.loads(data))


def pack_placed(columns: FrameColumns, places: Sequence[tuple[Any, ...]]) -> bytes:
    """Return rows and what they are sorted by as bytes."""
    both: Any = tuple(columns), places
    return marshal.dumps(both, _PLAIN)


def unpack_placed(data: bytes | memoryview) -> tuple[FrameColumns, list[tuple[Any, ...]]]:
    """Return the rows that `pack_placed` made ``data`` from, and what they are sorted by."""
    columns, places = marshal.loads(data)
    return FrameColumns(*columns), places


def pack_sealed(part: SealedPart) -> list[bytes]:
    """Return rows that are put together as bytes, in parts: the batches as they are."""
    batches = [records for rows in part.rows for _, records, _ in rows.batches]
    told: Any = [
        (rows.topic, rows.partition, [(tail, len(records), n) for tail, records, n in rows.batches])
        for rows in part.rows
    ]
    head = marshal.dumps(told, _PLAIN)
    return [_SIZE.pack(len(head)), head, *batches]


def unpack_sealed(data: bytes | memoryview) -> SealedPart:
    """Return the rows that `pack_sealed` made ``data`` from."""
    view, found = memoryview(data), list[SealedRows]()
    at = _SIZE.size + _SIZE.unpack_from(view)[0]
    for topic, partition, told in marshal.loads(view[_SIZE.size : at]):
        batches: list[tuple[bytes, bytes, int]] = []
        for tail, size, count in told:
            batches.append((tail, bytes(view[at : at + size]), count))
            at += size
        found.append(SealedRows(topic, partition, batches))
    return SealedPart(found)


def dump_object(value: Any) -> bytes:
    """Pickle ``value``; classes that only the driver's main program knows travel by value."""
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return dump_by_value(value)


def load_object(data: bytes | memoryview) -> Any:
    """Return the object of a frame of this job."""
    return pickle.loads(data)


def pack_batch(
    batch: Batch, index: Sequence[int] | None = None, *, ordered: bool, raw: bool = False
) -> list[bytes]:
    """Return the rows at ``index`` (all rows if None) as bytes, in parts.

    Key bytes travel, not keys: the receiver makes each key once from its bytes.
    """
    rows = batch if index is None else batch.take(index, keys=False)
    columns = (
        rows.key_bytes,
        rows.timestamps,
        *(_order_of(rows) if ordered else (False, None)),
        rows.headers,
        rows.latest,
        rows.raws if raw else None,
    )
    encoded = marshal.dumps(columns, _PLAIN)
    plain = _PLAIN_TYPES.issuperset(map(type, rows.values)) and rows.olds is None
    values = rows.values
    packed = marshal.dumps(values, _PLAIN) if plain else dump_object((values, rows.olds))
    return [_LENGTHS.pack(plain, len(encoded)), encoded, packed]


def _order_of(rows: Batch) -> tuple[bool, Any]:
    """Return orders as columns, which travel faster; those of unequal length stay as they are.

    Where changes of a table meet records that came straight from a source, lengths differ.
    """
    columns = rows.order_columns
    if columns is not None:
        return True, columns
    order = rows.order
    if order is None:
        return False, None
    try:
        return True, list(map(list, zip(*order, strict=True)))
    except ValueError:
        return False, order


def unpack_batch(data: bytes | memoryview, topics: Sequence[str]) -> Batch:
    """Return the batch that `pack_batch` made ``data`` from, without its keys."""
    plain, length = _LENGTHS.unpack_from(data)
    rest = memoryview(data)[_LENGTHS.size :]
    packed: tuple[Any, ...] = marshal.loads(rest[:length])
    key_bytes, timestamps, by_column, places, headers, latest, raws = packed
    if plain:
        values, olds = marshal.loads(rest[length:]), None
    else:
        values, olds = load_object(rest[length:])
    order: list[Order] | None = places
    if by_column:
        columns = (repeat(one) if isinstance(one, int) else one for one in places)
        order = list(zip(*columns, strict=False))
    origins = Origins(timestamps, headers, order, topics)
    origins.raws = raws
    return Batch([], values, origins, olds=olds, key_bytes=key_bytes, latest=latest)
