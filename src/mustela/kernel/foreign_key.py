"""Joins by foreign key: the three steps of one, each in the lane where its rows are.

Values travel between the steps, and wait in the stores, as bytes: each pair that is joined has
values of its own, whatever the joiner does to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from struct import Struct
from types import MappingProxyType
from typing import Any, Final

from mustela.kernel.changes import latest_only
from mustela.kernel.codec import StoreCodec
from mustela.kernel.each import call_each, drop, keep_mask, without
from mustela.kernel.encode import encode_column, failing
from mustela.kernel.keyed import KeyedOperator
from mustela.kernel.table import KeyedTableOperator, call_present
from mustela.plan.batch import Batch, Order, Origins
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.topology.foreign_key import (
    ForeignKeyJoinNode,
    ForeignKeyMatchNode,
    ForeignKeySubscribeNode,
)

__all__ = [
    "ANSWER",
    "SUBSCRIBE",
    "SUBSCRIBE_AND_ANSWER",
    "UNSUBSCRIBE",
    "UNSUBSCRIBE_AND_ANSWER",
    "ForeignKeyJoinOperator",
    "ForeignKeyMatchOperator",
    "ForeignKeySubscribeOperator",
    "subscription_key",
    "subscription_prefix",
]

SUBSCRIBE: Final = 0
"""A left row belongs to a right row; if that is there, they are a pair."""
SUBSCRIBE_AND_ANSWER: Final = 1
"""The same, and if the right row is not there, that is said: an earlier result must go."""
UNSUBSCRIBE: Final = 2
"""A left row belongs to this right row no more; another lane says what became of it."""
UNSUBSCRIBE_AND_ANSWER: Final = 3
"""The same, and it belongs to none: its result must go."""
ANSWER: Final = 4
"""A left row belongs to no right row, and is part of the result all the same, or is gone."""

Message = tuple[int, bytes, bytes | None]
"""What a left row says: one of the above, its key, and its value, None where it is gone."""

_NOBODY: Final[Mapping[bytes, int]] = MappingProxyType({})
_LENGTH: Final = Struct(">I")
_TIME: Final = Struct(">q")


def subscription_prefix(foreign_key: bytes) -> bytes:
    r"""Return what the keys of all subscriptions to a right row begin with.

    Example:
        >>> subscription_prefix(b"ann")
        b'\x00\x00\x00\x03ann'
    """
    return _LENGTH.pack(len(foreign_key)) + foreign_key


def subscription_key(foreign_key: bytes, left_key: bytes) -> bytes:
    r"""Return the key of a subscription, as Kafka Streams lays it out; left keys keep their order.

    Example:
        >>> subscription_key(b"ann", b"order-1")
        b'\x00\x00\x00\x03annorder-1'
    """
    return _LENGTH.pack(len(foreign_key)) + foreign_key + left_key


class ForeignKeySubscribeOperator(KeyedOperator[ForeignKeySubscribeNode]):
    """Left rows say which right row they belong to; what goes on are messages by foreign key."""

    def open(self) -> None:
        """Choose serdes and function."""
        self.use_key_serde(self.node.key)
        self._tell = _left_messages if self.node.kind == "left" else _inner_messages

    def key_serde_out(self) -> Serde[Any]:
        """Return the serde of foreign keys that are bytes already."""
        return BytesSerde()

    def process_one(self, batch: Batch) -> Batch:
        """Turn changes into messages."""
        batch, left_keys = self.with_key_bytes(latest_only(batch))
        assert batch.olds is not None, self.step.name
        news, failed = self._foreign_keys(batch, batch.values)
        olds = batch.olds
        if failed:  # nobody is asked again about a row that has failed
            olds = list(olds)
            for row in failed:
                olds[row] = None
        gone, more = self._foreign_keys(batch, olds)
        values, unencodable = encode_column(
            self.node.value, batch.values, batch, self.encode_failures()
        )
        if failed or more or unencodable:
            mask = keep_mask(len(batch), sorted({*failed, *more, *unencodable}))
            batch, left_keys = batch.select(mask), list(compress(left_keys, mask))
            news, gone, values = (list(compress(c, mask)) for c in (news, gone, values))
        return self._messages(batch, left_keys, news, gone, values)

    def _foreign_keys(
        self, batch: Batch, values: list[Any]
    ) -> tuple[list[bytes | None], list[int]]:
        """Return the bytes of each value's foreign key, and the rows on which that failed."""
        extractor = self.node.extractor
        columns = (batch.keys, values) if self.node.with_key else (values,)
        on_failure = failing(batch, self.user_failures(extractor))
        keys, failed = call_present(extractor, columns, values, on_failure)
        encoded, unencodable = encode_column(
            self.node.foreign_key, keys, batch, self.encode_failures()
        )
        return encoded, failed + unencodable

    def _messages(
        self,
        batch: Batch,
        left_keys: list[bytes],
        news: list[bytes | None],
        gone: list[bytes | None],
        values: list[bytes | None],
    ) -> Batch:
        assert batch.olds is not None
        rows: list[int] = []
        keys: list[bytes] = []
        messages: list[Message] = []
        nowhere = 0
        told = zip(left_keys, news, gone, values, batch.olds, strict=True)
        tell = self._tell
        for row, (left_key, new, old, value, old_value) in enumerate(told):
            if new is None and value is not None:
                nowhere += 1
            for key, message in tell(left_key, new, old, value, old_value is not None):
                rows.append(row)
                keys.append(key)
                messages.append(message)
        if nowhere and self.node.kind == "inner":
            self.count("dropped_null_foreign_key", nowhere)
        if batch.rows is not None:
            rows = [batch.rows[row] for row in rows]
        return Batch(keys, messages, batch.origins, rows=rows, key_bytes=keys)


