"""The input and output topics of a topology under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, overload

from mustela.api.option import Answering
from mustela.errors import EnvironmentFault
from mustela.model import Headers, KeyValue, Record
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.testing.cluster import BrokerRow
from mustela.testing.faults import EmptyTopicError, PipedValueError, TestDriverError
from mustela.testing.tables import difference, records_of, table
from mustela.testing.times import to_milliseconds, to_span

__all__ = ["TestInputTopic", "TestOutputTopic"]

K = TypeVar("K")
V = TypeVar("V")

Serdes = tuple[Serde[Any], Serde[Any]]
"""Of keys and of values."""

_BYTES: Final[Serdes] = (BytesSerde(), BytesSerde())
_NOTHING: Final[Any] = object()
"""Marks an argument that was not given, because None is a value."""


def encode(serde: Serde[Any], data: object, what: str, topic: str) -> bytes | None:
    """Encode a key or value that is piped to a topic.

    Raises:
        PipedValueError: If it does not fit the topic's serde.
    """
    try:
        return serde.serialize(data)
    except EnvironmentFault:
        raise  # a schema registry's own error says more
    except Exception as error:
        told = getattr(error, "what", None) or f"{type(error).__name__}: {error}"
        msg = f"{what} {data!r:.60} cannot be piped to topic {topic!r}: {told}"
        raise PipedValueError(
            msg,
            why=f"the topic's {what}s are read with serde {serde.name}",
            fix=f"pipe what {serde.name} holds, or create_input_topic({topic!r}, {what}=…)",
            fields={"topic": topic},
        ) from error


class TestInputTopic(Answering, Generic[K, V]):
    """A source topic of the topology under test; created by `create_input_topic`.

    Args:
        name: The topic.
        key: Serde of the keys.
        value: Serde of the values.
        pipe: Called with the records.
        clock: Returns the time of a record that is piped without one.
        start: Time of the first record; from then on the topic has its own time.
        auto_advance: How far that time moves after each record.
    """

    __test__: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 - made by the driver alone
        self,
        name: str,
        *,
        key: Serde[Any],
        value: Serde[Any],
        pipe: Callable[[Sequence[BrokerRow]], None],
        clock: Callable[[], int],
        start: int | datetime | None,
        auto_advance: int | timedelta | None,
    ) -> None:
        self.name = name
        self._key = key
        self._value = value
        self._pipe = pipe
        self._clock = clock
        self._time = None if start is None else to_milliseconds(start)
        self._advance = (
            0
            if auto_advance is None
            else to_span("create_input_topic", "auto_advance", auto_advance)
        )
        if self._advance and self._time is None:
            self._time = clock()

    @overload
    def pipe_input(
        self,
        key: K | None,
        value: V | None,
        timestamp: int | datetime | None = None,
        *,
        headers: Headers | Mapping[str, bytes | None] = (),
    ) -> None: ...
    @overload
    def pipe_input(
        self,
        value: V | None,
        /,
        *,
        timestamp: int | datetime | None = None,
        headers: Headers | Mapping[str, bytes | None] = (),
    ) -> None: ...
    @overload
    def pipe_input(self, record: Record[K, V], /) -> None: ...
    def pipe_input(
        self,
        key: Any,
        value: Any = _NOTHING,
        timestamp: int | datetime | None = None,
        *,
        headers: Headers | Mapping[str, bytes | None] = (),
    ) -> None:
        """Pipe one record and process it completely.

        A single argument is the value of a record without a key, or a whole `Record`, which has
        its own timestamp and headers.

        Args:
            key: The key.
            value: The value.
            timestamp: Milliseconds or an aware datetime; default: the topic's time.
            headers: The record's headers: pairs of name and bytes, or a mapping.

        Raises:
            PipedValueError: If key or value does not fit the topic.
            DataError: If the topology fails on the record.

        Example:
            >>> from mustela import Record, StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> builder.stream("lines", key=str, value=str).to("copies")
            >>> with TopologyTestDriver(builder) as driver:
            ...     line = driver.create_input_topic("lines")
            ...     line.pipe_input("k", "v", timestamp=5)
            ...     line.pipe_input("no key", timestamp=6)
            ...     line.pipe_input(Record("k", "w", 7))
            ...     copies = driver.create_output_topic("copies").read_records_to_list()
            ...     [(copy.key, copy.value, copy.timestamp) for copy in copies]
            [('k', 'v', 5), (None, 'no key', 6), ('k', 'w', 7)]
        """
        if value is _NOTHING:
            if isinstance(key, Record):
                record = cast("Record[Any, Any]", key)
                timestamp = record.timestamp if timestamp is None else timestamp
                headers = headers or record.headers
                key, value = record.key, record.value
            else:
                key, value = None, key
        self._pipe([self._row(key, value, timestamp, headers)])

    def pipe_value_list(
        self,
        values: Iterable[V | None],
        *,
        start: int | datetime | None = None,
        advance: int | timedelta = 0,
    ) -> None:
        """Pipe values without keys, each as one record; see `pipe_key_value_list`."""
        self.pipe_key_value_list(((None, value) for value in values), start=start, advance=advance)

    def pipe_key_value_list(
        self,
        pairs: Iterable[tuple[K | None, V | None]],
        *,
        start: int | datetime | None = None,
        advance: int | timedelta = 0,
    ) -> None:
        """Pipe pairs of key and value, each as one record.

        Args:
            pairs: The pairs.
            start: Time of the first one; default: the topic's time.
            advance: With ``start``: how much later each of the others is.
        """
        time = None if start is None else to_milliseconds(start)
        step = to_span("pipe_key_value_list", "advance", advance)
        rows: list[BrokerRow] = []
        for key, value in pairs:
            rows.append(self._row(key, value, time, ()))
            time = None if time is None else time + step
        self._pipe(rows)

    def pipe_record_list(self, records: Iterable[Record[Any, Any]]) -> None:
        """Pipe records with their own timestamps and headers."""
        self._pipe([self._row(r.key, r.value, r.timestamp, r.headers) for r in records])

    def pipe_table(self, text: str) -> None:
        """Pipe the rows of a table, each as one record.

        Its columns are ``key`` and ``value``, or fields of either (``key.NAME`` for those of the
        key, just ``NAME`` for those of the value); ``time`` in milliseconds or in ISO 8601, by
        default the topic's time; ``header.NAME``. Cells are read with the topic's types; an empty
        cell and ``null`` are null.

        Args:
            text: The table: column names in the first line, cells separated by bars.

        Raises:
            TableError: If it cannot be read as a table of the topic's types.
            DataError: If the topology fails on a record.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=dict)
            >>> orders.filter(lambda _key, order: order["amount"] > 2).to("large")
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("orders").pipe_table('''
            ...         time | key | amount | city
            ...         0    | ann | 3      | Bonn
            ...         5    | eve | 1      | Rome
            ...     ''')
            ...     driver.create_output_topic("large").expect_table('''
            ...         key | city
            ...         ann | Bonn
            ...     ''')
        """
        records = list(records_of(table(text), self._key, self._value))
        self._pipe([self._row(*record) for record in records])

    def advance_time(self, span: int | timedelta) -> None:
        """Advance the topic's own time."""
        time = self._clock() if self._time is None else self._time
        self._time = time + to_span("advance_time", "span", span)

    def _row(
        self,
        key: object,
        value: object,
        timestamp: int | datetime | None,
        headers: Headers | Mapping[str, bytes | None],
    ) -> BrokerRow:
        key_bytes = encode(self._key, key, "key", self.name)
        value_bytes = encode(self._value, value, "value", self.name)
        if timestamp is not None:
            time = to_milliseconds(timestamp)
        elif self._time is None:
            time = self._clock()
        else:
            time = self._time
            self._time += self._advance
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return BrokerRow(self.name, key_bytes, value_bytes, time, tuple(pairs))

    def __repr__(self) -> str:
        return f"<TestInputTopic {self.name}>"


