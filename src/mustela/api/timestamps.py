"""The timestamp of a source's record: the broker's, the wall clock's, or the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.model import Record

__all__ = [
    "BuiltInExtractor",
    "FailOnInvalidTimestamp",
    "LogAndSkipOnInvalidTimestamp",
    "TimestampExtractor",
    "UsePartitionTimeOnInvalidTimestamp",
    "WallclockTimestampExtractor",
    "keeps_broker_time",
    "needs_partition_time",
]

TimestampExtractor = Callable[[Record[Any, Any], int], int]
"""(record, partition time) -> milliseconds since 1970.

The partition time is the largest timestamp of the partition so far, or -1. A record whose extracted
time is negative is skipped and counted."""


@dataclass(frozen=True, slots=True)
class FailOnInvalidTimestamp:
    """The record's own timestamp; a negative one goes to the deserialization handler. The default.

    Example:
        >>> from mustela import Consumed
        >>> consumed = Consumed(timestamp_extractor=FailOnInvalidTimestamp())
    """


@dataclass(frozen=True, slots=True)
class LogAndSkipOnInvalidTimestamp:
    """The record's own timestamp; a record with a negative one is skipped and counted.

    Example:
        >>> from mustela import Consumed
        >>> consumed = Consumed(timestamp_extractor=LogAndSkipOnInvalidTimestamp())
    """


@dataclass(frozen=True, slots=True)
class UsePartitionTimeOnInvalidTimestamp:
    """The record's own timestamp; the partition time if that is negative.

    If the partition has no time yet, the record goes to the deserialization handler.

    Example:
        >>> from mustela import Consumed
        >>> consumed = Consumed(timestamp_extractor=UsePartitionTimeOnInvalidTimestamp())
    """


@dataclass(frozen=True, slots=True)
class WallclockTimestampExtractor:
    """The wall-clock time of the epoch in which a record is read, whatever its own timestamp.

    Example:
        >>> from mustela import Consumed
        >>> consumed = Consumed(timestamp_extractor=WallclockTimestampExtractor())
    """


BuiltInExtractor = (
    FailOnInvalidTimestamp
    | LogAndSkipOnInvalidTimestamp
    | UsePartitionTimeOnInvalidTimestamp
    | WallclockTimestampExtractor
)


def needs_partition_time(extractor: object) -> bool:
    """Say whether records must be seen in order, so that the partition stays in one task.

    Example:
        >>> needs_partition_time(None), needs_partition_time(WallclockTimestampExtractor())
        (False, False)
        >>> needs_partition_time(lambda record, partition_time: partition_time)
        True
    """
    simple = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, WallclockTimestampExtractor)
    return extractor is not None and not isinstance(extractor, simple)


def keeps_broker_time(extractor: object) -> bool:
    """Say whether records have the broker's timestamps, so that it can find offsets by time.

    Example:
        >>> keeps_broker_time(None), keeps_broker_time(WallclockTimestampExtractor())
        (True, False)
    """
    kept = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp)
    return extractor is None or isinstance(extractor, (*kept, UsePartitionTimeOnInvalidTimestamp))
