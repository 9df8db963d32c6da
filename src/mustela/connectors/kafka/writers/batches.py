"""Record batches: Kafka's message format version 2."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from operator import add
from typing import Any

import google_crc32c

from mustela.connectors.kafka.compression import UNASKED
from mustela.connectors.kafka.writers.records import encoded_records
from mustela.model import Headers
from mustela.plan.ticket import Ticket
from mustela.state.packing import zstandard_module

__all__ = ["CODECS", "HEAD_BYTES", "Batch", "Rows", "cut", "has_codec", "whole_head"]

HEAD_BYTES = 61
_ROW_BYTES_MAX = 16
"""What stands around the key and the value of a row without headers."""
_TRANSACTIONAL = 0x10
_TAIL = struct.Struct(">hiqqqhii")
_HEAD = struct.Struct(">qiibI")
_AT_LENGTH = 12
_MAGIC = 2


_sum_of: Callable[[bytes], int] = google_crc32c.value  # pyright: ignore
_sum_on: Callable[[int, bytes], int] = google_crc32c.extend  # pyright: ignore


def whole_head(tail: bytes, records: bytes) -> bytes:
    """Return the head of a batch, which has the sum of all that follows.

    Args:
        tail: What stands behind the sum in the head.
        records: What stands behind the head.
    """
    length = HEAD_BYTES - _AT_LENGTH + len(records)
    return _HEAD.pack(0, length, -1, _MAGIC, _sum_on(_sum_of(tail), records)) + tail


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def _lz4(data: bytes) -> bytes:
    """Compress as Kafka's Java clients read it: blocks that do not refer to each other."""
    packing: Any = import_module("lz4.frame")
    return packing.compress(
        data, block_size=packing.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )


def _zstd(data: bytes) -> bytes:
    packer: Any = zstandard_module().ZstdCompressor()
    return packer.compress(data)


