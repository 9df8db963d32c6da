"""Transactions over several keys: a record's keys, the order of an epoch, execution, writes.

Nothing is locked. All transactions of an epoch pass through one lane, in merged order, but only as
hashes of their keys along with a packed record; those that share keys, directly or through others,
go to one lane together and run there one by one in that order. So the outcome is that of running
all of them in sequence, whatever the number of lanes, and the same when the epoch is run again.

They read what the stores held at the end of the previous epoch, plus the writes of earlier
transactions of this epoch: all that could touch the same keys are in the same lane.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, cast

from xxhash import xxh64_intdigest

from mustela.api.transact import Request
from mustela.errors import InvariantError
from mustela.kernel.core.divided import SplitBatch
from mustela.kernel.core.each import call_each, drop, without
from mustela.kernel.core.encode import failing
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.operator import Operator
from mustela.kernel.processors.transact_components import connected, group_keys, spread_over
from mustela.plan.batch import Batch, Origins
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.state.interfaces import StoreSpec
from mustela.state.transaction import (
    Refusal,
    Transaction,
    TransactionRefused,
    TransactionScope,
    UndeclaredKeyError,
)
from mustela.topology.transact import (
    TransactApplyNode,
    TransactKeysNode,
    TransactNode,
    TransactOrderNode,
)

__all__ = [
    "TransactApplyOperator",
    "TransactKeysOperator",
    "TransactOperator",
    "TransactOrderOperator",
]

Declared = tuple[tuple[bytes, ...], ...]
"""The keys of a transaction in each store of its step."""


class TransactKeysOperator(Operator[TransactKeysNode]):
    """Turns a record into hashes of its keys and a packed form of all that its transaction needs.

    The lane that orders an epoch's transactions never unpacks it.
    """

    def open(self) -> None:
        """Look up the stores."""
        self._stores = self.node.touches
        self._places = {spec.name: place for place, spec in enumerate(self._stores)}
        self._key = self.node.step.encode()

    def key_serde_out(self) -> Serde[Any]:
        """Return the serde of keys that are bytes already."""
        return BytesSerde()

    def process_one(self, batch: Batch) -> Batch:
        """Compute the keys of each record."""
        on_failure = failing(batch, self.user_failures(self.node.keys))
        packed, failed = call_each(self._pack, (batch.keys, batch.values), on_failure)
        batch, packed = without(batch, failed), drop(packed, failed)
        keys = [self._key] * len(packed)
        return Batch(keys, packed, batch.origins, rows=batch.rows, key_bytes=keys)

    def _pack(self, key: Any, value: Any) -> tuple[list[int], Any]:
        ask = self.node.keys
        declared = self._declared(value.keys if ask is None else ask(key, value))
        tokens = [
            xxh64_intdigest(data, store) for store, keys in enumerate(declared) for data in keys
        ]
        row = (key, value, declared)
        try:
            return tokens, pickle.dumps(row, 5)
        except (pickle.PicklingError, AttributeError, TypeError):
            return tokens, row  # travels unchanged, as other records do

    def _declared(self, said: object) -> Declared:
        if not isinstance(said, Mapping):
            keys = _listed(said)
            return tuple(_encoded(spec, keys) for spec in self._stores)
        by_store: list[tuple[bytes, ...]] = [()] * len(self._stores)
        for name, keys in cast("Mapping[Any, object]", said).items():
            place = self._places.get(name)
            if place is None:
                msg = f"keys= names store {name!r}; the stores are {', '.join(self._places)}"
                raise UndeclaredKeyError(msg, fix="name the store in stores= too")
            by_store[place] = _encoded(self._stores[place], _listed(keys))
        return tuple(by_store)


def _listed(said: object) -> Iterable[Any]:
    if isinstance(said, str | bytes) or not isinstance(said, Iterable):
        msg = f"keys= returned {type(said).__name__}, not a list of keys or a dict of such lists"
        raise TypeError(msg)
    return list(cast("Iterable[Any]", said))


def _encoded(spec: StoreSpec, keys: Iterable[Any]) -> tuple[bytes, ...]:
    assert spec.key_serde is not None, spec.name
    encoded = tuple(dict.fromkeys(map(spec.key_serde.serialize, keys)))
    if None in encoded:
        msg = f"keys= returned None as a key of store {spec.name!r}"
        raise ValueError(msg)
    return encoded  # pyright: ignore[reportReturnType] - none of them is None


class TransactOrderOperator(Operator[TransactOrderNode]):
    """Assigns each transaction of an epoch the key group that runs it.

    Each gets a number appended to its order: a record may have become several transactions, which
    stay in order whichever lanes run them.
    """

    def open(self) -> None:
        """Start without transactions."""
        self._batches: list[Batch] = []

    def key_serde_out(self) -> Serde[Any]:
        """Return the serde of keys that are bytes already."""
        return BytesSerde()

    def process_one(self, batch: Batch) -> None:
        """Keep the rows until all of the epoch have arrived."""
        self._batches.append(batch)

    def finish(self) -> Batch | None:
        """Divide the epoch's transactions among key groups."""
        batch = Batch.merge(self._batches)
        self._batches = []
        order = batch.order
        if not len(batch):
            return None
        if order is None:
            msg = f"step {self.step.name!r} got transactions without an order"
            raise InvariantError(msg)
        roots = connected([tokens for tokens, _ in batch.values])
        table = group_keys(self.options.key_groups)
        keys = [table[group] for group in spread_over(roots, self.options.key_groups)]
        numbered = [(*place, number) for number, place in enumerate(order)]
        origins = Origins(batch.timestamps, batch.headers, numbered, batch.origins.topics)
        return Batch(keys, [packed for _, packed in batch.values], origins, key_bytes=keys)


