"""What source tasks read, and what they saw there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mustela.model import Headers
from mustela.plan.time import NEVER

__all__ = ["LeftOut", "RangeReport", "RawChunk", "SourceRange"]


class SourceRange(NamedTuple):
    """Offsets of one topic partition that one task reads.

    Attributes:
        topic_index: Index of the topic in the plan.
        partition: The partition.
        start: First offset.
        end: Offset after the last one.
        floor: The partition's largest timestamp before ``start``, as far as the driver knows; after
            a split it may be too low, which the lanes correct with the markers.
        last: Whether this is the epoch's last range of its partition.
        latest: A later timestamp is too far ahead of the wall clock to count.
        until: Reading stops before the first record whose order time is this or later; such a range
            is not split.
    """

    topic_index: int
    partition: int
    start: int
    end: int
    floor: int = -1
    last: bool = True
    latest: int = NEVER
    until: int = NEVER

    def continues(self, before: SourceRange) -> bool:
        """Whether this range begins where another one ends.

        Example:
            >>> SourceRange(0, 1, 5, 9).continues(SourceRange(0, 1, 0, 5))
            True
        """
        place = self.topic_index, self.partition, self.start
        return place == (before.topic_index, before.partition, before.end)


@dataclass(slots=True)
class RawChunk:
    """Records of one partition in the order of their offsets, as columns of bytes.

    Attributes:
        offsets: Offsets, ascending; control records and aborted data leave gaps.
        keys: The keys.
        values: The values.
        timestamps: Milliseconds; none in a bare chunk.
        headers: Headers of each record, or None if no record has any.
        leader_epoch: The leader epoch of the last record that was read, or -1; a cut does not
            change it.
    """

    offsets: list[int] = field(default_factory=list[int])
    keys: list[bytes | None] = field(default_factory=list["bytes | None"])
    values: list[bytes | None] = field(default_factory=list["bytes | None"])
    timestamps: list[int] = field(default_factory=list[int])
    headers: list[Headers] | None = None
    leader_epoch: int = -1

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.offsets)

    def cut(self, length: int) -> None:
        """Drop the records from index ``length`` onwards."""
        del self.offsets[length:], self.keys[length:]
        del self.values[length:], self.timestamps[length:]
        if self.headers is not None:
            del self.headers[length:]


class LeftOut(NamedTuple):
    """Offsets of one topic partition whose records an epoch skips.

    Attributes:
        topic_index: Index of the topic in the plan.
        partition: The partition.
        first: First offset.
        last: Last offset.
        headers: Headers of the dead letter that each record becomes; None for no dead letter.
        counted: Name of the counter for them; empty for none.
    """

    topic_index: int
    partition: int
    first: int
    last: int
    headers: Headers | None = None
    counted: str = ""


class RangeReport(NamedTuple):
    """What a task saw in one range.

    Attributes:
        topic_index: Index of the topic in the plan.
        partition: The partition.
        start: First offset of the range.
        end: Offset after what was read: the end of the range, or the offset of the record at which
            reading stopped.
        records: Records read.
        max_timestamp: The largest timestamp that counts, of the range and of all before it that the
            task knows; -1 if there is none.
        size: Bytes of keys and values.
        future: Records whose timestamp is too far ahead to count.
        next_ms: The order time of the record at which reading stopped; -1 if it did not.
        first_ms: The order time of the first record, as far as the task knows; -1 if it does not.
        leader_epoch: The leader epoch of the last record, -1 if it is not known.
    """

    topic_index: int
    partition: int
    start: int
    end: int
    records: int
    max_timestamp: int
    size: int
    future: int = 0
    next_ms: int = -1
    first_ms: int = -1
    leader_epoch: int = -1