_SAMPLE_BYTES = 16 << 10
"""So long a beginning says how the rest will shrink."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A way to compress.

    Attributes:
        number: Its number in a batch.
        pack: Does it.
        module: What this needs.
        least: A batch of fewer bytes is left as it is.
        worth: So is one whose first part does not shrink to this part of itself.
    """

    number: int
    pack: Callable[[bytes], bytes]
    module: str = "zlib"
    least: int = 256
    worth: float = 1.0

    def pays(self, records: bytes) -> bool:
        """Whether to try, as a look at the beginning says."""
        if len(records) < self.least:
            return False
        sample = records[: min(_SAMPLE_BYTES, len(records) // 8)]
        return self.worth == 1.0 or len(self.pack(sample)) <= self.worth * len(sample)


CODECS: Mapping[str, Codec] = {
    "none": Codec(0, lambda data: data),
    "gzip": Codec(1, _gzip),
    "lz4": Codec(3, _lz4, module="lz4"),
    UNASKED: Codec(3, _lz4, module="lz4", least=32 << 10, worth=0.4),
    "zstd": Codec(4, _zstd, module="zstandard"),
}


def has_codec(name: str) -> bool:
    """Whether batches can be compressed so here: the codec is known, and what it needs installed.

    Example:
        >>> has_codec("gzip"), has_codec("snappy")
        (True, False)
    """
    codec = CODECS.get(name)
    return codec is not None and find_spec(codec.module) is not None


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows for one partition, a list for each column.

    Attributes:
        keys: Keys.
        values: Values.
        timestamps: Milliseconds, one for all or one for each.
        headers: Headers of each row.
        tag: Comes back with the rows that a broker refuses.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int] | int
    headers: Sequence[Headers] | None = None
    tag: object = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that stand in one batch.

    Attributes:
        rows: The rows, and more of them.
        start: The first of them.
        stop: The one behind the last.
        records: They, encoded and not compressed.
    """

    rows: Rows
    start: int
    stop: int
    records: bytes

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def size(self) -> int:
        """Bytes of it, before it is compressed."""
        return len(self.records)

    def encode(self, ticket: Ticket, sequence: int, codec: str = "none") -> tuple[bytes, bytes]:
        """Return the batch as brokers store it: its head, and what stands behind it.

        Args:
            ticket: The transaction it belongs to.
            sequence: The number of its first row among those of this transaction and partition.
            codec: How it is compressed: one of `CODECS`.
        """
        tail, records = self.tail(ticket, sequence, codec)
        return whole_head(tail, records), records

    def tail(self, ticket: Ticket, sequence: int, codec: str) -> tuple[bytes, bytes]:
        """Return the batch without what stands before the rest of it in its head."""
        number, records = self._packed(CODECS[codec])
        stamps = self.rows.timestamps
        if isinstance(stamps, int):
            first = last = stamps
        else:
            mine = stamps[self.start : self.stop]
            first, last = mine[0], max(mine)
        tail = _TAIL.pack(
            _TRANSACTIONAL | number,
            len(self) - 1,
            first,
            last,
            ticket.producer_id,
            ticket.producer_epoch,
            sequence,
            len(self),
        )
        return tail, records

    def _packed(self, codec: Codec) -> tuple[int, bytes]:
        """Compress, where that makes it smaller: never is a batch larger than its rows say."""
        if codec.pays(self.records):
            packed = codec.pack(self.records)
            if len(packed) < len(self.records):
                return codec.number, packed
        return 0, self.records

    def halves(self) -> list[Batch]:
        """Return the same rows in two batches."""
        middle = (self.start + self.stop) // 2
        spans = ((self.start, middle), (middle, self.stop))
        return [Batch(self.rows, *span, _records(self.rows, *span)) for span in spans]


def cut(rows: Rows, batch_bytes: int) -> list[Batch]:
    """Cut rows into batches.

    Args:
        rows: The rows; a row that is larger than a batch stands alone.
        batch_bytes: What a batch may have before it is compressed.
    """
    count = len(rows.values)
    if not count:
        return []
    if _fits(rows, batch_bytes):  # which is usual for short ones, and no row is looked at
        return [Batch(rows, 0, count, _records(rows, 0, count))]
    found, start = list[Batch](), 0
    ends = list(accumulate(_sizes(rows)))
    while start < count:
        before = ends[start - 1] if start else 0
        stop = bisect_right(ends, before + batch_bytes - HEAD_BYTES, start)
        stop = max(start + 1, stop)
        found.append(Batch(rows, start, stop, _records(rows, start, stop)))
        start = stop
    return found


def _fits(rows: Rows, batch_bytes: int) -> bool:
    """Say whether one batch surely has room for all rows, if that can be seen at a glance."""
    headers, extra = rows.headers, 0
    if headers:
        if any(some is not headers[0] for some in headers):
            return False
        extra = _header_bytes(headers[0])
    try:
        size = sum(map(len, rows.keys)) + sum(map(len, rows.values))  # type: ignore[arg-type]
    except TypeError:  # None has no length
        return False
    return HEAD_BYTES + size + len(rows.values) * (_ROW_BYTES_MAX + extra) <= batch_bytes


def _header_bytes(headers: Headers) -> int:
    return sum(_ROW_BYTES_MAX + len(name) * 4 + len(data or b"") for name, data in headers)


def _sizes(rows: Rows) -> Iterable[int]:
    """Return what each row takes, at most."""
    sizes = map(add, _lengths(rows.keys), _lengths(rows.values))
    if rows.headers is None:
        return map(_ROW_BYTES_MAX.__add__, sizes)
    extras, last, extra = list[int](), None, 0
    for some in rows.headers:
        if some is not last:  # often all rows have the same
            last, extra = some, _header_bytes(some)
        extras.append(_ROW_BYTES_MAX + extra)
    return map(add, sizes, extras)


def _lengths(column: Sequence[bytes | None]) -> list[int]:
    try:
        return list(map(len, column))  # type: ignore[arg-type]
    except TypeError:  # None has no length
        return [0 if item is None else len(item) for item in column]


def _records(rows: Rows, start: int, stop: int) -> bytes:
    stamps, headers = rows.timestamps, rows.headers
    return encoded_records(
        rows.keys[start:stop],
        rows.values[start:stop],
        None if isinstance(stamps, int) else stamps[start:stop],
        None if headers is None else headers[start:stop],
    )
