"""Changes of a table, held back until they are due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mustela.errors import UsageError
from mustela.kernel.core.each import drop, without
from mustela.kernel.core.encode import encode_column
from mustela.kernel.core.keyed import KeyedOperator
from mustela.model import TIME_MAX, Headers, Windowed
from mustela.plan.batch import Batch, Order, Origins
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.buffer import Buffered, SlotBuffer, WeighedSlotBuffer
from mustela.state.kinds.layout import TIME_MIN
from mustela.topology.suppress import SuppressNode

__all__ = ["BufferFullError", "SuppressOperator"]


class BufferFullError(UsageError):
    """A suppressed table would hold back more than its buffer allows."""

    code = "SUPPRESS_BUFFER_FULL"


class _Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A waiting change, as stored in its slot.

    Attributes:
        timestamp: Of the last change.
        new: Its value, None for a deletion.
        old: The value forwarded before, None if there was none.
        headers: Of the last change.
    """

    timestamp: int
    new: bytes | None
    old: bytes | None
    headers: list[tuple[str, bytes | None]] = []


_ROW_BYTES: Final = 100
"""The fixed size of a row, in addition to its key, its values and its headers.

In Kafka Streams that is 28 bytes, plus the name of the topic through which the record entered its
task.
"""
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(_Waiting).decode


@dataclass(frozen=True, slots=True)
class _Released:
    """A row to forward: what waited, and the order that it gets."""

    row: Buffered
    order: Order