def _inner_messages(
    left_key: bytes, new: bytes | None, old: bytes | None, value: bytes | None, _was: bool
) -> Sequence[tuple[bytes, Message]]:
    if new is None:
        return () if old is None else ((old, (UNSUBSCRIBE_AND_ANSWER, left_key, None)),)
    if old is None or old == new:  # without a right row there is no result, and there was none
        return ((new, (SUBSCRIBE, left_key, value)),)
    return (
        (old, (UNSUBSCRIBE, left_key, None)),
        (new, (SUBSCRIBE_AND_ANSWER, left_key, value)),
    )


def _left_messages(
    left_key: bytes, new: bytes | None, old: bytes | None, value: bytes | None, was: bool
) -> Sequence[tuple[bytes, Message]]:
    if value is None and not was:
        return ()
    # An answer without a right row needs no lane of its own: that of the left key is one of all.
    said = (
        (left_key, (ANSWER, left_key, value))
        if new is None
        else (new, (SUBSCRIBE_AND_ANSWER, left_key, value))
    )
    if old is None or old == new:
        return (said,)
    return (old, (UNSUBSCRIBE, left_key, None)), said


class ForeignKeyMatchOperator(KeyedOperator[ForeignKeyMatchNode]):
    """Keeps what left rows said, and the right rows; gives the pairs that a change makes.

    Messages and changes of right rows are handled in merged order. Where one record changed both,
    the right row comes first, and the pairs that the left row's own message makes anew are left
    out: Kafka Streams drops their answers as stale.
    """

    def open(self) -> None:
        """Find the stores."""
        self.use_key_serde(self.node.foreign_key)
        spec = self.node.rows
        self._rows = self.lane_store(spec)
        self._subscriptions = self.lane_store(self.node.subscriptions)
        assert spec.value_serde is not None, self.step.name
        self._codec = StoreCodec(spec, spec.value_serde)
        self._every = self.options.emit == "every" or self.step.each_change

    def key_serde_out(self) -> Serde[Any]:
        """Return the serde of the left keys."""
        return self.node.key

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Bring messages and right rows together."""
        messages, changes = inputs
        changes, encoded, right_keys = self._encoded(changes)
        foreign_keys = self._foreign_keys(messages)
        if not foreign_keys and not right_keys:
            return None
        table = _Table(
            rows=self._load_rows(messages, foreign_keys, right_keys),
            subscribers=self._load_subscribers(right_keys),
        )
        orders, index = _interleaved(changes, messages)
        pairs = _Pairs()
        stale = _superseded(changes, messages, foreign_keys)
        count = len(changes)
        times, message_times = changes.timestamps, messages.timestamps
        said: list[Message] = messages.values
        for place in index:
            if place < count:
                key, row = right_keys[place], encoded[place]
                if row is None and table.rows[key] is None and not self._every:
                    continue
                skipped = stale.get((orders[place], key), _NOBODY) if orders else _NOBODY
                table.change(key, row, times[place], place, pairs, skipped)
            else:
                number = place - count
                table.hear(foreign_keys[number], said[number], message_times[number], place, pairs)
        self._write(table, right_keys)
        return pairs.batch(changes, messages, orders)

    def _encoded(self, changes: Batch) -> tuple[Batch, list[bytes | None], list[bytes]]:
        """Return right changes that can be encoded, with their stored form and their keys."""
        changes = latest_only(changes)
        if not len(changes):
            return Batch.empty(), [], []
        changes, right_keys = self.with_key_bytes(changes)
        try:
            return changes, self._codec.encode_many(changes.values, changes.timestamps), right_keys
        except Exception:  # noqa: BLE001 - found again, row by row
            on_failure = failing(changes, self.encode_failures())
            columns = (changes.values, changes.timestamps)
            encoded, failed = call_each(self._codec.encode_one, columns, on_failure)
        changes = without(changes, failed)
        return changes, drop(encoded, failed), drop(right_keys, failed)

    def _foreign_keys(self, messages: Batch) -> list[bytes]:
        if messages.key_bytes is not None:
            return messages.key_bytes
        return messages.keys

    def _load_rows(
        self, messages: Batch, foreign_keys: list[bytes], right_keys: list[bytes]
    ) -> dict[bytes, bytes | None]:
        """Return the right rows that changes and messages are about."""
        asking = [
            key
            for key, (what, _, _) in zip(foreign_keys, messages.values, strict=True)
            if what not in (UNSUBSCRIBE, ANSWER)
        ]
        wanted = list(dict.fromkeys([*right_keys, *asking]))
        return dict(zip(wanted, self._rows.getmulti(wanted), strict=True))

    def _load_subscribers(self, right_keys: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """Return the subscriptions to each right row that changes: one range for each."""
        wanted = list(dict.fromkeys(right_keys))
        found: dict[bytes, dict[bytes, bytes]] = {}
        for overlay, places in self._subscriptions.by_group(wanted):
            for place in places:
                prefix = subscription_prefix(wanted[place])
                start = len(prefix)
                found[wanted[place]] = {key[start:]: value for key, value in overlay.prefix(prefix)}
        return found

    def _write(self, table: _Table, right_keys: list[bytes]) -> None:
        changed = list(dict.fromkeys(right_keys))
        if changed:
            self._rows.put_many(changed, [table.rows[key] for key in changed])
        written = list(table.written)
        for overlay, places in self._subscriptions.by_group([key for key, _ in written]):
            overlay.put_many(
                [
                    (subscription_key(*written[place]), table.written[written[place]])
                    for place in places
                ]
            )


class _Table:
    """Right rows and subscriptions while an epoch's messages and changes go by.

    Attributes:
        rows: The stored form of each right row that matters, None where there is none.
        subscribers: Of each right row that changes, the left values by left key.
        written: New subscriptions by foreign and left key, None where one has ended.
    """

    __slots__ = ("rows", "subscribers", "written")

    def __init__(
        self,
        rows: dict[bytes, bytes | None],
        subscribers: dict[bytes, dict[bytes, bytes]],
    ) -> None:
        self.rows = rows
        self.subscribers = subscribers
        self.written: dict[tuple[bytes, bytes], bytes | None] = {}

    def change(
        self,
        key: bytes,
        row: bytes | None,
        time: int,
        place: int,
        pairs: _Pairs,
        skipped: Mapping[bytes, int],
    ) -> None:
        """Note a right row's change and pair it with all that subscribe to it, by left key."""
        self.rows[key] = row
        right = None if row is None else row[_TIME.size :]
        subscribers = self.subscribers[key]
        for left_key in sorted(subscribers):
            if left_key in skipped and (right is not None or skipped[left_key] != SUBSCRIBE):
                continue
            pairs.add(left_key, subscribers[left_key], right, time, place)

    def hear(
        self, foreign_key: bytes, message: Message, time: int, place: int, pairs: _Pairs
    ) -> None:
        """Note what a left row says and pair it with its right row."""
        what, left_key, value = message
        if what == ANSWER:
            pairs.add(left_key, value, None, time, place)
            return
        subscribers = self.subscribers.get(foreign_key)
        if what in (UNSUBSCRIBE, UNSUBSCRIBE_AND_ANSWER):
            self.written[foreign_key, left_key] = None
            if subscribers is not None:
                subscribers.pop(left_key, None)
            if what == UNSUBSCRIBE:
                return
        else:
            assert value is not None
            self.written[foreign_key, left_key] = value
            if subscribers is not None:
                subscribers[left_key] = value
        row = self.rows[foreign_key]
        if row is not None:
            time = max(time, _TIME.unpack_from(row)[0])
            right = None if value is None else row[_TIME.size :]
            pairs.add(left_key, value, right, time, place)
        elif what != SUBSCRIBE:
            pairs.add(left_key, value, None, time, place)


