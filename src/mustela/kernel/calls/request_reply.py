"""Records that wait for replies to their requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mustela.api.calls import CallFailedError
from mustela.kernel.calls.parked import (
    ParkedRecord,
    WaitingCall,
    call_id,
    fail_parked,
    read_waiting,
    write_waiting,
)
from mustela.kernel.core.each import call_each, drop, keep_mask, without
from mustela.kernel.core.encode import encode_column, failing
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.operator import Operator
from mustela.model import Headers, Record
from mustela.plan.batch import Batch, Order, Origins
from mustela.serdes.base import Serde
from mustela.serdes.primitives import StrSerde
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.buffer import SlotBuffer
from mustela.topology.request_reply import CorrelateNode, ReplyKeyNode, RequestReplyNode

__all__ = ["CorrelateOperator", "ReplyKeyOperator", "RequestReplyOperator"]


class CorrelateOperator(Operator[CorrelateNode]):
    """Gives each record a correlation id, the same whenever the record is handled again."""

    def process_one(self, batch: Batch) -> Batch:
        """Give each record its correlation id."""
        order = batch.order
        assert order is not None, self.step.name
        headers: Sequence[Headers] = batch.headers or [()] * len(batch)
        application_id = self.options.application_id
        seen: Counter[Any] = Counter()
        names: list[str] = []
        for row in range(len(batch)):
            place = (batch.context(row).topic, order[row], None)
            names.append(call_id(application_id, self.node.step, place, seen[place]))
            seen[place] += 1
        marked = [
            (*own, (self.node.header, name.encode()))
            for own, name in zip(headers, names, strict=True)
        ]
        origins = Origins(batch.timestamps, marked, order, batch.origins.topics)
        return Batch(names, list(zip(batch.keys, batch.values, strict=True)), origins)


class ReplyKeyOperator(Operator[ReplyKeyNode]):
    """Finds the request that each reply belongs to."""

    def process_one(self, batch: Batch) -> Batch:
        """Make the correlation id of each reply its key."""
        headers: Sequence[Headers] = batch.headers or [()] * len(batch)
        names: list[Any] = [self._id(own) for own in headers]
        missing = [row for row, name in enumerate(names) if name is None]
        if missing:
            self.count("replies_without_id", len(missing))
        kept = batch.select(keep_mask(len(batch), missing)) if missing else batch
        return kept.with_keys(drop(names, missing))

    def _id(self, headers: Headers) -> str | None:
        found = dict(headers).get(self.node.header)
        if found is None:
            return None
        try:
            return found.decode("ascii")
        except UnicodeDecodeError:
            return None


class RequestReplyOperator(KeyedOperator[RequestReplyNode]):
    """Parks each record under its correlation id until its reply arrives or it times out."""

    def open(self) -> None:
        """Look up the store."""
        self.use_key_serde(StrSerde())
        self._record_key: Serde[Any] = self.node.key or ValueSerde(sort_keys=True)
        self._value: Serde[Any] = self.node.value or ValueSerde()
        self._store = self.lane_store(self.node.parking)
        self._buffers: dict[int, SlotBuffer] = {}
        self._results: list[tuple[Order, WaitingCall, Any, Any]] = []

    def key_serde_out(self) -> None:
        """Return None: the key bytes of the results are not known."""

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Take records first, then replies: a reply of this epoch may answer an earlier attempt."""
        requests, replies = inputs
        if len(requests):
            self._park(requests)
        if len(replies):
            self._reply(replies)
        return self._batch()

    def finish(self) -> Batch | None:
        """Release the records that have timed out."""
        now = self.context.time.now_ms
        for group in self._store.groups:
            buffer = self._buffer(group)
            due = list(buffer.due(now))
            buffer.remove([one.key for one in due])
            for one in due:
                self._time_out(read_waiting(one.value))
        return self._batch()

    def due_processing_times(self) -> dict[int, int]:
        """Return when the first record of each key group has waited long enough."""
        due: dict[int, int] = {}
        for group in self._store.groups:
            first = self._buffer(group).oldest()
            if first is not None:
                due[group] = first.time
        return due

    def _buffer(self, group: int) -> SlotBuffer:
        buffer = self._buffers.get(group)
        if buffer is None:
            buffer = self._buffers[group] = SlotBuffer(self._store.group(group))
        return buffer

    def _park(self, batch: Batch) -> None:
        failures = self.encode_failures()
        pairs = batch.values
        keys, failed = encode_column(self._record_key, [key for key, _ in pairs], batch, failures)
        batch, keys = without(batch, failed), drop(keys, failed)
        values, failed = encode_column(
            self._value, [value for _, value in batch.values], batch, failures
        )
        batch, keys, values = without(batch, failed), drop(keys, failed), drop(values, failed)
        headers: Sequence[Headers] = batch.headers or [()] * len(batch)
        order, stamps, now = batch.order or [], batch.timestamps, self.context.time.now_ms
        slots = [
            write_waiting(
                WaitingCall(
                    name,
                    values[row],
                    stamps[row],
                    list(headers[row][:-1]),  # the last one is the correlation id
                    list(order[row]),
                    batch.context(row).topic,
                    now,
                    keys[row],
                )
            )
            for row, name in enumerate(batch.keys)
        ]
        ends = [now + self.node.timeout_ms] * len(slots)
        names = [name.encode() for name in batch.keys]
        for group, places in self._places(names).items():
            self._buffer(group).put_many(
                [names[n] for n in places], [ends[n] for n in places], [slots[n] for n in places]
            )

    def _places(self, names: Sequence[bytes]) -> dict[int, list[int]]:
        places: dict[int, list[int]] = {}
        for place, group in enumerate(self._store.groups_of(names)):
            places.setdefault(group, []).append(place)
        return places

    def _reply(self, batch: Batch) -> None:
        """Forward records whose replies have arrived; count replies that no record waits for."""
        names = [name.encode() for name in batch.keys]
        found: dict[int, WaitingCall] = {}
        taken: set[bytes] = set()
        for group, places in self._places(names).items():
            buffer = self._buffer(group)
            mine = [names[place] for place in places]
            for place, slot in zip(places, buffer.load_many(mine), strict=True):
                if slot is not None and names[place] not in taken:
                    taken.add(names[place])
                    found[place] = read_waiting(slot[1])
            buffer.remove(mine)
        if len(found) < len(batch):
            self.count("unmatched_replies", len(batch) - len(found))
        rows = sorted(found)
        answered = batch.take(rows)
        waiting = [found[row] for row in rows]
        values = self._value.deserialize_many([one.value for one in waiting])
        on_failure = failing(answered, self.user_failures(self.node.joiner))
        results, failed = call_each(self.node.joiner, (values, answered.values), on_failure)
        for row in sorted(set(range(len(waiting))).difference(failed)):
            key = self._record_key.deserialize(waiting[row].key)
            self._results.append((waiting[row].record_order, waiting[row], key, results[row]))

    def _time_out(self, waiting: WaitingCall) -> None:
        key = self._record_key.deserialize(waiting.key)
        seconds = self.node.timeout_ms / 1000
        error = CallFailedError(
            f"no reply came within {seconds:g} s",
            at=self.node.origin,
            fields={
                "cause": "TimeoutError",
                "attempts": 1,
                "idempotency_key": waiting.call_id,
            },
        )
        self.count("request_timeouts")
        wish = self.node.rules.on_timeout
        record = ParkedRecord(waiting, waiting.key, has_raw=self.node.value is not None)
        if not callable(wish):
            handler = wish or self.processing_handler
            fail_parked(self, record, key, error, (handler, None))
            return
        value = self._value.deserialize(waiting.value)
        try:
            given = wish(
                Record(key, value, max(0, waiting.timestamp), waiting.record_headers), error
            )
        except Exception as failure:  # noqa: BLE001 - the function is the user's
            fail_parked(self, record, key, failure, (self.processing_handler, wish))
            return
        self._results.append((waiting.record_order, waiting, key, given))

    def _batch(self) -> Batch | None:
        """Return the results so far, in the order of their records."""
        if not self._results:
            return None
        found, self._results = sorted(self._results, key=lambda one: one[0]), []
        headers = [waiting.record_headers for _, waiting, _, _ in found]
        origins = Origins(
            [waiting.timestamp for _, waiting, _, _ in found],
            headers if any(headers) else None,
            [order for order, _, _, _ in found],
        )
        return Batch([key for _, _, key, _ in found], [value for *_, value in found], origins)