class SuppressOperator(KeyedOperator[SuppressNode]):
    """Forwards the last of the changes of a key that are held back together.

    Its old value is the one forwarded before, so that later steps see a table of the forwarded
    rows. Where a change advances time, rows are forwarded with it; where time advances when the
    epoch ends, after the epoch's rows.
    """

    def open(self) -> None:
        """Look up the buffer."""
        self.use_key_serde(self.node.key)
        self._value: Serde[Any] = self.node.buffer.rows_of(self.node.value or ValueSerde())
        self._store = self.lane_store(self.node.buffer)
        self._clock = self.event_clock(self._store)
        self._buffers: dict[int, SlotBuffer] = {}
        self._weighs = self.node.max_bytes is not None
        self._bounded = self._weighs or self.node.max_records is not None

    def process_one(self, batch: Batch) -> Batch | None:
        """Hold changes back; return the rows that they release."""
        batch, key_bytes = self.with_key_bytes(batch)
        batch, key_bytes, encoded = self._encoded(batch, key_bytes)
        if not key_bytes:
            return None
        times = self._slot_times(batch)
        passed = self._clock.passed_by(batch, key_bytes)
        if passed is None and not self._bounded:
            for buffer, places in self._routed(key_bytes):
                self._hold(buffer, places, (key_bytes, times, encoded))
            return None
        return self._row_by_row(batch, key_bytes, passed, (times, encoded))

    def finish(self) -> Batch | None:
        """Release what is due when the epoch ends and was released by no row."""
        self._clock.save()
        released: list[_Released] = []
        for group in self._store.groups:
            rows = self._due(group, self._clock.closed_until(group))
            delay = self._delay + self.step.lag_ms
            for number, row in enumerate(rows):
                fired = min(row.time + delay, TIME_MAX)
                released.append(_Released(row, (fired, -1, -1, -1, group, number)))
        released.sort(key=lambda going: going.order)
        return self._batch(released)

    def due_event_times(self) -> dict[int, int]:
        """Return when the first row of each key group is due."""
        due: dict[int, int] = {}
        for group in self._store.groups:
            first = self._buffer(group).oldest()
            if first is not None:
                due[group] = min(first.time + self._delay + self.step.lag_ms, TIME_MAX)
        return due

    @property
    def _delay(self) -> int:
        """Return the delay from a slot's time to its due time."""
        return self.node.wait_ms if self.node.until == "time_limit" else 0

    def _encoded(
        self, batch: Batch, key_bytes: list[bytes]
    ) -> tuple[Batch, list[bytes], list[bytes]]:
        """Encode changes as slots; only a change that cannot be encoded goes to the handler."""
        failures = self.encode_failures()
        news, failed = encode_column(self._value, batch.values, batch, failures)
        news, key_bytes = drop(news, failed), drop(key_bytes, failed)
        batch = without(batch, failed)
        olds: Sequence[bytes | None] = [None] * len(batch)
        if batch.olds is not None and self.step.wants_old:
            olds = self._value.serialize_many(batch.olds)
        headers: Sequence[Headers] = batch.headers or [()] * len(batch)
        columns = zip(batch.timestamps, news, olds, headers, strict=True)
        slots = [_ENCODE(_Waiting(time, new, old, list(some))) for time, new, old, some in columns]
        return batch, key_bytes, slots

    def _slot_times(self, batch: Batch) -> list[int]:
        if self.node.until == "time_limit":
            return batch.timestamps
        wait = self.node.wait_ms
        return [min(_end(key) + wait, TIME_MAX) for key in batch.keys]

    def _buffer(self, group: int) -> SlotBuffer:
        buffer = self._buffers.get(group)
        if buffer is None:
            view = self._store.group(group)
            buffer = WeighedSlotBuffer(view, _weight) if self._weighs else SlotBuffer(view)
            self._buffers[group] = buffer
        return buffer

    def _routed(self, key_bytes: Sequence[bytes]) -> Iterable[tuple[SlotBuffer, list[int]]]:
        places: dict[int, list[int]] = {}
        for place, group in enumerate(self._store.groups_of(key_bytes)):
            places.setdefault(group, []).append(place)
        return [(self._buffer(group), found) for group, found in places.items()]

    def _hold(
        self,
        buffer: SlotBuffer,
        places: Sequence[int],
        columns: tuple[Sequence[bytes], Sequence[int], Sequence[bytes]],
    ) -> None:
        """Put changes into their slots; the old value of a slot's first change stays."""
        key_bytes, times, slots = columns
        keys = [key_bytes[place] for place in places]
        known = dict(zip(keys, buffer.load_many(keys), strict=True))
        olds = {key: _DECODE(found[1]).old for key, found in known.items() if found is not None}
        values: list[bytes] = []
        for place in places:
            key, slot = key_bytes[place], slots[place]
            if key in olds:
                waiting = _DECODE(slot)
                slot = _ENCODE(msgspec.structs.replace(waiting, old=olds[key]))
            else:
                olds[key] = _DECODE(slot).old
            values.append(slot)
        buffer.put_many(keys, [times[place] for place in places], values)

    def _row_by_row(
        self,
        batch: Batch,
        key_bytes: list[bytes],
        passed: list[int] | None,
        columns: tuple[list[int], list[bytes]],
    ) -> Batch | None:
        """Hold changes back one by one; release what one of them makes due, or leaves no room for.

        Args:
            batch: The changes.
            key_bytes: Their keys.
            passed: The event time after each, if rows advance it.
            columns: The times of their slots, and the slots themselves.
        """
        times, slots = columns
        groups = self._store.groups_of(key_bytes)
        for buffer, places in self._routed(key_bytes):
            buffer.load_many([key_bytes[place] for place in places])
        first = {group: self._first(group) for group in set(groups)}
        order = batch.order
        released: list[_Released] = []
        numbers = dict.fromkeys(first, 0)  # continue counting: rows of one record have one order
        for row, group in enumerate(groups):
            buffer = self._buffer(group)
            self._hold(buffer, [row], (key_bytes, times, slots))
            going: list[Buffered] = []
            first[group] = min(first[group], times[row])
            if passed is not None and first[group] + self._delay <= passed[row]:
                going = self._due(group, passed[row])
                first[group] = self._first(group)
            if self._bounded and self._is_full(buffer):
                going += self._make_room(buffer, batch, row)
                first[group] = self._first(group)
            cause = (batch.timestamps[row], -1, -1, -1) if order is None else order[row]
            released += [
                _Released(row_, (*cause, group, number))
                for number, row_ in enumerate(going, numbers[group])
            ]
            numbers[group] += len(going)
        return self._batch(released)

    def _first(self, group: int) -> int:
        oldest = self._buffer(group).oldest()
        return TIME_MAX if oldest is None else oldest.time

    def _due(self, group: int, now: int) -> list[Buffered]:
        """Remove what is due from a buffer."""
        until = now - self._delay
        if until < TIME_MIN:
            return []
        buffer = self._buffer(group)
        rows = list(buffer.due(until))
        buffer.remove([row.key for row in rows])
        return rows

    def _is_full(self, buffer: SlotBuffer) -> bool:
        records, size = self.node.max_records, self.node.max_bytes
        if records is not None and buffer.count > records:
            return True
        return size is not None and _bytes(buffer) > size

    def _make_room(self, buffer: SlotBuffer, batch: Batch, row: int) -> list[Buffered]:
        """Release the oldest rows early.

        Raises:
            BufferFullError: If rows must not be released early.
        """
        if self.node.when_full == "shut_down":
            msg = f"the buffer of {self.node.name!r} is full"
            raise BufferFullError(
                msg,
                evidence={
                    "rows": f"{buffer.count}, at most {self.node.max_records or 'any number'}",
                    "bytes": f"{_bytes(buffer)}, at most {self.node.max_bytes or 'any number'}",
                    "key": repr(batch.keys[row]),
                },
                at=self.node.origin,
                why="rows must not be emitted early, and none may be lost",
                fix="allow more, or use emit_early_when_full() if early results do no harm",
                fields={"step": self.node.name},
            )
        going: list[Buffered] = []
        while self._is_full(buffer):
            oldest = buffer.oldest()
            assert oldest is not None, self.node.name
            buffer.remove([oldest.key])
            going.append(oldest)
        return going

    def _batch(self, released: list[_Released]) -> Batch | None:
        """Return the rows to forward, without deletions of closed windows."""
        waiting = [_DECODE(going.row.value) for going in released]
        if self.node.until == "window_closes":
            kept = [n for n, row in enumerate(waiting) if row.new is not None]
            released, waiting = [released[n] for n in kept], [waiting[n] for n in kept]
        if not released:
            return None
        headers = [tuple(row.headers) for row in waiting]
        origins = Origins(
            [row.timestamp for row in waiting],
            headers if any(headers) else None,
            [going.order for going in released],
        )
        key_bytes = [going.row.key for going in released]
        olds = [row.old for row in waiting]
        return Batch(
            self._key.deserialize_many(key_bytes),
            self._value.deserialize_many([row.new for row in waiting]),
            origins,
            olds=self._value.deserialize_many(olds) if self.step.wants_old else None,
            key_bytes=key_bytes,
        )


def _end(key: Any) -> int:
    assert isinstance(key, Windowed), key
    end: int = key.end
    return end


def _weight(key: bytes, slot: bytes) -> int:
    """Return the bytes of a row as Kafka Streams counts them."""
    row = _DECODE(slot)
    headers = sum(len(name) + len(value or b"") for name, value in row.headers)
    return _ROW_BYTES + len(key) + len(row.new or b"") + len(row.old or b"") + headers


def _bytes(buffer: SlotBuffer) -> int:
    """Return the size of what waits, in bytes; without a limit in bytes, the stored size."""
    return buffer.weight if isinstance(buffer, WeighedSlotBuffer) else buffer.bytes
