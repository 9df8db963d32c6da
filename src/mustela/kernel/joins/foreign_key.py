"""Foreign-key joins: their three steps, each in the lane of its rows.

Values travel between the steps, and are stored, as bytes: each joined pair has its own copies of
the values, whatever the joiner does to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from struct import Struct
from types import MappingProxyType
from typing import Any, Final

from mustela.kernel.core.changes import latest_only
from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.each import MovedRows, call_each, drop, keep_mask, without
from mustela.kernel.core.encode import encode_column, failing
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.tables.table import KeyedTableOperator, call_present
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
"""A left row refers to a right row; if that exists, they are a pair."""
SUBSCRIBE_AND_ANSWER: Final = 1
"""The same, and a missing right row is reported too: an earlier result must be deleted."""
UNSUBSCRIBE: Final = 2
"""A left row no longer refers to this right row; another lane reports its new state."""
UNSUBSCRIBE_AND_ANSWER: Final = 3
"""The same, and it refers to none: its result must be deleted."""
ANSWER: Final = 4
"""A left row refers to no right row but is in the result all the same, or it was deleted."""

Message = tuple[int, bytes, bytes | None]
"""The message of a left row: one of the above, its key, and its value (None if it was deleted)."""

_NOBODY: Final[Mapping[bytes, int]] = MappingProxyType({})
_LENGTH: Final = Struct(">I")
_TIME: Final = Struct(">q")
_time_of: Final = _TIME.unpack_from


def subscription_prefix(foreign_key: bytes) -> bytes:
    r"""Return the common prefix of the keys of all subscriptions to a right row.

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
    """Turns changes of left rows into messages, keyed by the foreign key."""

    def open(self) -> None:
        """Choose the serde of the left keys."""
        self.use_key_serde(self.node.key)

    def key_serde_out(self) -> Serde[Any]:
        """Return the serde of foreign keys that are bytes already."""
        return BytesSerde()

    def process_one(self, batch: Batch) -> Batch:
        """Turn changes into messages."""
        batch, left_keys = self.with_key_bytes(latest_only(batch))
        assert batch.olds is not None, self.step.name
        news, failed = self._foreign_keys(batch, batch.values)
        olds = batch.olds
        if failed:  # the handler has already decided about a row that failed
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
        said = _Said()
        if self.node.kind == "left":
            assert batch.olds is not None
            said.of_left_join(left_keys, news, gone, values, batch.olds)
        else:
            said.of_inner_join(left_keys, news, gone, values)
        if said.nowhere:
            self.count("dropped_null_foreign_key", said.nowhere)
        rows = said.rows if batch.rows is None else [batch.rows[row] for row in said.rows]
        return Batch(said.keys, said.messages, batch.origins, rows=rows, key_bytes=said.keys)