class _Pairs:
    """Pairs of encoded values in the making, as columns."""

    __slots__ = ("causes", "keys", "timestamps", "values")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.values: list[tuple[bytes | None, bytes | None]] = []
        self.timestamps: list[int] = []
        self.causes: list[int] = []

    def add(
        self, key: bytes, left: bytes | None, right: bytes | None, time: int, cause: int
    ) -> None:
        """Add a pair.

        Args:
            key: The left key.
            left: The left value, None where the row is gone.
            right: The right value, None where there is none.
            time: The result's timestamp.
            cause: The row behind it: of the right changes, or behind these of the messages.
        """
        self.keys.append(key)
        self.values.append((left, right))
        self.timestamps.append(time)
        self.causes.append(cause)

    def batch(self, changes: Batch, messages: Batch, orders: list[Order] | None) -> Batch | None:
        """Return the pairs as rows, each in the place of its cause."""
        if not self.keys:
            return None
        headers = None
        if changes.origins.headers is not None or messages.origins.headers is not None:
            both = (changes.headers or [()] * len(changes)) + (
                messages.headers or [()] * len(messages)
            )
            headers = [both[cause] for cause in self.causes]
        topics = (messages if len(messages) else changes).origins.topics
        order = None if orders is None else [orders[cause] for cause in self.causes]
        origins = Origins(self.timestamps, headers, order, topics)
        return Batch(self.keys, self.values, origins, key_bytes=self.keys)


