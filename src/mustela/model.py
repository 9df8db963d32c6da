"""What a record is, wherever it is: shared by every room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import index
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, cast

from mustela.errors import DataError, UsageError

__all__ = [
    "TIME_MAX",
    "FixedKeyRecord",
    "Headers",
    "HeadersLike",
    "KeyValue",
    "NegativeTimestampError",
    "Record",
    "RecordContext",
    "RecordTimeError",
    "SessionWindowed",
    "SourceRecord",
    "TopicPartition",
    "Windowed",
    "as_headers",
    "fixed_key_record",
]

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Headers = tuple[tuple[str, bytes | None], ...]
"""Record headers in order; a name may occur more than once, a value may be null."""

HeadersLike = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
"""Headers as users may give them."""

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
    """A key in one window: the key of a windowed aggregation's results.

    Windowed keys can be compared, sorted (by key, then start) and used as keys of a dict. The
    `repr` of a session's key says so; it is equal to a windowed key with the same key and times.

    Attributes:
        key: The key by which the records were grouped.
        start: First millisecond of the window.
        end: End of the window in milliseconds: the first one after it for tumbling and hopping
            windows, the last one inside for sliding windows and sessions, `TIME_MAX` for an
            unlimited window.

    Example:
        >>> window = Windowed("ann", 60_000, 120_000)
        >>> window.key, window.start_time.isoformat()
        ('ann', '1970-01-01T00:01:00+00:00')
        >>> print(window)
        [ann@60000/120000]
    """

    key: K
    start: int
    end: int

    @property
    def kind(self) -> Literal["time", "session", "unlimited"]:
        """The kind of window; ``time`` stands for tumbling, hopping and sliding windows.

        Example:
            >>> Windowed("ann", 0, 60_000).kind, Windowed("ann", 0, TIME_MAX).kind
            ('time', 'unlimited')
        """
        return "unlimited" if self.end == TIME_MAX else "time"

    def __str__(self) -> str:
        """Return it as Kafka Streams writes it, to be read by people."""
        return f"[{self.key}@{self.start}/{self.end}]"

    @property
    def start_time(self) -> datetime:
        """The start as an aware datetime in UTC."""
        return _moment(self.start)

    @property
    def end_time(self) -> datetime:
        """The end as an aware datetime in UTC; the latest datetime for an unlimited window."""
        return _moment(self.end)


class SessionWindowed(Windowed[K]):
    """A key in one session.

    Example:
        >>> session = SessionWindowed("ann", 0, 4_000)
        >>> session
        Windowed(key='ann', start=0, end=4000, kind='session')
        >>> session == Windowed("ann", 0, 4_000)
        True
    """

    __slots__ = ()

    @property
    def kind(self) -> Literal["time", "session", "unlimited"]:
        """A session."""
        return "session"

    def __repr__(self) -> str:
        """Say that it is a session: its end is the time of a record, not the end of a window."""
        return f"Windowed(key={self.key!r}, start={self.start}, end={self.end}, kind='session')"


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


class NegativeTimestampError(DataError):
    """A record would get a timestamp before 1970."""

    code = "NEGATIVE_TIMESTAMP"


class RecordTimeError(UsageError):
    """The time given for a record is not a valid time."""

    code = "RECORD_TIME"


@dataclass(frozen=True, slots=True)
class Record(Generic[K, V]):
    """A record of a stream; it never changes, and its ``with_…`` methods return other records.

    Attributes:
        key: The key, or None.
        value: The value, or None.
        timestamp: Milliseconds since 1970-01-01 UTC. A datetime with a time zone is accepted and
            becomes milliseconds.
        headers: The record's headers.
        topic: The topic it was read from or written to, where known.
        partition: The partition, where known, else -1.
        offset: The offset, where known, else -1.

    Raises:
        NegativeTimestampError: If the timestamp is negative.
        RecordTimeError: If it is neither whole milliseconds nor a datetime with a time zone.

    Example:
        >>> order = Record("o-1", 30, 1_000)
        >>> order.with_value("thirty").with_timestamp(2_000)
        Record(key='o-1', value='thirty', timestamp=2000)
        >>> Record("o-1", 30, datetime(1970, 1, 1, 0, 1, tzinfo=UTC)).timestamp
        60000
    """

    key: K
    value: V
    timestamp: int = 0
    headers: Headers = ()
    topic: str | None = field(default=None, kw_only=True)
    partition: int = field(default=-1, compare=False, kw_only=True)
    offset: int = field(default=-1, compare=False, kw_only=True)

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - the fields
            self,
            key: K,
            value: V,
            timestamp: int | datetime = 0,
            headers: Headers = (),
            *,
            topic: str | None = None,
            partition: int = -1,
            offset: int = -1,
        ) -> None: ...

    def __post_init__(self) -> None:
        if type(self.timestamp) is not int or self.timestamp < 0:
            object.__setattr__(self, "timestamp", _milliseconds(self.timestamp))

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime in UTC."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)

    def with_key(self, key: K2) -> Record[K2, V]:
        """Return the same record with another key.

        Example:
            >>> Record("o-1", 30).with_key("o-2").key
            'o-2'
        """
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        """Return the same record with another value.

        Example:
            >>> Record("o-1", 30).with_value(31).value
            31
        """
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int | datetime) -> Record[K, V]:
        """Return the same record with another timestamp.

        Args:
            timestamp: Milliseconds since 1970-01-01 UTC, or a datetime with a time zone.

        Raises:
            NegativeTimestampError: If the timestamp is negative.
            RecordTimeError: If it is neither.

        Example:
            >>> Record("o-1", 30).with_timestamp(5).timestamp
            5
        """
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: HeadersLike) -> Record[K, V]:
        """Return the same record with other headers.

        Args:
            headers: Pairs of a name and bytes, or None for null; or a mapping of them.

        Example:
            >>> Record("o-1", 30).with_headers({"from": b"web"}).headers
            (('from', b'web'),)
        """
        return Record(self.key, self.value, self.timestamp, as_headers(headers))

    def __repr__(self) -> str:
        return _shown("Record", self)


class SourceRecord(Record[K, V]):
    """A record as a topic has it, where a timestamp before 1970 is not yet an error."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check nothing."""