class TestOutputTopic(Answering, Generic[K, V]):
    """A topic that the topology under test writes; created by `create_output_topic`.

    Args:
        name: The topic.
        key: Serde of the keys; None for that of the sink which wrote a row.
        value: Serde of the values; None likewise.
        rows: Returns all rows of the topic so far.
        position: How many of them have been read, shared by all readers of the topic.
        sinks: By step, the serdes of the sinks that may write the topic.
        why_empty: Why the topic cannot have rows, if it cannot.
    """

    __test__: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 - made by the driver alone
        self,
        name: str,
        *,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        rows: Callable[[], Sequence[BrokerRow]],
        position: list[int],
        sinks: Mapping[str, Serdes],
        why_empty: str | None = None,
    ) -> None:
        self.name = name
        self._sinks = sinks
        self._why_empty = why_empty
        self._key = key
        self._value = value
        self._rows = rows
        self._position = position

    def read_record(self) -> Record[K, V]:
        """Read the next record.

        Raises:
            EmptyTopicError: If there is none.
            SerdeError: If its bytes do not fit the topic's serdes.
        """
        rows = self._rows()
        offset = self._position[0]
        if offset >= len(rows):
            msg = f"topic {self.name!r} is empty"
            raise EmptyTopicError(
                msg,
                evidence={"read before": offset},
                why=self._why_empty,
                fix="first pipe input that leads to a record, or look at is_empty",
                fields={"read": offset},
            )
        row = rows[offset]
        own = self._sinks.get(row.step, _BYTES)
        record: Record[Any, Any] = Record(
            key=(self._key or own[0]).deserialize(row.key),
            value=(self._value or own[1]).deserialize(row.value),
            timestamp=row.timestamp,
            headers=row.headers,
            topic=self.name,
            partition=row.partition,
            offset=offset,
        )
        self._position[0] += 1
        return record

    def read_value(self) -> V:
        """Read the value of the next record."""
        return self.read_record().value

    def read_key_value(self) -> KeyValue:
        """Read key and value of the next record."""
        record = self.read_record()
        return KeyValue(record.key, record.value)

    def read_records_to_list(self) -> list[Record[K, V]]:
        """Read all remaining records."""
        records: list[Record[K, V]] = []
        while not self.is_empty:
            records.append(self.read_record())
        return records

    def read_values_to_list(self) -> list[V]:
        """Read the values of all remaining records."""
        return [record.value for record in self.read_records_to_list()]

    def read_key_values_to_list(self) -> list[tuple[K, V]]:
        """Read key and value of all remaining records.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> builder.stream("a", key=str, value=int).filter(lambda _k, n: n > 1).to("b")
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("a").pipe_key_value_list([("x", 1), ("y", 2)])
            ...     driver.create_output_topic("b").read_key_values_to_list()
            [('y', 2)]
        """
        return [(record.key, record.value) for record in self.read_records_to_list()]

    def read_key_values_to_map(self) -> dict[K, V]:
        """Read all records that are left; of each key the last value counts.

        Raises:
            TestDriverError: If a record has no key.
        """
        found: dict[K, V] = {}
        for record in self.read_records_to_list():
            if record.key is None:
                msg = f"topic {self.name!r} holds a record without a key"
                raise TestDriverError(msg, fix="read_key_values_to_list()")
            found[record.key] = record.value
        return found

    def expect_table(self, text: str, *, in_any_order: bool = False) -> None:
        """Read all remaining records, and compare them with a table.

        Only the table's columns are compared; they are those of `TestInputTopic.pipe_table`, plus
        ``start`` and ``end`` of a windowed key. Cells are compared as text, so that 3, 3.0 and the
        text "3" are equal.

        Args:
            text: The table; one with only a line of column names expects no records.
            in_any_order: Whether rows may be in any order.

        Raises:
            AssertionError: If the records differ; the message shows both, row by row.
            TableError: If the table cannot be read, or a value has no field of a column's name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str)
            >>> words.map_values(len, value=int).to("lengths")
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("words").pipe_input("a", "word")
            ...     driver.create_output_topic("lengths").expect_table('''
            ...         key | value
            ...         a   | 5
            ...     ''')
            Traceback (most recent call last):
            ...
            AssertionError: topic 'lengths' differs (- expected, + written):
              key | value
            - a   | 5
            + a   | 4
        """
        expected = table(text)
        differs = difference(expected, self.read_records_to_list(), in_any_order=in_any_order)
        if differs is not None:
            msg = f"topic {self.name!r} differs (- expected, + written):\n{differs}"
            raise AssertionError(msg)

    @property
    def is_empty(self) -> bool:
        """Whether no records are left to read."""
        return self.queue_size == 0

    @property
    def queue_size(self) -> int:
        """How many records are left to read."""
        return len(self._rows()) - self._position[0]

    def __repr__(self) -> str:
        return f"<TestOutputTopic {self.name}, {self.queue_size} to read>"
