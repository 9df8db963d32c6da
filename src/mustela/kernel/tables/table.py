"""Operators on tables: they turn changes (new and, if known, old value) into changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.each import MovedRows, call_each, drop, truths, without
from mustela.kernel.core.encode import failing
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.core.operator import N, Operator
from mustela.kernel.tables.versions import put_versions
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.source import TableSourceNode
from mustela.topology.table import (
    StreamToTableNode,
    TableFilterNode,
    TableMapValuesNode,
    TableToStreamNode,
)

__all__ = [
    "TableFilterOperator",
    "TableMapValuesOperator",
    "TableSourceOperator",
    "TableToStreamOperator",
]

M = TypeVar("M", TableFilterNode, TableMapValuesNode)


def drop_empty_changes(batch: Batch) -> Batch:
    """Drop changes from nothing to nothing, where the old values are known."""
    if batch.olds is None or batch.latest is not None:  # a versioned table forwards every change
        return batch
    if all(batch.values) or None not in batch.values:
        return batch
    mask = [
        new is not None or old is not None
        for new, old in zip(batch.values, batch.olds, strict=True)
    ]
    return batch if all(mask) else batch.select(mask)


class KeyedTableOperator(KeyedOperator[N]):
    """A table operator that may keep its rows in a store.

    Attributes:
        ends_empty: Whether a change from nothing to nothing is dropped where the old value is
            known. With ``emit = barrier`` it always is.
    """

    ends_empty: ClassVar[bool] = False

    def open_store(self, spec: StoreSpec | None, serde: Serde[Any] | None = None) -> None:
        """Look up the store, if there is one."""
        self._store: LaneStore | None = None
        self._versioned = spec if spec is not None and spec.traits.versioned else None
        if spec is not None:
            self._store = self.lane_store(spec)
            self._codec = StoreCodec(spec, spec.value_serde or serde or ValueSerde())

    def settled(self, batch: Batch) -> Batch:
        """Store a batch of changes if there is a store; empty ones may be dropped."""
        if self._store is not None and len(batch):
            return self._stored(batch, self._store)
        if self.ends_empty or self.options.emit == "barrier":
            return drop_empty_changes(batch)
        return batch

    def _ends_known(self, batch: Batch) -> bool:
        """Whether changes from nothing to nothing are dropped; a versioned table keeps them."""
        return self.ends_empty and self.step.wants_old and batch.latest is None

    def _stored(self, batch: Batch, store: LaneStore) -> Batch:
        """Store changes; return them, with their old values if wanted.

        Where a key occurs more than once, each change's old value is the new one before it. What is
        replaced is read only where somebody asks for it, or where a deletion may be of nothing.
        """
        batch, key_bytes = self.with_key_bytes(batch)
        encoded, failed = self._encode(batch)
        batch, key_bytes = without(batch, failed), drop(key_bytes, failed)
        encoded = drop(encoded, failed)
        if self._versioned is not None:
            return self._put_versions(batch, key_bytes, encoded, store, self._versioned)
        wants_old = self.step.wants_old
        drops_empty = self.options.emit == "barrier" or self._ends_known(batch)
        before: list[bytes | None] | None = None
        olds: list[Any] | None = None
        if wants_old or (drops_empty and None in encoded):
            before = _put_and_tell(store, key_bytes, encoded)
            olds = self._codec.decode_many(before, key_bytes)[0] if wants_old else None
        else:
            last = dict(zip(key_bytes, encoded, strict=True))
            store.put_many(list(last), list(last.values()))
        changes = Batch(
            batch.keys,
            batch.values,
            batch.origins,
            rows=batch.rows,
            olds=olds,
            key_bytes=key_bytes,
        )
        if drops_empty and before is not None:
            return _without_empty(changes, encoded, before)
        return changes

    def _put_versions(
        self,
        batch: Batch,
        key_bytes: list[bytes],
        encoded: list[bytes | None],
        store: LaneStore,
        spec: StoreSpec,
    ) -> Batch:
        """Store versions; those too old for the history are dropped and counted.

        The old value of a change is the newest version before it, even if the change is to an older
        version.
        """
        before, latest, late = put_versions(store, spec, key_bytes, encoded, batch.timestamps)
        changes = Batch(
            batch.keys,
            batch.values,
            batch.origins,
            rows=batch.rows,
            olds=self._codec.decode_many(before, key_bytes)[0] if self.step.wants_old else None,
            key_bytes=key_bytes,
            latest=latest,
        )
        if late:
            self.count("dropped_expired", len(late))
        if self._ends_known(batch):
            encoded, before = drop(encoded, late), drop(before, late)
            return _without_empty(without(changes, late), encoded, before)
        return without(changes, late)

    def _encode(self, batch: Batch) -> tuple[list[bytes | None], list[int]]:
        codec = self._codec
        columns: tuple[Any, ...] = (batch.values, batch.timestamps)
        if codec.headed and batch.headers is not None:
            columns = (*columns, batch.headers)
        try:
            return codec.encode_many(*columns), []
        except Exception:  # noqa: BLE001 - found again, row by row
            on_failure = failing(batch, self.encode_failures())
            return call_each(codec.encode_one, columns, on_failure)


def _put_and_tell(
    store: LaneStore, key_bytes: list[bytes], encoded: list[bytes | None]
) -> list[bytes | None]:
    """Store rows; return what each of them replaced, which may be one before it."""
    keys = list(dict.fromkeys(key_bytes))
    now = dict(zip(keys, store.getmulti(keys), strict=True))
    before: list[bytes | None] = []
    for key, row in zip(key_bytes, encoded, strict=True):
        before.append(now[key])
        now[key] = row
    store.put_many(keys, list(now.values()))
    return before


def _without_empty(changes: Batch, news: list[bytes | None], olds: list[bytes | None]) -> Batch:
    """Drop changes from nothing to nothing."""
    if None not in news or None not in olds:
        return changes
    pairs = zip(news, olds, strict=True)
    return changes.select([new is not None or old is not None for new, old in pairs])


class TableSourceOperator(KeyedTableOperator[TableSourceNode | StreamToTableNode]):
    """Turns records into a table, in order of arrival: an older record may replace a newer one."""

    def open(self) -> None:
        """Look up serde and store."""
        self.use_key_serde(self.node.key)
        self.open_store(self.node.store, self.node.value)

    def process_one(self, batch: Batch) -> Batch:
        """Turn records into changes."""
        batch = self.without_nulls(batch)
        each = self.step.each_change or self._versioned is not None
        if self.options.emit == "barrier" and not each and len(batch):
            batch, key_bytes = self.with_key_bytes(batch)
            last = dict(zip(key_bytes, range(len(key_bytes)), strict=True))
            if len(last) < len(batch):
                batch = batch.take(sorted(last.values()))
        return self.settled(batch)


class SameKeysOperator(KeyedTableOperator[M]):
    """A table with the keys of its parent and its own values."""

    def open(self) -> None:
        """Look up the store."""
        spec = self.node.store
        self.use_key_serde(spec.key_serde if spec is not None else None)
        self.open_store(spec)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the input's serde: the keys stay, unless the store has its own serde."""
        return self.context.key_serde if self._store is None else self._key


