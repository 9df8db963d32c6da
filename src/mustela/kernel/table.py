"""Operators on tables: they read changes (new and, where known, old value) and give changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mustela.kernel.codec import StoreCodec
from mustela.kernel.each import call_each, drop, keep_mask, without
from mustela.kernel.encode import failing
from mustela.kernel.keyed import KeyedOperator
from mustela.kernel.lane_state import LaneStore
from mustela.kernel.operator import N, Operator
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.serdes.msgpack import MsgpackSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.source import TableSourceNode
from mustela.topology.table import TableFilterNode, TableMapValuesNode, TableToStreamNode

__all__ = [
    "TableFilterOperator",
    "TableMapValuesOperator",
    "TableSourceOperator",
    "TableToStreamOperator",
    "drop_empty_changes",
]


def drop_empty_changes(batch: Batch) -> Batch:
    """Drop changes from nothing to nothing, where the old values are known."""
    if batch.olds is None or all(batch.values) or None not in batch.values:
        return batch
    mask = [
        new is not None or old is not None
        for new, old in zip(batch.values, batch.olds, strict=True)
    ]
    return batch if all(mask) else batch.select(mask)


class StoredTable:
    """The store behind a table whose rows are set, not folded.

    Args:
        spec: The store.
        store: The store in this lane.
        serde: Serde of the values where the store names none.
    """

    def __init__(self, spec: StoreSpec, store: LaneStore, serde: Serde[Any] | None) -> None:
        self.codec = StoreCodec(spec, spec.value_serde or serde or MsgpackSerde())
        self.store = store

    def replace(
        self, keys: list[bytes], values: list[Any], timestamps: list[int]
    ) -> list[bytes | None]:
        """Set each key's value, and return what was stored before; each key occurs once."""
        encoded = self.codec.encode_many(values, timestamps)
        before = self.store.getmulti(keys)
        self.store.put_many(keys, encoded)
        return before

    def olds(self, before: list[bytes | None]) -> list[Any]:
        """Decode what was stored before."""
        return self.codec.decode_many(before)[0]


class KeyedTableOperator(KeyedOperator[N]):
    """A table operator that may keep its rows in a store."""

    def open_store(self, spec: StoreSpec | None, serde: Serde[Any] | None = None) -> None:
        """Find the store, if there is one."""
        self._table = None if spec is None else StoredTable(spec, self.lane_store(spec), serde)

    def stored(self, batch: Batch) -> Batch:
        """Store a batch of changes, and return it with its old values.

        Where a key occurs more than once, each change's old value is the new one before it.
        """
        assert self._table is not None
        batch, key_bytes = self.with_key_bytes(batch)
        encoded, failed = self._encode(self._table.codec, batch)
        batch, key_bytes = without(batch, failed), drop(key_bytes, failed)
        encoded = drop(encoded, failed)
        keys = list(dict.fromkeys(key_bytes))
        now = dict(zip(keys, self._table.store.getmulti(keys), strict=True))
        before: list[bytes | None] = []
        for key, row in zip(key_bytes, encoded, strict=True):
            before.append(now[key])
            now[key] = row
        self._table.store.put_many(keys, list(now.values()))
        return Batch(
            batch.keys,
            batch.values,
            batch.origins,
            rows=batch.rows,
            olds=self._table.olds(before),
            key_bytes=key_bytes,
        )

    def _encode(self, codec: StoreCodec, batch: Batch) -> tuple[list[bytes | None], list[int]]:
        times = batch.timestamps
        try:
            return codec.encode_many(batch.values, times), []
        except Exception:  # noqa: BLE001 - found again, row by row
            on_failure = failing(batch, self.encode_failures())
            return call_each(codec.encode_one, (batch.values, times), on_failure)


class TableSourceOperator(KeyedTableOperator[TableSourceNode]):
    """A topic as a table, in order of arrival: an older record may replace a newer one."""

    def open(self) -> None:
        """Choose serde and store."""
        self.use_key_serde(self.node.key)
        self.open_store(self.node.store, self.node.value)

    def process_one(self, batch: Batch) -> Batch:
        """Turn records into changes."""
        batch = self.without_nulls(batch)
        barrier = self.options.emit == "barrier"
        if barrier and len(batch):
            batch, key_bytes = self.with_key_bytes(batch)
            last = dict(zip(key_bytes, range(len(key_bytes)), strict=True))
            if len(last) < len(batch):
                batch = batch.take(sorted(last.values()))
        if self._table is None or not len(batch):
            return batch
        batch = self.stored(batch)
        return drop_empty_changes(batch) if barrier else batch


