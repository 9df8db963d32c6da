"""The join of a stream with a versioned table, where records wait for late rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec

from mustela.kernel.core.each import drop, without
from mustela.kernel.core.encode import encode_column
from mustela.kernel.joins.stream_table_join import StreamTableJoinOperator
from mustela.model import TIME_MAX, Headers
from mustela.plan.batch import Batch, Order, Origins
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.buffer import Buffered, RecordBuffer

__all__ = ["StreamTableGraceJoinOperator"]

_LAST: Final = 1 << 62
"""Larger than any part of an order, so that a record's own changes come before it."""


class _Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A waiting record, without its key and time."""

    value: bytes
    headers: list[tuple[str, bytes | None]] = []


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(_Waiting).decode


@dataclass(slots=True)
class _Going:
    """A record to join, and the moment at which it looks the table up."""

    place: Order
    key: Any
    key_bytes: bytes | None
    value: Any
    timestamp: int
    headers: Headers


@dataclass(frozen=True, slots=True)
class _Arrived:
    """The records of an epoch that take part, as columns.

    Attributes:
        batch: The records in order.
        key_bytes: Their keys.
        encoded: Their values as bytes.
        times: When each is judged.
        asking: The rows that have a key: these look the table up, and advance time.
    """

    batch: Batch
    key_bytes: list[Any]
    encoded: list[bytes | None]
    times: list[int]
    asking: list[int]


class StreamTableGraceJoinOperator(StreamTableJoinOperator):
    """Joins each record when the grace period after its timestamp has passed, in time order.

    A record that arrives later than that is joined at once. Everything happens after the epoch's
    rows, because waiting records may be due anywhere between the changes.
    """

    def open(self) -> None:
        """Look up table and buffer."""
        super().open()
        buffer, grace_ms = self.node.buffer, self.node.grace_ms
        assert buffer is not None
        assert grace_ms is not None
        self._grace_ms = grace_ms
        self._value: Serde[Any] = buffer.rows_of(buffer.value_serde or ValueSerde())
        self._buffered = self.lane_store(buffer)
        self._clock = self.event_clock(self._buffered)
        self._clock.keep_moves()
        self._streams: list[Batch] = []
        self._changes: list[Batch] = []

    def process(self, inputs: Sequence[Batch]) -> None:
        """Take records and changes; see `finish`."""
        stream, changes = inputs
        if len(stream):
            self._streams.append(stream)
        if len(changes):
            self._changes.append(changes)

    def finish(self) -> Batch | None:
        """Join what is due."""
        changes, changed = self.keyed_input(Batch.concatenate(self._changes), 1)
        arrived = self._arrived()
        mine = self._by_group(arrived)
        turns = _turns(arrived.batch.order or [], mine.values())
        going = list(self._at_once(arrived, turns))
        for group in self._buffered.groups:
            going.extend(self._released(group, arrived, mine.get(group, []), turns))
        self._clock.save()
        going.sort(key=lambda record: record.place)
        result: Batch | None = None
        if going:
            result = self._met(going, changes, changed)
        else:
            assert self._versions is not None
            self._versions.answer((), [], (), changes, changed)
        self._streams, self._changes = [], []
        return result

    def due_event_times(self) -> dict[int, int]:
        """Return when the first waiting record of each key group is due."""
        due: dict[int, int] = {}
        for group in self._buffered.groups:
            first = RecordBuffer(self._buffered.group(group)).next_time()
            if first is not None:
                due[group] = self._fires(first)
        return due

    def _fires(self, timestamp: int) -> int:
        return min(timestamp + self._grace_ms + self.step.lag_ms, TIME_MAX)

    def _arrived(self) -> _Arrived:
        stream, key_bytes = self._admitted(Batch.concatenate(self._streams), ordered=True)
        encoded, failed = encode_column(self._value, stream.values, stream, self.encode_failures())
        stream, key_bytes = without(stream, failed), drop(key_bytes, failed)
        rows = [row for row, key in enumerate(key_bytes) if key is not None]
        times = [0] * len(stream)
        if rows:
            judged = self._clock.row_times(stream.take(rows), [key_bytes[row] for row in rows])
            for row, time in zip(rows, judged, strict=True):
                times[row] = time
        return _Arrived(stream, key_bytes, drop(encoded, failed), times, rows)

    def _by_group(self, arrived: _Arrived) -> dict[int, list[int]]:
        groups = self._buffered.groups_of([arrived.key_bytes[row] for row in arrived.asking])
        mine: dict[int, list[int]] = {}
        for row, group in zip(arrived.asking, groups, strict=True):
            mine.setdefault(group, []).append(row)
        return mine

    def _at_once(self, arrived: _Arrived, turns: dict[int, int]) -> Iterator[_Going]:
        """Yield the records that do not wait: they have no key, or arrived too late."""
        batch = arrived.batch
        stamps, headers, order = batch.timestamps, batch.headers, batch.order or []
        for row, key in enumerate(arrived.key_bytes):
            if key is None or self._is_late(stamps[row], arrived.times[row]):
                yield _Going(
                    (*order[row], _LAST, turns.get(row, 0), 0, 0),
                    batch.keys[row],
                    key,
                    batch.values[row],
                    stamps[row],
                    headers[row] if headers is not None else (),
                )

    def _is_late(self, timestamp: int, now: int) -> bool:
        return timestamp < now - self._grace_ms

    def _released(
        self, group: int, arrived: _Arrived, rows: list[int], turns: dict[int, int]
    ) -> list[_Going]:
        """Let new records of a key group wait, and yield those whose wait is over."""
        buffer = RecordBuffer(self._buffered.group(group))
        batch = arrived.batch
        stamps, headers = batch.timestamps, batch.headers
        waiting = [row for row in rows if not self._is_late(stamps[row], arrived.times[row])]
        encoded = [
            _ENCODE(_Waiting(arrived.encoded[row] or b"", list(headers[row]) if headers else []))
            for row in waiting
        ]
        keys = [arrived.key_bytes[row] for row in waiting]
        buffer.put_many(keys, [stamps[row] for row in waiting], encoded)
        due = buffer.take_due(self._clock.closed_until(group) - self._grace_ms)
        came = _came(due, {row: (stamps[row], arrived.key_bytes[row]) for row in waiting})
        going: list[_Going] = []
        for number, (record, own) in enumerate(zip(due, came, strict=True)):
            kept = _DECODE(record.value)
            place, turn = self._place(group, record.time, own, arrived, turns)
            going.append(
                _Going(
                    (*place, _LAST, turn, group + 1, number),
                    self._key.deserialize(record.key),
                    record.key,
                    self._value.deserialize(kept.value),
                    record.time,
                    tuple(kept.headers),
                )
            )
        return going

    def _place(
        self, group: int, time: int, own: int | None, arrived: _Arrived, turns: dict[int, int]
    ) -> tuple[Order, int]:
        """Return the place at which a record is joined, and its turn there.

        That is after the row that ended its wait, or its own row if that came later; at its due
        time if no row did.
        """
        moved = self._clock.moved_to(group, time + self._grace_ms)
        if moved is None:
            return (self._fires(time), -1, -1, -1), 0
        cause = max(arrived.asking[moved.row], -1 if own is None else own)
        order = arrived.batch.order or []
        return order[cause], turns.get(cause, 0)

    def _met(self, going: list[_Going], changes: Batch, changed: list[bytes]) -> Batch:
        """Join due records with the versions valid at their times."""
        assert self._versions is not None
        headers = [record.headers for record in going]
        places = [record.place for record in going]
        origins = Origins(
            [record.timestamp for record in going],
            headers if any(headers) else None,
            places,
            self._topics(changes),
        )
        key_bytes: list[Any] = [record.key_bytes for record in going]
        batch = Batch(
            [record.key for record in going],
            [record.value for record in going],
            origins,
            key_bytes=key_bytes,
        )
        records = batch, key_bytes
        found = self._versioned(self._versions, records, places, changes, changed)
        return self._joined(batch, key_bytes, found)

    def _topics(self, changes: Batch) -> Sequence[str]:
        batches = [*self._streams, changes]
        return next((batch.origins.topics for batch in batches if batch.origins.topics), ())


def _turns(order: Sequence[Order], groups: Iterable[list[int]]) -> dict[int, int]:
    """Return each row's place among the rows of its record and key group, if it is not 0."""
    turns: dict[int, int] = {}
    for rows in groups:
        for before, row in pairwise(rows):
            if order[before] == order[row]:
                turns[row] = turns.get(before, 0) + 1
    return turns


def _came(due: Sequence[Buffered], fresh: dict[int, tuple[int, bytes]]) -> list[int | None]:
    """Return, for each due record, the row by which it arrived in this epoch, if it did.

    Of records with the same time and key, those that waited before come first.
    """
    rows: dict[tuple[int, bytes], list[int]] = {}
    for row, identity in fresh.items():
        rows.setdefault(identity, []).append(row)
    return [
        mine.pop() if (mine := rows.get((record.time, record.key))) else None
        for record in reversed(due)
    ][::-1]