class TransactOperator(Operator[TransactNode]):
    """Runs the transactions of a lane, each completely or without effect."""

    def key_serde_out(self) -> None:
        """Return None: the key bytes of the output are not known."""

    def process_one(self, batch: Batch) -> Batch:
        """Run the transactions in order."""
        loads = pickle.loads
        rows = [loads(row) if type(row) is bytes else row for row in batch.values]
        scope = TransactionScope(self.step.name, self.node.touches, batch.context)
        self._load(scope, [declared for _, _, declared in rows])
        results, refused = _Going(), _Going()
        requested = self.node.fn is None
        failures = self.user_failures(self.node.fn)
        function, transaction = self.node.fn or _run_request, Transaction(scope)
        begin, commit = scope.begin, scope.commit
        row, failed = 0, None
        while row < len(rows):
            key, value, declared = rows[row]
            begin(row, declared)
            try:
                result = function(key, value, transaction)
            except TransactionRefused as refusal:
                refused.add(row, key, Refusal(value.args if requested else value, refusal.reason))
            except Exception as error:  # noqa: BLE001 - the function is the user's
                if requested:
                    failures.function = value.fn
                failed = failed or self._record(batch, row, key, value)
                if failures.one(failed, 0, error, repeats=True):
                    continue
            else:
                commit()
                for pair in scope.forwarded:
                    results.add(row, *pair)
                if result is not None:
                    results.add(row, key, result)
            row, failed = row + 1, None
        if len(refused):
            self.count("refused_transactions", len(refused))
        self.count("transactions", len(rows))
        written = _written(self.node.touches, scope)
        return SplitBatch(batch, [results.of(batch), refused.of(batch), written])

    def _load(self, scope: TransactionScope, declared: Sequence[Declared]) -> None:
        """Read what all transactions of the lane may touch, with one call for each store."""
        reader = self.context.any_key
        if reader is None:
            msg = f"step {self.step.name!r} reads stores, but its stage has no reader"
            raise InvariantError(msg)
        for place, spec in enumerate(self.node.touches):
            keys = list(dict.fromkeys(chain.from_iterable(mine[place] for mine in declared)))
            found = reader.store(spec.name).getmulti(keys) if keys else []
            scope.load(place, dict(zip(keys, found, strict=True)))

    def _record(self, batch: Batch, row: int, key: Any, value: Any) -> Batch:
        """Return the original record, for its handler."""
        order, headers = batch.order, batch.headers
        origins = Origins(
            [batch.timestamps[row]],
            None if headers is None else [headers[row]],
            None if order is None else [order[row]],
            batch.origins.topics,
        )
        return Batch([key], [value], origins, key_bytes=self._key_bytes(key))

    def _key_bytes(self, key: Any) -> Any:
        """Return the bytes of a record's key for a dead letter, if they can be known."""
        serde = self.node.key
        if serde is None or key is None:
            return None
        return call_each(serde.serialize, ([key],), lambda _row, _error: None)[0]


def _run_request(_key: Any, request: Request, transaction: Transaction) -> Any:
    return request.fn(transaction, *request.args)


class _Going:
    """Rows to forward, as columns."""

    __slots__ = ("_keys", "_rows", "_values")

    def __init__(self) -> None:
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._rows: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: int, key: Any, value: Any) -> None:
        """Add a row that comes from row ``row`` of the batch."""
        self._rows.append(row)
        self._keys.append(key)
        self._values.append(value)

    def of(self, batch: Batch) -> Batch:
        """Return them as rows that come from those of a batch."""
        rows = self._rows if batch.rows is None else [batch.rows[row] for row in self._rows]
        return Batch(self._keys, self._values, batch.origins, rows=rows)


def _written(touches: Sequence[StoreSpec], scope: TransactionScope) -> Batch:
    """Return the changes of transactions, as rows for the lanes of their keys."""
    suffixes = [0 if s.key_serde is None else s.key_serde.group_suffix for s in touches]
    values = list(scope.changes())
    routes = [key[: -suffixes[s]] if suffixes[s] else key for s, key, _ in values]
    return Batch(routes, values, Origins(list(repeat(0, len(values)))), key_bytes=routes)


class TransactApplyOperator(KeyedOperator[TransactApplyNode]):
    """Puts rows into their stores."""

    def open(self) -> None:
        """Look up the stores."""
        self.use_key_serde(BytesSerde())
        self._stores = [self.lane_store(spec) for spec in self.node.touches]

    def process_one(self, batch: Batch) -> None:
        """Write each store with one call."""
        for place, store in enumerate(self._stores):
            rows = [row for row in batch.values if row[0] == place]
            store.put_many([key for _, key, _ in rows], [value for _, _, value in rows])