class TableFilterOperator(KeyedTableOperator[TableFilterNode]):
    """The rows for which the predicate holds; a row that stops to hold is deleted."""

    def open(self) -> None:
        """Find the store."""
        self.open_table_store(self.node.store)

    def open_table_store(self, spec: StoreSpec | None) -> None:
        """Use the key bytes as they come, and the store if there is one."""
        self.use_key_serde(spec.key_serde if spec is not None else None)
        self.open_store(spec)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return what came in: the keys stay, unless the store has its own."""
        return self.context.key_serde if self._table is None else self._key

    def process_one(self, batch: Batch) -> Batch:
        """Replace each value that does not hold by a deletion."""
        predicate = self.node.predicate
        on_failure = failing(batch, self.user_failures(predicate))
        values, failed = self._kept(batch.keys, batch.values, on_failure)
        olds = batch.olds
        if olds is not None and self._table is None:
            olds, _ = self._kept(batch.keys, olds, _forget)
        batch = Batch(
            batch.keys,
            values,
            batch.origins,
            rows=batch.rows,
            olds=olds,
            key_bytes=batch.key_bytes,
        )
        batch = without(batch, failed)
        return drop_empty_changes(batch if self._table is None else self.stored(batch))

    def _kept(
        self, keys: list[Any], values: list[Any], on_failure: Callable[[int, Exception], None]
    ) -> tuple[list[Any], list[int]]:
        """Return the values that hold, None for the others; None is never looked at."""
        holds, failed = call_present(self.node.predicate, (keys, values), values, on_failure)
        negate = self.node.negate
        kept = [
            value if bool(held) is not negate else None
            for value, held in zip(values, holds, strict=True)
        ]
        return kept, failed


def _forget(row: int, error: Exception) -> None:
    """Take an old value on which the function raises for one that was never there."""
    del row, error


def call_present(
    function: Callable[..., Any],
    columns: tuple[list[Any], ...],
    values: list[Any],
    on_failure: Callable[[int, Exception], None],
) -> tuple[list[Any], list[int]]:
    """Call a function for the rows whose value is not None; the others give None."""
    if all(values) or None not in values:
        return call_each(function, columns, on_failure)
    places = [row for row, value in enumerate(values) if value is not None]
    results: list[Any] = [None] * len(values)
    if not places:
        return results, []
    present = tuple([column[row] for row in places] for column in columns)

    def on_present(row: int, error: Exception) -> None:
        on_failure(places[row], error)

    found, failed = call_each(function, present, on_present)
    for place, result in zip(places, found, strict=True):
        results[place] = result
    return results, [places[row] for row in failed]


class TableMapValuesOperator(KeyedTableOperator[TableMapValuesNode]):
    """Another value for each row; deletions pass through, the mapper never sees them."""

    def open(self) -> None:
        """Find the store."""
        spec = self.node.store
        self.use_key_serde(spec.key_serde if spec is not None else None)
        self.open_store(spec)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return what came in: the keys stay, unless the store has its own."""
        return self.context.key_serde if self._table is None else self._key

    def process_one(self, batch: Batch) -> Batch:
        """Map each new value and, if somebody asks for it, each old one."""
        on_failure = failing(batch, self.user_failures(self.node.mapper))
        values, failed = self._mapped(batch.keys, batch.values, on_failure)
        olds = batch.olds
        if olds is not None and self._table is None:
            batch, values, failed = self._without_empty(batch, values, failed, olds)
            olds = None
            if self.context.wants_olds and batch.olds is not None:
                olds, _ = self._mapped(batch.keys, batch.olds, _forget)
        batch = Batch(
            batch.keys,
            values,
            batch.origins,
            rows=batch.rows,
            olds=olds if self._table is None else None,
            key_bytes=batch.key_bytes,
        )
        batch = without(batch, failed)
        return drop_empty_changes(batch if self._table is None else self.stored(batch))

    def _mapped(
        self, keys: list[Any], values: list[Any], on_failure: Callable[[int, Exception], None]
    ) -> tuple[list[Any], list[int]]:
        columns = (keys, values) if self.node.with_key else (values,)
        return call_present(self.node.mapper, columns, values, on_failure)

    @staticmethod
    def _without_empty(
        batch: Batch, values: list[Any], failed: list[int], olds: list[Any]
    ) -> tuple[Batch, list[Any], list[int]]:
        """Drop rows that had no old value and get no new one, and those that failed."""
        gone = {
            row
            for row, (new, old) in enumerate(zip(values, olds, strict=True))
            if new is None and old is None
        }
        gone.update(failed)
        if not gone:
            return batch, values, []
        rows = sorted(gone)
        return batch.select(keep_mask(len(batch), rows)), drop(values, rows), []


class TableToStreamOperator(Operator[TableToStreamNode]):
    """The new value of each change as a record; a deletion is a record without a value."""

    def process_one(self, batch: Batch) -> Batch:
        """Turn changes into records."""
        batch = drop_empty_changes(batch)
        batch = batch.with_values(batch.values)
        mapper = self.node.mapper
        if mapper is None or not len(batch):
            return batch
        on_failure = failing(batch, self.user_failures(mapper))
        keys, failed = call_each(mapper, (batch.keys, batch.values), on_failure)
        return without(batch.with_keys(keys), failed)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return what came in, or None where the keys are new."""
        return self.context.key_serde if self.node.mapper is None else None
