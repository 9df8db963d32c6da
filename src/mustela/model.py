"""What a record is, wherever it is: shared by every room."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

__all__ = [
    "TIME_MAX",
    "Headers",
    "KeyValue",
    "Record",
    "RecordContext",
    "TopicPartition",
    "Windowed",
]

K = TypeVar("K")
V = TypeVar("V")

Headers = tuple[tuple[str, bytes | None], ...]
"""Record headers in order; a name may occur more than once, a value may be null."""

TIME_MAX = 2**63 - 1
"""The end of time, in milliseconds: where an unlimited window ends."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class KeyValue(NamedTuple):
    """A key with its value, as `TopologyTestDriver` returns them."""

    key: object
    value: object


class Windowed(NamedTuple, Generic[K]):
    """A key in one window: the key of what a windowed aggregation gives.

    Windowed keys can be compared, sorted (by key, then start) and used as keys of a dict.

    Attributes:
        key: The key that the records were grouped by.
        start: First millisecond of the window.
        end: End of the window in milliseconds: the first one behind it for tumbling and hopping
            windows, the last one inside for sliding windows and sessions, `TIME_MAX` for an
            unlimited window.

    Example:
        >>> window = Windowed("ann", 60_000, 120_000)
        >>> window.key, window.start_time.isoformat()
        ('ann', '1970-01-01T00:01:00+00:00')
    """

    key: K
    start: int
    end: int

    @property
    def start_time(self) -> datetime:
        """The start as an aware datetime in UTC."""
        return _moment(self.start)

    @property
    def end_time(self) -> datetime:
        """The end as an aware datetime in UTC; the last one there is for an unlimited window."""
        return _moment(self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContext:
    """Where a record came from and what it carries besides key and value.

    Attributes:
        topic: Source topic, or None for records made by a timer or a schedule.
        partition: Source partition, or -1.
        offset: Source offset, or -1.
        timestamp: Milliseconds since 1970-01-01 UTC.
        headers: The record's headers.
    """

    topic: str | None = None
    partition: int = -1
    offset: int = -1
    timestamp: int = 0
    headers: Headers = ()

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime in UTC."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Generic[K, V]):
    """A record of a stream.

    Attributes:
        key: The key, or None.
        value: The value, or None.
        timestamp: Milliseconds since 1970-01-01 UTC.
        headers: The record's headers.
        topic: The topic it was read from or written to, where known.
        partition: The partition, where known, else -1.
        offset: The offset, where known, else -1.
    """

    key: K
    value: V
    timestamp: int = 0
    headers: Headers = ()
    topic: str | None = None
    partition: int = field(default=-1, compare=False)
    offset: int = field(default=-1, compare=False)

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime in UTC."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)
