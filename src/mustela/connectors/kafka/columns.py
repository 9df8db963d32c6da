"""Handing columns of rows to a producer, with as little Python for each row as there can be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from typing import Any, Protocol

from confluent_kafka import KafkaException, Producer

from mustela.connectors.kafka.calls import told_as_raised
from mustela.connectors.kafka.errors import ErrorKind, kind_of
from mustela.model import Headers

__all__ = ["ColumnSink", "Columns", "RowCallback", "RowColumns", "feed"]

SLICE_ROWS = 10_000
QUEUE_FULL_WAIT_S = 0.05

RowCallback = Callable[[int], Callable[..., None]]
"""Makes the delivery callback of one row, given its index."""


class RowColumns(Protocol):
    """Encoded rows as columns, whoever made them."""

    @property
    def topics(self) -> str | list[str]:
        """One topic for all rows, or one for each."""
        ...

    @property
    def keys(self) -> list[bytes | None]:
        """Keys."""
        ...

    @property
    def values(self) -> list[bytes | None]:
        """Values."""
        ...

    @property
    def timestamps(self) -> list[int] | None:
        """Milliseconds, or None to let the broker choose."""
        ...

    @property
    def headers(self) -> list[Headers] | None:
        """Headers, or None where no row has any."""
        ...

    @property
    def partitions(self) -> list[int | None] | int | None:
        """Partition per row, one for all, or None for Kafka's partitioner."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Rows as columns, all of one length.

    Attributes:
        topics: One topic for all rows, or one for each.
        keys: The keys.
        values: The values.
        timestamps: Milliseconds, or None for the time of sending.
        headers: Headers of each row, or None where no row has any.
        partitions: A partition for all rows, one for each, or None for Kafka's own partitioner.
        header: A header that each row gets besides its own.
        rows: The rows' indices in the columns that the caller gave; None if they are the same.
    """

    topics: str | Sequence[str]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int] | None = None
    headers: Sequence[Headers] | None = None
    partitions: Sequence[int | None] | int | None = None
    header: tuple[str, bytes] | None = None
    rows: Sequence[int] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    def without(self, skip: Collection[int]) -> Columns:
        """Return the rows whose index is not in ``skip``."""
        if not skip:
            return self
        return self._picked([row for row in range(len(self.values)) if row not in skip])

    def only(self, row: int) -> Columns:
        """Return row ``row`` alone."""
        return self._picked([row])

    def _picked(self, kept: list[int]) -> Columns:
        def pick(column: Any) -> Any:
            if column is None or isinstance(column, (str, int)):
                return column
            return [column[row] for row in kept]

        return Columns(
            topics=pick(self.topics),
            keys=pick(self.keys),
            values=pick(self.values),
            timestamps=pick(self.timestamps),
            headers=pick(self.headers),
            partitions=pick(self.partitions),
            header=self.header,
            rows=[self.original(row) for row in kept],
        )

    def original(self, row: int) -> int:
        """Return the index that the caller knows row ``row`` by."""
        return row if self.rows is None else self.rows[row]

    def topic(self, row: int) -> str:
        """Return the topic of row ``row``."""
        return self.topics if isinstance(self.topics, str) else self.topics[row]

    def timestamp(self, row: int) -> int:
        """Return the timestamp of row ``row`` as it is sent; 0 stands for the time of sending."""
        return 0 if self.timestamps is None else max(1, self.timestamps[row])

    def arguments(self, start: int, stop: int, callback: RowCallback | None) -> list[Iterable[Any]]:
        """Return the columns of the producer's arguments behind the key, for some rows."""
        partitions: Iterable[int]
        if self.partitions is None:
            partitions = repeat(-1)
        elif isinstance(self.partitions, int):
            partitions = repeat(self.partitions)
        else:
            partitions = [-1 if p is None else p for p in self.partitions[start:stop]]
        callbacks = repeat(None) if callback is None else map(callback, range(start, stop))
        arguments: list[Iterable[Any]] = [partitions, callbacks, repeat(None)]
        if self.timestamps is None:
            arguments.append(repeat(0))
        else:
            # The client takes 0 for "now"; times before 1970 do not exist in a log either.
            arguments.append([t if t > 0 else 1 for t in self.timestamps[start:stop]])
        headers = self._headers(start, stop)
        if headers is not None:
            arguments.append(headers)
        return arguments

    def _headers(self, start: int, stop: int) -> Iterable[list[Any]] | None:
        if self.headers is None:
            return None if self.header is None else repeat([self.header])
        own = self.headers[start:stop]
        if self.header is None:
            return map(list, own)
        extra = self.header
        return [[*some, extra] for some in own]