class FixedKeyRecord(Generic[K, V]):
    """A record whose key a `FixedKeyProcessor` cannot change.

    It can only be derived from the record that the processor was given.

    Example:
        >>> from mustela.processors import ContextualFixedKeyProcessor
        >>> class Length(ContextualFixedKeyProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(len(record.value)))
    """

    __slots__ = ("_key", "headers", "timestamp", "value")

    value: V
    timestamp: int
    headers: Headers

    def __init__(self, *_arguments: object, **_options: object) -> None:
        msg = "a FixedKeyRecord cannot be created"
        raise UsageError(
            msg,
            why="its key must be that of the record that the processor received",
            fix="derive it: record.with_value(...), record.with_timestamp(...)",
        )

    @property
    def key(self) -> K:
        """The key."""
        return self._key  # pyright: ignore[reportAttributeAccessIssue] - set by fixed_key_record

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime in UTC."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)

    def with_value(self, value: V2) -> FixedKeyRecord[K, V2]:
        """Return the same record with another value.

        Example:
            >>> from mustela.processors import ContextualFixedKeyProcessor
            >>> class Length(ContextualFixedKeyProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record.with_value(len(record.value)))
        """
        return fixed_key_record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int | datetime) -> FixedKeyRecord[K, V]:
        """Return the same record with another timestamp.

        Args:
            timestamp: Milliseconds since 1970-01-01 UTC, or a datetime with a time zone.

        Raises:
            NegativeTimestampError: If the timestamp is negative.
            RecordTimeError: If it is neither.

        Example:
            >>> from mustela.processors import ContextualFixedKeyProcessor
            >>> class Later(ContextualFixedKeyProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record.with_timestamp(record.timestamp + 1_000))
        """
        return fixed_key_record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: HeadersLike) -> FixedKeyRecord[K, V]:
        """Return the same record with other headers; see `Record.with_headers`.

        Example:
            >>> from mustela.processors import ContextualFixedKeyProcessor
            >>> class Marked(ContextualFixedKeyProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record.with_headers({"seen": b"1"}))
        """
        return fixed_key_record(self.key, self.value, self.timestamp, as_headers(headers))

    def __setattr__(self, name: str, value: object) -> None:
        msg = f"a record does not change; use with_{name}(...)"
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FixedKeyRecord):
            return NotImplemented
        mine = (self.key, self.value, self.timestamp, self.headers)
        return mine == (other.key, other.value, other.timestamp, other.headers)  # pyright: ignore[reportUnknownMemberType]

    def __hash__(self) -> int:
        return hash((self.key, self.value, self.timestamp, self.headers))

    def __repr__(self) -> str:
        return _shown("FixedKeyRecord", self)