def _interleaved(changes: Batch, messages: Batch) -> tuple[list[Order] | None, Sequence[int]]:
    """Return the orders of all rows, right changes first, and the rows in merged order."""
    count = len(changes) + len(messages)
    first, second = changes.order, messages.order
    if (first is None and len(changes)) or (second is None and len(messages)):
        return None, range(count)
    orders = (first or []) + (second or [])
    return orders, sorted(range(count), key=orders.__getitem__)


def _superseded(
    changes: Batch, messages: Batch, foreign_keys: list[bytes]
) -> dict[tuple[Order, bytes], dict[bytes, int]]:
    """Return, for right changes whose record changed left rows too, what those left rows say.

    That is so where a table is joined with itself. By order and right key: the left keys, each
    with its message.
    """
    first, second = changes.order, messages.order
    if not first or not second:
        return {}
    shared = set(first).intersection(second)
    found: dict[tuple[Order, bytes], dict[bytes, int]] = {}
    if shared:
        for order, key, (what, left_key, _) in zip(
            second, foreign_keys, messages.values, strict=True
        ):
            if order in shared:
                found.setdefault((order, key), {})[left_key] = what
    return found


class ForeignKeyJoinOperator(KeyedTableOperator[ForeignKeyJoinNode]):
    """Joins pairs in the lane of their left key, where they are in order again."""

    def open(self) -> None:
        """Find the result's store."""
        self.use_key_serde(self.node.key)
        self.open_store(self.node.store, self.node.value)
        self._every = self.options.emit == "every" or self.step.each_change

    def process_one(self, batch: Batch) -> Batch:
        """Join each pair, at the barrier only the last one of each key."""
        batch, key_bytes = self.with_key_bytes(batch)
        if not self._every:
            last = dict(zip(key_bytes, range(len(key_bytes)), strict=True))
            if len(last) < len(key_bytes):
                batch = batch.take(sorted(last.values()))
        values, failed = self._joined(batch)
        return self.settled(without(batch.with_values(values), failed))

    def _joined(self, batch: Batch) -> tuple[list[Any], list[int]]:
        node = self.node
        pairs: list[tuple[bytes | None, bytes | None]] = batch.values
        needs_right = node.kind == "inner"
        rows = [
            row
            for row, (left, right) in enumerate(pairs)
            if left is not None and (right is not None or not needs_right)
        ]
        lefts = node.left.deserialize_many([pairs[row][0] for row in rows])
        rights = node.right.deserialize_many([pairs[row][1] for row in rows])
        results: list[Any] = [None] * len(pairs)
        if not rows:
            return results, []
        on_failure = _at(rows, failing(batch, self.user_failures(node.joiner)))
        joined, failed = call_each(node.joiner, (lefts, rights), on_failure)
        for row, result in zip(rows, joined, strict=True):
            results[row] = result
        return results, [rows[place] for place in failed]


def _at(
    rows: Sequence[int], on_failure: Callable[[int, Exception], None]
) -> Callable[[int, Exception], None]:
    def on_present(place: int, error: Exception) -> None:
        on_failure(rows[place], error)

    return on_present