class ColumnSink(ABC):
    """Takes rows by columns."""

    def produce_columns(  # noqa: PLR0913 - the columns of a row
        self,
        topics: str | Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
        partitions: Sequence[int | None] | int | None = None,
        *,
        header: tuple[str, bytes] | None = None,
        tag: object = None,
        skip: Collection[int] = (),
    ) -> None:
        """Produce rows. What becomes of them, a flush says.

        Args:
            topics: One topic for all, or one for each row.
            keys: Keys.
            values: Values.
            timestamps: Milliseconds; None for the time of sending. 0 and less are sent as 1,
                because the client takes 0 for "now".
            headers: Headers of each row.
            partitions: A partition for all, one for each row, or None for Kafka's partitioner.
            header: A header that each row gets besides its own.
            tag: Comes back in `RefusedRow.tag`.
            skip: Indices of rows to leave out.
        """
        columns = Columns(
            topics=topics,
            keys=keys,
            values=values,
            timestamps=timestamps,
            headers=headers,
            partitions=partitions,
            header=header,
        ).without(skip)
        if len(columns):
            self._produce(columns, tag)

    @abstractmethod
    def _produce(self, columns: Columns, tag: object) -> None:
        """Produce rows; there is at least one."""


def feed(
    producer: Producer,
    columns: Columns,
    callback: RowCallback | None,
    refuse: Callable[[int, KafkaException], None],
    at_half: Callable[[], None] | None = None,
) -> None:
    """Produce all rows, in order; wait where the client's queue is full.

    The loop over the rows of a slice runs in C: it costs a third less than a ``for`` loop with
    positional arguments, and half of one with keywords.

    Args:
        producer: The producer.
        columns: The rows.
        callback: Makes each row's delivery callback; None for none.
        refuse: Told of rows that the client itself refuses; the others go on.
        at_half: Called when half of the rows are with the client.

    Raises:
        KafkaException: If the client takes no rows at all.
    """
    produce = producer.produce
    count = len(columns.values)
    assert len(columns.keys) == count, "columns of different lengths"
    assert columns.timestamps is None or len(columns.timestamps) == count, "lengths differ"
    assert columns.headers is None or len(columns.headers) == count, "lengths differ"
    position = 0
    while position < count:
        stop = min(position + SLICE_ROWS, count)
        values, keys = columns.values[position:stop], iter(columns.keys[position:stop])
        topics = (
            repeat(columns.topics)
            if isinstance(columns.topics, str)
            else columns.topics[position:stop]
        )
        arguments = columns.arguments(position, stop, callback)
        try:
            deque(map(produce, topics, values, keys, *arguments), maxlen=0)
            position = stop
        except BufferError:
            # What the iterator has left tells which row was refused: it is produced again.
            position = stop - length_hint(keys) - 1
            with told_as_raised(producer):
                producer.poll(QUEUE_FULL_WAIT_S)
        except KafkaException as raised:
            if kind_of(raised) is not ErrorKind.ROW:
                raise
            position = stop - length_hint(keys)
            refuse(position - 1, raised)
        with told_as_raised(producer):
            producer.poll(0)
        if at_half is not None and 2 * position >= count:
            at_half()
            at_half = None
