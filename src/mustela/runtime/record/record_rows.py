"""Which row of the epochs topic tells of an epoch: a whole record, or a delta to the last one."""

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
        whole_bytes_max: While a whole record has no more bytes than this, each one is whole.
        deltas_max: So many deltas at most lie between two whole records: a reader goes past them.
    """

    whole_bytes_max: int = 4096
    deltas_max: int = 256


class RecordRow(NamedTuple):
    """A row for the epochs topic."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class _Base:
    """A whole record and the deltas that were made to it.

    Attributes:
        record: The record.
        size: Its bytes.
        columns: Its partitions.
        deltas: How many deltas there are.
        deltas_size: Their bytes.
    """

    record: EpochRecord
    size: int
    columns: PartitionColumns
    deltas: int = 0
    deltas_size: int = 0

    def bears_more(self, policy: RecordPolicy) -> bool:
        """Whether a delta to it may be written at all."""
        return self.size > policy.whole_bytes_max and self.deltas < policy.deltas_max

    def is_dear(self, size: int) -> bool:
        """Whether a delta has more bytes than the rows had since the base, on average.

        Deltas grow, as more partitions differ from the base: from there on a new base is cheaper.
        """
        return size * max(1, self.deltas) > self.size + self.deltas_size


class RecordRows:
    """Makes the rows of one run, which alone writes to the epochs topic.

    A delta is made only to a whole record that is known to be committed: what became of a row that
    `committed` was not called for, nobody says, and the next one is whole.

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
        """Return the row of a record: a delta where that is worth it."""
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
        """Note that the row that was made last is committed."""
        self._base, self._next = self._next, None


class RecordFold:
    """Reads the epochs topic in its order, record by record."""

    def __init__(self) -> None:
        self._base: EpochRecord | None = None

    def take(self, value: bytes) -> EpochRecord | None:
        """Return the record that a row tells of.

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