def fixed_key_record(
    key: K, value: V, timestamp: int | datetime, headers: Headers = ()
) -> FixedKeyRecord[K, V]:
    """Return a record for a `FixedKeyProcessor`; for engines and for tests.

    Raises:
        NegativeTimestampError: If the timestamp is negative.
        RecordTimeError: If it is neither whole milliseconds nor a datetime with a time zone.
    """
    if type(timestamp) is not int or timestamp < 0:
        timestamp = _milliseconds(timestamp)
    record: FixedKeyRecord[Any, Any] = object.__new__(FixedKeyRecord)  # pyright: ignore[reportUnknownVariableType]
    fill = object.__setattr__
    fill(record, "_key", key)
    fill(record, "value", value)
    fill(record, "timestamp", timestamp)
    fill(record, "headers", headers)
    return record


def as_headers(headers: HeadersLike) -> Headers:
    """Return headers in the form in which records hold them.

    Example:
        >>> as_headers({"a": b"1"})
        (('a', b'1'),)
    """
    if isinstance(headers, Mapping):
        headers = cast("Mapping[str, bytes | None]", headers).items()
    return tuple((str(name), value) for name, value in headers)


def _milliseconds(moment: Any) -> int:
    """Return the timestamp given for a record, in milliseconds.

    Raises:
        NegativeTimestampError: If it is before 1970.
        RecordTimeError: If it is not a time.
    """
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = (moment - _EPOCH) // timedelta(milliseconds=1)
    try:
        found = index(cast("int", moment))
    except TypeError:
        why, fix = "times are whole milliseconds since 1970-01-01 UTC", "give milliseconds"
        if isinstance(moment, datetime):
            why = "without a time zone it is a different moment on each host"
            fix = "write datetime(..., tzinfo=UTC), or milliseconds since 1970"
        elif isinstance(moment, float):
            fix = "write int(seconds * 1000), or int(milliseconds)"
        msg = f"a record cannot have the timestamp {moment!r}"
        raise RecordTimeError(msg, why=why, fix=fix, fields={"timestamp": moment}) from None
    if found < 0:
        raise _negative(found)
    return found


def _negative(timestamp: int) -> NegativeTimestampError:
    return NegativeTimestampError(
        f"a record cannot have the timestamp {timestamp}",
        why="timestamps are milliseconds since 1970, and Kafka refuses earlier ones",
        fix="give the record the timestamp of the record from which it is derived",
        fields={"timestamp": timestamp},
    )


def _shown(name: str, record: Record[Any, Any] | FixedKeyRecord[Any, Any]) -> str:
    told = f"key={record.key!r}, value={record.value!r}, timestamp={record.timestamp}"
    if record.headers:
        told += f", headers={record.headers!r}"
    if isinstance(record, Record) and record.topic is not None:
        told += f", topic={record.topic!r}, partition={record.partition}, offset={record.offset}"
    return f"{name}({told})"
