"""Record batches: Kafka's message format version 2."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat
from typing import Any

import google_crc32c

from mustela.connectors.kafka.compression import UNASKED
from mustela.connectors.kafka.writers.wire import uvarint
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


def varint(number: int) -> bytes:
    """Encode a number whose sign is in its last bit."""
    number = number << 1 ^ number >> 63
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_KNOWN = 1 << 14
_VARINTS = tuple(varint(number) for number in range(_KNOWN))
"""Looked up, a length costs a tenth of what it costs to encode."""


@cache
def _halves() -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the last two and the first two of four bytes, for those who have long rows."""
    low = tuple(bytes((low & 0x7F | 0x80, low >> 7 | 0x80)) for low in range(_KNOWN))
    return low, tuple(map(uvarint, range(_KNOWN)))


def _long_varint(number: int) -> bytes:
    """Encode a number that is too large to be looked up whole."""
    coded = number << 1 ^ number >> 63
    if _KNOWN <= coded < _KNOWN << 14:
        low, high = _halves()
        return low[coded & 0x3FFF] + high[coded >> 14]
    return varint(number)


_NULL = varint(-1)
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
    found: list[Batch] = []
    start, size = 0, HEAD_BYTES
    # Where all rows go into one batch, which is usual for short ones, no row is looked at.
    for at, own in () if _fits(rows, batch_bytes) else enumerate(_sizes(rows)):
        size += own
        if size > batch_bytes and at > start:
            found.append(Batch(rows, start, at, _records(rows, start, at)))
            start, size = at, HEAD_BYTES + own
    if rows.values:
        end = len(rows.values)
        found.append(Batch(rows, start, end, _records(rows, start, end)))
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


def _sizes(rows: Rows) -> Iterator[int]:
    """Yield what each row takes, at most."""
    headers, last, extra = rows.headers, None, 0
    for at, (key, value) in enumerate(zip(rows.keys, rows.values, strict=True)):
        if headers is not None and headers[at] is not last:  # often all rows have the same
            last = headers[at]
            extra = _header_bytes(last)
        yield _ROW_BYTES_MAX + extra + (len(key) if key else 0) + (len(value) if value else 0)


def _records(rows: Rows, start: int, stop: int) -> bytes:
    known, looked = _KNOWN, _VARINTS
    times: Iterable[bytes] = repeat(looked[0])
    tails: Iterable[bytes] = repeat(_encoded(()))
    if not isinstance(rows.timestamps, int):
        times = _times(rows.timestamps[start:stop])
    if rows.headers is not None:
        tails = _tails(rows.headers[start:stop])
    keys, values = rows.keys[start:stop], rows.values[start:stop]
    out: list[bytes] = []
    # Here each row counts: what a function would do once more is done in place.
    for delta, (key, value, time, tail) in enumerate(zip(keys, values, times, tails, strict=False)):
        if key is None:
            key, key_size = b"", _NULL
        else:
            size = len(key)
            key_size = looked[size] if size < known else _long_varint(size)
        size = 0
        if value is None:
            value, value_size = b"", _NULL
        else:
            size = len(value)
            value_size = looked[size] if size < known else _long_varint(size)
        place = looked[delta] if delta < known else _long_varint(delta)
        front = b"\0%b%b%b%b%b" % (time, place, key_size, key, value_size)
        size += len(front) + len(tail)
        out += (looked[size] if size < known else _long_varint(size), front, value, tail)
    return b"".join(out)


def _times(stamps: Sequence[int]) -> list[bytes]:
    """Encode how far each is behind the first."""
    known, looked, first = _KNOWN, _VARINTS, stamps[0]
    return [
        looked[since] if 0 <= since < known else _long_varint(since)
        for since in [stamp - first for stamp in stamps]
    ]


def _tails(headers: Sequence[Headers]) -> list[bytes]:
    """Encode headers; what is the same object for several rows is encoded once."""
    last, tail, found = None, b"", list[bytes]()
    for some in headers:
        if some is not last:
            last, tail = some, _encoded(some)
        found.append(tail)
    return found


def _sized(data: bytes | None) -> bytes:
    if data is None:
        return _NULL
    size = len(data)
    return (_VARINTS[size] if size < _KNOWN else _long_varint(size)) + data


def _encoded(headers: Headers) -> bytes:
    each = (_sized(name.encode()) + _sized(value) for name, value in headers)
    return varint(len(headers)) + b"".join(each)
