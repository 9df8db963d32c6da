"""A batch of records: one list per column, and where each row came from.

Keys and values are real lists. Timestamps, headers and order belong to the records from which a
batch was made; a step that filters or multiplies rows only notes which record each row came from,
and these columns are built when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, compress, islice, repeat
from operator import le
from typing import Any, Final

from mustela.model import Headers, RecordContext
from mustela.plan.columns import picked
from mustela.plan.time import NEVER

__all__ = ["SOURCE_ORDER", "Batch", "Order", "Origins", "RawRecord", "SourceChunk", "in_turn"]

Order = tuple[int, ...]
"""(running maximum of the partition's timestamps, topic index, partition, offset), then, after a
lane stage, (key group, emission number): a total order, the same for any number of lanes."""

OrderColumns = tuple[list[int] | int, ...]
"""Orders by column; a column that is the same for all of them is a number."""

RawRecord = tuple[bytes | None, bytes | None]
"""Key and value as they were read from a topic."""

SOURCE_ORDER: Final = 4
"""How many elements of an order name a source record."""


def in_turn(
    orders: Sequence[Order], counts: Sequence[int], turns: Sequence[int]
) -> Sequence[tuple[Any, ...]]:
    """Return keys that sort rows in the order of their records, and rows of one record by turns.

    Rows of one record that arrive by the same input keep their sequence.

    Args:
        orders: Order per row, those of each input together.
        counts: How many rows each input has.
        turns: The turn of each input (`mustela.plan.step.Step`); empty if no record arrives by
            several inputs, so that the orders alone count.

    Example:
        >>> record, result = (7, 0, 0, 1), (7, 0, 0, 1, 3, 0)
        >>> first, second = in_turn([record, result], [1, 1], (1, 0))
        >>> second < first
        True
    """
    if not turns:
        return orders
    of_rows = chain.from_iterable(map(repeat, turns, counts))
    return [(*order[:SOURCE_ORDER], turn) for order, turn in zip(orders, of_rows, strict=True)]


class Origins:
    """The records from which the rows of a batch come, as columns.

    Args:
        timestamps: Milliseconds, one per record.
        headers: Headers per record, or None if no record has any.
        order: Order per record, or None if order was given up for speed.
        topics: The plan's topics, to name a record in an error.

    Attributes:
        raws: The bytes of each record as it was read, None if they are not known; None as a whole
            if nobody may need them for dead letters.
    """

    __slots__ = ("_order", "headers", "raws", "timestamps", "topics")

    def __init__(
        self,
        timestamps: list[int],
        headers: list[Headers] | None = None,
        order: list[Order] | None = None,
        topics: Sequence[str] = (),
    ) -> None:
        self.timestamps = timestamps
        self.headers = headers
        self.topics = topics
        self.raws: list[RawRecord | None] | None = None
        self._order: list[Order] | None = order

    @property
    def order(self) -> list[Order] | None:
        """Order per record, or None if it is not known."""
        return self._order

    def order_columns(self, rows: Sequence[int] | None) -> OrderColumns | None:
        """Return the order of some records, or of all, by column; None if it is not known so."""
        del rows
        return None

    def context(self, row: int) -> RecordContext:
        """Return where record ``row`` came from, as far as that is known."""
        order = self.order
        index, partition, offset = -1, -1, -1
        if order is not None:
            index, partition, offset = order[row][1:4]
        known = 0 <= index < len(self.topics)
        return RecordContext(
            topic=self.topics[index] if known else None,
            partition=partition,
            offset=offset,
            timestamp=self.timestamps[row],
            headers=self.headers[row] if self.headers is not None else (),
        )


class SourceChunk(Origins):
    """Consecutive records of one topic partition, as they were read.

    Args:
        topics: The plan's topics.
        topic_index: The index of their topic.
        partition: The partition.
        offsets: Offsets, ascending.
        timestamps: Milliseconds, one per record.
        floor: The largest timestamp of the partition before this chunk.
        headers: Headers per record, or None if no record has any.
        latest: A later timestamp is too far ahead to count: such a record takes the place of the
            record before it, and does not delay those after it.
    """

    __slots__ = ("_times", "floor", "latest", "offsets", "partition", "topic_index")

    def __init__(  # noqa: PLR0913 - the columns of a chunk
        self,
        *,
        topics: Sequence[str],
        topic_index: int,
        partition: int,
        offsets: list[int],
        timestamps: list[int],
        floor: int = -1,
        headers: list[Headers] | None = None,
        latest: int = NEVER,
    ) -> None:
        super().__init__(timestamps, headers, None, topics)
        self.latest = latest
        self.topic_index = topic_index
        self.partition = partition
        self.offsets = offsets
        self.floor = floor
        self._times: list[int] | None = None

    def counting(self) -> tuple[list[int], int]:
        """Return the timestamps that count, and how many are too far ahead to count.

        The column keeps its length: -1 replaces a timestamp that does not count.
        """
        latest = self.latest
        if max(self.timestamps, default=-1) <= latest:
            return self.timestamps, 0
        counted = [-1 if timestamp > latest else timestamp for timestamp in self.timestamps]
        return counted, sum(timestamp > latest for timestamp in self.timestamps)

    def reaches(self, until: int) -> tuple[int, int] | None:
        """Return the first record whose order time is ``until`` or later, with that time."""
        running = accumulate(self.counting()[0], max, initial=self.floor)
        next(running)
        return next(((row, time) for row, time in enumerate(running) if time >= until), None)

    @property
    def order(self) -> list[Order]:
        """Order per record; computed when first needed."""
        if self._order is None:
            place = repeat(self.topic_index), repeat(self.partition)
            self._order = list(zip(self._running(), *place, self.offsets, strict=False))
        return self._order

    def order_columns(self, rows: Sequence[int] | None) -> OrderColumns | None:
        """Return the order of some records, or of all, by column."""
        times, offsets = self._running(), self.offsets
        if rows is not None:
            times, offsets = picked(times, rows), picked(offsets, rows)
        return times, self.topic_index, self.partition, offsets

    def _running(self) -> list[int]:
        """Return the order time of each record; computed when first needed."""
        if self._times is None:
            running = accumulate(self.counting()[0], max, initial=self.floor)
            next(running)
            self._times = list(running)
        return self._times


class Batch:
    """Rows in order, as columns.

    Args:
        keys: The keys.
        values: The values; for a table, the new values.
        origins: The records that the rows come from.
        rows: For each row the index of its record in ``origins``; None if they are the same.
        olds: For a table, the previous value of each key; None if nobody asked for it.
        key_bytes: The keys as bytes, None for a null key; None as a whole if they are not known.
        latest: For a versioned table, whether each change is of the key's newest version, and not
            of an older one that arrived late; None for any other table.
    """

    __slots__ = ("key_bytes", "keys", "latest", "olds", "origins", "rows", "values")

    def __init__(  # noqa: PLR0913 - the columns
        self,
        keys: list[Any],
        values: list[Any],
        origins: Origins,
        *,
        rows: list[int] | None = None,
        olds: list[Any] | None = None,
        key_bytes: list[Any] | None = None,
        latest: list[bool] | None = None,
    ) -> None:
        self.keys = keys
        self.values = values
        self.origins = origins
        self.rows = rows
        self.olds = olds
        self.key_bytes = key_bytes
        self.latest = latest

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    @classmethod
    def empty(cls) -> Batch:
        """Return a batch without rows."""
        return cls([], [], Origins([], None, []))

    @property
    def timestamps(self) -> list[int]:
        """The timestamp of each row, in milliseconds."""
        column = self.origins.timestamps
        return column if self.rows is None else picked(column, self.rows)

    @property
    def headers(self) -> list[Headers] | None:
        """The headers of each row, or None if no record has any."""
        column = self.origins.headers
        if column is None or self.rows is None:
            return column
        return picked(column, self.rows)

    @property
    def order(self) -> list[Order] | None:
        """The order of each row, or None if it was given up for speed."""
        column = self.origins.order
        if column is None or self.rows is None:
            return column
        return picked(column, self.rows)

    @property
    def order_columns(self) -> OrderColumns | None:
        """The order of each row by column, where that is known without looking at each row."""
        return self.origins.order_columns(self.rows)

    @property
    def raws(self) -> list[RawRecord | None] | None:
        """The bytes of each row's record as it was read; None if nobody may need them."""
        column = self.origins.raws
        if column is None or self.rows is None:
            return column
        return picked(column, self.rows)

    def with_origins(self, order: list[Order] | None, *, raws: bool = True) -> Batch:
        """Return the same rows, each as a record of its own.

        Args:
            order: Order per row.
            raws: Whether the bytes that were read are kept, if they are known.
        """
        origins = Origins(self.timestamps, self.headers, order, self.origins.topics)
        origins.raws = self.raws if raws else None
        return Batch(
            self.keys,
            self.values,
            origins,
            olds=self.olds,
            key_bytes=self.key_bytes,
            latest=self.latest,
        )

    def context(self, row: int) -> RecordContext:
        """Return where row ``row`` came from."""
        return self.origins.context(row if self.rows is None else self.rows[row])

    def with_values(self, values: list[Any]) -> Batch:
        """Return the same rows with other values; keys, timestamps and headers stay."""
        return Batch(self.keys, values, self.origins, rows=self.rows, key_bytes=self.key_bytes)

    def with_key_bytes(self, key_bytes: list[Any]) -> Batch:
        """Return the same rows with their keys as bytes; all other columns stay."""
        return Batch(
            self.keys,
            self.values,
            self.origins,
            rows=self.rows,
            olds=self.olds,
            key_bytes=key_bytes,
            latest=self.latest,
        )

    def with_changes(
        self, values: list[Any], olds: list[Any] | None, *, keys: list[Any] | None = None
    ) -> Batch:
        """Return the same changes of a table with other values; all other columns stay.

        Args:
            values: The new values.
            olds: The previous values; None if nobody asked for them.
            keys: The keys as other objects with the same bytes; by default the present ones.
        """
        return Batch(
            self.keys if keys is None else keys,
            values,
            self.origins,
            rows=self.rows,
            olds=olds,
            key_bytes=self.key_bytes,
            latest=self.latest,
        )

    def with_keys(self, keys: list[Any], values: list[Any] | None = None) -> Batch:
        """Return the same rows with other keys, and other values if they are given."""
        return Batch(keys, self.values if values is None else values, self.origins, rows=self.rows)

    def select(self, mask: Sequence[Any]) -> Batch:
        """Return the rows whose mask is true."""
        rows = range(len(self.values)) if self.rows is None else self.rows
        return Batch(
            list(compress(self.keys, mask)),
            list(compress(self.values, mask)),
            self.origins,
            rows=list(compress(rows, mask)),
            olds=None if self.olds is None else list(compress(self.olds, mask)),
            key_bytes=None if self.key_bytes is None else list(compress(self.key_bytes, mask)),
            latest=None if self.latest is None else list(compress(self.latest, mask)),
        )

    def take(self, index: Sequence[int], *, keys: bool = True) -> Batch:
        """Return the rows at ``index``, in that order; without keys if their bytes will do."""
        rows = self.rows
        return Batch(
            picked(self.keys, index) if keys else [],
            picked(self.values, index),
            self.origins,
            rows=list(index) if rows is None else picked(rows, index),
            olds=None if self.olds is None else picked(self.olds, index),
            key_bytes=None if self.key_bytes is None else picked(self.key_bytes, index),
            latest=None if self.latest is None else picked(self.latest, index),
        )

    def expand(self, counts: Iterable[int], values: list[Any], keys: list[Any] | None) -> Batch:
        """Return row i ``counts[i]`` times, with new values and, if given, new keys."""
        rows = range(len(self.values)) if self.rows is None else self.rows
        counted = list(counts)
        return Batch(
            _repeat_each(self.keys, counted) if keys is None else keys,
            values,
            self.origins,
            rows=_repeat_each(rows, counted),
            key_bytes=(
                None
                if keys is not None or self.key_bytes is None
                else _repeat_each(self.key_bytes, counted)
            ),
        )

    @classmethod
    def concatenate(cls, batches: Sequence[Batch]) -> Batch:
        """Return the rows of all batches, one batch after the other.

        Columns that one of the batches lacks are missing in the result; headers and ``latest`` are
        filled up.
        """
        batches = [batch for batch in batches if len(batch)]
        if not batches:
            return cls.empty()
        if len(batches) == 1:
            return batches[0]
        headers: list[Headers] | None = None
        if any(batch.origins.headers is not None for batch in batches):
            headers = []
            for batch in batches:
                headers.extend(batch.headers or [()] * len(batch))
        orders = [batch.order for batch in batches]
        order = None if None in orders else list(chain.from_iterable(o for o in orders if o))
        timestamps = list(chain.from_iterable(batch.timestamps for batch in batches))
        olds = [batch.olds for batch in batches]
        bytes_ = [batch.key_bytes for batch in batches]
        latest: list[bool] | None = None
        if any(batch.latest is not None for batch in batches):
            latest = []
            for batch in batches:
                latest.extend(batch.latest or [True] * len(batch))
        origins = Origins(timestamps, headers, order, batches[0].origins.topics)
        if any(batch.origins.raws is not None for batch in batches):
            origins.raws = []
            for batch in batches:
                origins.raws.extend(batch.raws or [None] * len(batch))
        return cls(
            list(chain.from_iterable(batch.keys for batch in batches)),
            list(chain.from_iterable(batch.values for batch in batches)),
            origins,
            olds=None if None in olds else list(chain.from_iterable(o for o in olds if o)),
            key_bytes=None if None in bytes_ else list(chain.from_iterable(b for b in bytes_ if b)),
            latest=latest,
        )

    @classmethod
    def merge(cls, batches: Sequence[Batch], turns: Sequence[int] = ()) -> Batch:
        """Return the rows of all batches in order; rows of equal order keep their sequence.

        Batches without an order column follow one another as they are given. Records of a source
        are in order already; changes of a table need not be: those of one record are in the order
        in which their keys were touched, and in merged order by key group, the same for any number
        of lanes.

        Args:
            batches: The batches.
            turns: As of `in_turn`.
        """
        joined = cls.concatenate(batches)
        order = joined.order
        if not order:
            return joined
        if turns:
            places = in_turn(order, [len(batch) for batch in batches], turns)
            return joined.take(sorted(range(len(places)), key=places.__getitem__))
        alone = sum(len(batch) > 0 for batch in batches) == 1
        if alone and len(order[0]) == SOURCE_ORDER:
            return joined
        if all(map(le, order, islice(order, 1, None))):
            return joined  # as if one task had sent all of it
        index = sorted(range(len(order)), key=order.__getitem__)
        return joined.take(index)


def _repeat_each(column: Sequence[Any], counts: list[int]) -> list[Any]:
    return list(chain.from_iterable(map(repeat, column, counts)))