class TableFilterOperator(SameKeysOperator[TableFilterNode]):
    """Keeps the rows for which the predicate holds; a row that no longer passes is deleted."""

    ends_empty = True

    def process_one(self, batch: Batch) -> Batch:
        """Replace each value for which the predicate does not hold by a deletion."""
        predicate = self.node.predicate
        on_failure = failing(batch, self.user_failures(predicate))
        values, failed = self._kept(batch.keys, batch.values, on_failure)
        olds = batch.olds
        if olds is not None:
            olds, _ = self._kept(batch.keys, olds, _forget)
        return self.settled(without(batch.with_changes(values, olds), failed))

    def _kept(
        self, keys: list[Any], values: list[Any], on_failure: Callable[[int, Exception], None]
    ) -> tuple[list[Any], list[int]]:
        """Return the values that pass, None for the others; the predicate never gets None."""
        holds, failed = call_present(self.node.predicate, (keys, values), values, on_failure)
        holds = truths(holds, failed, on_failure)
        negate = self.node.negate
        kept = [
            value if bool(held) is not negate else None
            for value, held in zip(values, holds, strict=True)
        ]
        return kept, failed


def _forget(row: int, error: Exception) -> None:
    """Treat an old value on which the function raises as absent."""
    del row, error


def call_present(
    function: Callable[..., Any],
    columns: tuple[list[Any], ...],
    values: list[Any],
    on_failure: Callable[[int, Exception], None],
) -> tuple[list[Any], list[int]]:
    """Call a function for the rows whose value is not None; the result of the others is None."""
    if all(values) or None not in values:
        return call_each(function, columns, on_failure)
    places = [row for row, value in enumerate(values) if value is not None]
    results: list[Any] = [None] * len(values)
    if not places:
        return results, []
    present = tuple([column[row] for row in places] for column in columns)
    found, failed = call_each(function, present, MovedRows(places, on_failure))
    for place, result in zip(places, found, strict=True):
        results[place] = result
    return results, [places[row] for row in failed]


class TableMapValuesOperator(SameKeysOperator[TableMapValuesNode]):
    """Replaces the value of each row; deletions pass through, unless the mapper asks for them."""

    def process_one(self, batch: Batch) -> Batch:
        """Map each new value and, if old values are wanted, each old one."""
        on_failure = failing(batch, self.user_failures(self.node.mapper))
        values, failed = self._mapped(batch.keys, batch.values, on_failure)
        olds = None
        if batch.olds is not None and self.step.wants_old and self._store is None:
            olds, _ = self._mapped(batch.keys, batch.olds, _forget)
        return self.settled(without(batch.with_changes(values, olds), failed))

    def _mapped(
        self, keys: list[Any], values: list[Any], on_failure: Callable[[int, Exception], None]
    ) -> tuple[list[Any], list[int]]:
        columns = (keys, values) if self.node.with_key else (values,)
        if self.node.with_nulls:
            return call_each(self.node.mapper, columns, on_failure)
        return call_present(self.node.mapper, columns, values, on_failure)


class TableToStreamOperator(Operator[TableToStreamNode]):
    """Turns the new value of each change into a record; a deletion becomes a null value."""

    def process_one(self, batch: Batch) -> Batch:
        """Turn changes into records."""
        if self.options.emit == "barrier":
            batch = drop_empty_changes(batch)
        batch = batch.with_values(batch.values)
        mapper = self.node.mapper
        if mapper is None or not len(batch):
            return batch
        on_failure = failing(batch, self.user_failures(mapper))
        keys, failed = call_each(mapper, (batch.keys, batch.values), on_failure)
        return without(batch.with_keys(keys), failed)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the input's serde, or None if the keys are new."""
        return self.context.key_serde if self.node.mapper is None else None
