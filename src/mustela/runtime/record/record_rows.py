"""Rows of the epochs topic: a whole record, or a delta to the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mustela.runtime.record.epoch_delta import (
    EPOCH_DELTA_KEY,
    EpochDelta,
    PartitionColumns,
    decode_row,
    delta_between,
    encode_epoch_delta,
    token_of,
    with_delta,
)
from mustela.runtime.record.epoch_record import EPOCH_RECORD_KEY, EpochRecord, encode_epoch_record

__all__ = ["RecordFold", "RecordPolicy", "RecordRow", "RecordRows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPolicy:
    """When a whole record is written.

    Attributes:
        whole_bytes_max: Records of at most this many bytes are always written whole.
        deltas_max: The maximum number of deltas between two whole records, because a reader has to
            skip them.
    """

    whole_bytes_max: int = 4096
    deltas_max: int = 256


class RecordRow(NamedTuple):
    """A row for the epochs topic."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class _Base:
    """A whole record and its deltas.

    Attributes:
        record: The record.
        size: Its bytes.
        columns: Its partitions.
        deltas: How many deltas there are.
        deltas_size: Their total bytes.
    """

    record: EpochRecord
    size: int
    columns: PartitionColumns
    deltas: int = 0
    deltas_size: int = 0

    def bears_more(self, policy: RecordPolicy) -> bool:
        """Return whether another delta to it may be written."""
        return self.size > policy.whole_bytes_max and self.deltas < policy.deltas_max

    def is_dear(self, size: int) -> bool:
        """Return whether a delta is larger than the average row since the base.

        Deltas grow as more partitions differ from the base: from then on a new base is cheaper.
        """
        return size * max(1, self.deltas) > self.size + self.deltas_size


class RecordRows:
    """Builds the rows of one run, the only writer of the epochs topic.

    A delta is built only on a whole record that is known to be committed: if `committed` was not
    called for a row, its outcome is unknown, and the next row is whole.

    Args:
        policy: When a whole record is written.
    """

    def __init__(self, policy: RecordPolicy) -> None:
        self._policy = policy
        self._base: _Base | None = None
        self._next: _Base | None = None

    def whole(self, record: EpochRecord) -> RecordRow:
        """Return the row of a whole record."""
        value = encode_epoch_record(record)
        self._base, self._next = (
            None,
            _Base(record, len(value), PartitionColumns(record.partitions)),
        )
        return RecordRow(EPOCH_RECORD_KEY, value)

    def row(self, record: EpochRecord) -> RecordRow:
        """Return the row of a record: a delta if that is worthwhile."""
        base, self._base = self._base, None
        if base is None or not base.bears_more(self._policy):
            return self.whole(record)
        delta = delta_between(base.record, record, base.columns)
        if delta is None:
            return self.whole(record)
        value = encode_epoch_delta(delta)
        if base.is_dear(len(value)):
            return self.whole(record)
        more = base.deltas + 1, base.deltas_size + len(value)
        self._next = _Base(base.record, base.size, base.columns, *more)
        return RecordRow(EPOCH_DELTA_KEY, value)

    def committed(self) -> None:
        """Note that the last row is committed."""
        self._base, self._next = self._next, None


class RecordFold:
    """Reads the epochs topic in order, record by record."""

    def __init__(self) -> None:
        self._base: EpochRecord | None = None

    def take(self, value: bytes) -> EpochRecord | None:
        """Return the record that a row represents.

        Args:
            value: The value of the next committed row.

        Returns:
            None for a delta whose base compaction has removed: a newer whole record follows.
        """
        row = decode_row(value)
        if isinstance(row, EpochDelta):
            if self._base is None or token_of(self._base) != row.base:
                return None
            return with_delta(self._base, row)
        self._base = row
        return row