class _Said:
    """Messages being built, as columns.

    Attributes:
        rows: The row of the change that caused each message.
        keys: The foreign keys, by which the messages are routed.
        messages: The messages.
        nowhere: How many rows are in no result because they refer to nothing.
    """

    __slots__ = ("keys", "messages", "nowhere", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.keys: list[bytes] = []
        self.messages: list[Message] = []
        self.nowhere = 0

    def of_inner_join(
        self,
        left_keys: Sequence[bytes],
        news: Sequence[bytes | None],
        gone: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Add the messages for a join in which both sides must have a row."""
        for row, (left_key, new, old, value) in enumerate(
            zip(left_keys, news, gone, values, strict=True)
        ):
            if new is None:
                self.nowhere += value is not None
                if old is not None:
                    self._say(row, old, (UNSUBSCRIBE_AND_ANSWER, left_key, None))
                continue
            what = SUBSCRIBE  # without a right row there is no result, and there was none before
            if old is not None and old != new:
                self._say(row, old, (UNSUBSCRIBE, left_key, None))
                what = SUBSCRIBE_AND_ANSWER
            self.rows.append(row)
            self.keys.append(new)
            self.messages.append((what, left_key, value))

    def of_left_join(
        self,
        left_keys: Sequence[bytes],
        news: Sequence[bytes | None],
        gone: Sequence[bytes | None],
        values: Sequence[bytes | None],
        olds: Sequence[Any],
    ) -> None:
        """Add the messages for a join in which each left row has a result."""
        told = zip(left_keys, news, gone, values, olds, strict=True)
        for row, (left_key, new, old, value, was) in enumerate(told):
            if value is None and was is None:
                continue
            if old is not None and old != new:
                self._say(row, old, (UNSUBSCRIBE, left_key, None))
            if new is None:
                # An answer without a right row needs no particular lane: the left key picks one.
                self._say(row, left_key, (ANSWER, left_key, value))
            else:
                self._say(row, new, (SUBSCRIBE_AND_ANSWER, left_key, value))

    def _say(self, row: int, key: bytes, message: Message) -> None:
        self.rows.append(row)
        self.keys.append(key)
        self.messages.append(message)


class ForeignKeyMatchOperator(KeyedOperator[ForeignKeyMatchNode]):
    """Keeps right rows and the subscriptions of left rows; emits the pairs that changes cause.

    Messages and changes of right rows are handled in merged order. Where one record changed both,
    the right row comes first, and the pairs that the left row's own message would repeat are left
    out: Kafka Streams drops their answers as stale.
    """

    def open(self) -> None:
        """Look up the stores."""
        self.use_key_serde(self.node.foreign_key)
        lookup = self.node.table
        self._own = lookup is None
        self._told: dict[bytes, bytes | None] = {}
        spec = self.node.rows if lookup is None else lookup.store
        self._rows = self.lane_store(spec)
        self._subscriptions = self.lane_store(self.node.subscriptions)
        assert spec.value_serde is not None, self.step.name
        self._codec = StoreCodec(spec, spec.value_serde)
        self._every = self.options.emit == "every" or self.step.each_change

    def key_serde_out(self) -> Serde[Any]:
        """Return the serde of the left keys."""
        return self.node.key

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Match messages with right rows."""
        messages = inputs[0]
        changes, encoded, right_keys = self._encoded(inputs[1])
        foreign_keys = self._foreign_keys(messages)
        if not foreign_keys and not right_keys:
            return None
        orders, index = _interleaved(changes, messages)
        stale = _superseded(changes, messages, foreign_keys)
        table = _Table(
            rows=self._load_rows(messages, foreign_keys, right_keys),
            subscribers=self._load_subscribers(right_keys),
            messages=list(zip(foreign_keys, messages.timestamps, messages.values, strict=True)),
            behind=len(changes),
        )
        times, count = changes.timestamps, len(changes)
        start = 0
        for position in [number for number, place in enumerate(index) if place < count]:
            table.hear(index[start:position])
            start, place = position + 1, index[position]
            key, row = right_keys[place], encoded[place]
            if row is None and table.rows[key] is None and not self._every:
                continue
            skipped = stale.get((orders[place], key), _NOBODY) if orders else _NOBODY
            table.change(key, row, times[place], place, skipped)
        table.hear(index[start:])
        self._write(table, right_keys)
        return table.pairs(changes, messages, orders)

    def _encoded(self, changes: Batch) -> tuple[Batch, list[bytes | None], list[bytes]]:
        """Return the right changes that can be encoded, with their stored form and their keys."""
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
        """Return the right rows that changes and messages refer to.

        The right table has already put this epoch's changes into its store, so rows are read as
        they were before the epoch, plus the changes that this step has received since.
        """
        asking = [
            key
            for key, (what, _, _) in zip(foreign_keys, messages.values, strict=True)
            if what not in (UNSUBSCRIBE, ANSWER)
        ]
        wanted = list(dict.fromkeys([*right_keys, *asking]))
        if self._own:
            return dict(zip(wanted, self._rows.getmulti(wanted), strict=True))
        found = dict(zip(wanted, self._rows.before_many(wanted), strict=True))
        told = self._told
        if told:
            found.update((key, told[key]) for key in told.keys() & found.keys())
        return found

    def _load_subscribers(self, right_keys: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """Return the subscriptions to each right row that changes, with one range scan for each."""
        wanted = list(dict.fromkeys(right_keys))
        found: dict[bytes, dict[bytes, bytes]] = {}
        for overlay, places in self._subscriptions.by_group(wanted):
            keys = [wanted[place] for place in places]
            if overlay.first() is None:
                found.update((key, {}) for key in keys)
                continue
            for key in keys:
                prefix = subscription_prefix(key)
                start = len(prefix)
                found[key] = {row[start:]: value for row, value in overlay.prefix(prefix)}
        return found

    def _write(self, table: _Table, right_keys: list[bytes]) -> None:
        changed = list(dict.fromkeys(right_keys))
        if changed and self._own:
            self._rows.put_many(changed, [table.rows[key] for key in changed])
        elif changed:
            self._told.update((key, table.rows[key]) for key in changed)
        written = table.written
        keys = list(written)
        for overlay, places in self._subscriptions.by_group(keys):
            rows: dict[bytes, bytes | None] = {}
            for place in places:
                prefix = subscription_prefix(keys[place])
                for left_key, value in written[keys[place]].items():
                    rows[prefix + left_key] = value
            overlay.put_many(rows)


class _Table:
    """Right rows and subscriptions while an epoch is handled, and the pairs it makes.

    Args:
        rows: The stored form of each relevant right row, None where there is none.
        subscribers: For each right row that changes, the left values by left key.
        messages: Foreign key, timestamp and message.
        behind: How many right changes there are; messages are numbered after them.

    Attributes:
        written: New subscriptions by foreign key and left key, None where one has ended.
    """

    def __init__(
        self,
        *,
        rows: dict[bytes, bytes | None],
        subscribers: dict[bytes, dict[bytes, bytes]],
        messages: list[tuple[bytes, int, Message]],
        behind: int,
    ) -> None:
        self.rows = rows
        self.written: dict[bytes, dict[bytes, bytes | None]] = {}
        self._subscribers = subscribers
        self._messages = messages
        self._behind = behind
        self._keys: list[bytes] = []
        self._values: list[tuple[bytes | None, bytes | None]] = []
        self._timestamps: list[int] = []
        self._causes: list[int] = []

    def change(
        self, key: bytes, row: bytes | None, time: int, place: int, skipped: Mapping[bytes, int]
    ) -> None:
        """Apply a right row's change and pair it with all its subscribers, by left key."""
        self.rows[key] = row
        right = None if row is None else row[_TIME.size :]
        subscribers = self._subscribers[key]
        for left_key in sorted(subscribers):
            if left_key in skipped and (right is not None or skipped[left_key] != SUBSCRIBE):
                continue
            self._keys.append(left_key)
            self._values.append((subscribers[left_key], right))
            self._timestamps.append(time)
            self._causes.append(place)

    def hear(self, places: Sequence[int]) -> None:
        """Apply the messages of left rows, and pair each with its right row."""
        messages, behind, rows = self._messages, self._behind, self.rows
        for place in places:
            key, time, (what, left_key, value) = messages[place - behind]
            right: bytes | None = None
            if what != ANSWER:
                self._note(key, left_key, value)
                if what == UNSUBSCRIBE:
                    continue
                row = rows[key]
                if row is not None:
                    other = _time_of(row)[0]
                    time = other if other > time else time
                    right = None if value is None else row[_TIME.size :]
                elif what == SUBSCRIBE:
                    continue
            self._keys.append(left_key)
            self._values.append((value, right))
            self._timestamps.append(time)
            self._causes.append(place)

    def _note(self, key: bytes, left_key: bytes, value: bytes | None) -> None:
        written = self.written.get(key)
        if written is None:
            written = self.written[key] = {}
        written[left_key] = value
        subscribers = self._subscribers.get(key)
        if subscribers is None:
            return
        if value is None:
            subscribers.pop(left_key, None)
        else:
            subscribers[left_key] = value

    def pairs(self, changes: Batch, messages: Batch, orders: list[Order] | None) -> Batch | None:
        """Return the pairs as rows, each with the order of its cause."""
        if not self._keys:
            return None
        headers = None
        if changes.origins.headers is not None or messages.origins.headers is not None:
            both = [*(changes.headers or [()] * len(changes))]
            both += messages.headers or [()] * len(messages)
            headers = [both[cause] for cause in self._causes]
        topics = (messages if len(messages) else changes).origins.topics
        order = None if orders is None else [orders[cause] for cause in self._causes]
        origins = Origins(self._timestamps, headers, order, topics)
        return Batch(self._keys, self._values, origins, key_bytes=self._keys)


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
    """Return the messages of left rows that a record changed along with a right row.

    This happens when a table is joined with itself. By order and right key: the left keys, each
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
    """Joins the pairs in the lane of their left key, where they are in order again."""

    def open(self) -> None:
        """Look up the result's store."""
        self.use_key_serde(self.node.key)
        self.open_store(self.node.store, self.node.value)
        self._every = self.options.emit == "every" or self.step.each_change

    def process_one(self, batch: Batch) -> Batch:
        """Join each pair; with ``emit = barrier`` only the last one of each key."""
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
        on_failure = MovedRows(rows, failing(batch, self.user_failures(node.joiner)))
        joined, failed = call_each(node.joiner, (lefts, rights), on_failure)
        for row, result in zip(rows, joined, strict=True):
            results[row] = result
        return results, [rows[place] for place in failed]
