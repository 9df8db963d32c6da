"""A table as a join sees it: its rows before this epoch, plus the changes since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from operator import le
from typing import Any, Final

from mustela.kernel.core.codec import NO_TIMESTAMP, StoreCodec
from mustela.kernel.core.each import call_each, truths
from mustela.kernel.core.encode import failing
from mustela.kernel.core.event_time import EventClock
from mustela.kernel.core.isolate import copy_column, is_immutable_column
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.operator import N
from mustela.kernel.tables.table import call_present
from mustela.kernel.tables.versioned_lookup import versions_before
from mustela.plan.batch import Batch
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.layout import TIME_BYTES, time_keys
from mustela.state.kinds.window import WindowRows
from mustela.topology.table import TableFilterNode
from mustela.topology.table_lookup import TableLookup, TableView

__all__ = ["JoinOperator", "LookupTable", "in_order", "spread"]

OnFailure = Callable[[int, Exception], None]


_UNKEPT: Final = object()
"""Marks a row that cannot be encoded: the previous row stays."""


def spread(values: Sequence[Any], keys: Sequence[Any], row_keys: Sequence[Any]) -> list[Any]:
    """Return the value of each row's key; rows share no mutable value.

    Args:
        values: One value for each of ``keys``.
        keys: The distinct keys.
        row_keys: The key of each row; None has no value.
    """
    if row_keys is keys:
        return list(values)
    by_key: dict[Any, Any] = dict(zip(keys, values, strict=True))
    by_key[None] = None
    column = list(map(by_key.__getitem__, row_keys))
    return column if is_immutable_column(values) else copy_column(column)


class LookupTable:
    """The rows of one table as they were before the changes that an operator is given next.

    A table in the same stage has already applied the changes of this epoch when the join runs. So
    the join reads the rows as they were before the epoch, and remembers the changes it received.

    A copy of windows has its own clock; where rows advance it, the starts of windows do: Kafka
    Streams looks windows up in the table's own store. A window can be found while one of the tables
    may change it, or while that store keeps it (see `EventClock.kept_ms`).

    Args:
        operator: The join.
        lookup: Where the rows are.
        kept_ms: How long the table itself keeps its windows, in milliseconds; default: as long as
            the copy.

    Attributes:
        clock: The clock of a copy whose rows expire; None for any other.
    """

    def __init__(
        self, operator: KeyedOperator[N], lookup: TableLookup, *, kept_ms: int | None = None
    ) -> None:
        self._operator = operator
        self._lookup = lookup
        self._store = operator.lane_store(lookup.store)
        self._kept_ms: int | None = None
        self.clock: EventClock | None = None
        needed = lookup.store.retention_ms if lookup.store.traits.by_age else None
        if lookup.own and needed is not None:
            self.clock = operator.event_clock(self._store)
            retained = needed if kept_ms is None else kept_ms
            self._kept_ms = self.clock.kept_ms(needed=needed, retained=retained)
        self._codec = StoreCodec(lookup.store, lookup.store.value_serde or ValueSerde())
        self._told: dict[bytes, tuple[Any, int]] = {}

    def rows(
        self, keys: list[bytes], objects: Callable[[], list[Any]], on_failure: OnFailure
    ) -> tuple[list[Any], list[int]]:
        """Return the value of each key, None if it has no row, and the row's timestamp.

        Args:
            keys: Keys as bytes, each once.
            objects: Returns the same keys as objects; only called if a view needs them.
            on_failure: Called with the place of a key on whose row a view fails.
        """
        lookup = self._lookup
        if lookup.own:
            places = self._places(keys)
            return self._codec.decode_many(self._store.getmulti(places), places)
        if lookup.store.traits.versioned:
            values, times = self._newest(keys)
        else:
            values, times = self._codec.decode_many(self._store.before_many(keys), keys)
        for view in lookup.views:
            values = _viewed(view, objects(), values, on_failure)
        told = self._told
        if told and not told.keys().isdisjoint(keys):
            for place, key in enumerate(keys):
                if key in told:
                    values[place], times[place] = told[key]
            values = copy_column(values)
        return values, times

    def _newest(self, keys: list[bytes]) -> tuple[list[Any], list[int]]:
        """Return the newest version of each key before the epoch."""
        values: list[bytes | None] = [None] * len(keys)
        times = [NO_TIMESTAMP] * len(keys)
        for view, places in self._store.by_group(keys):
            versions = versions_before(view, self._lookup.store)
            held = versions.latest_many([keys[place] for place in places])
            for place, version in zip(places, held, strict=True):
                if version is not None:
                    values[place], times[place] = version.value, version.timestamp
        return self._codec.decode_many(values)[0], times

    def tell(self, changes: Batch, key_bytes: list[bytes]) -> None:
        """Apply changes: later lookups see them."""
        if not key_bytes:
            return
        last = dict(zip(key_bytes, range(len(key_bytes)), strict=True))
        if len(last) < len(changes):
            changes = changes.take(list(last.values()))
        values, times = changes.values, changes.timestamps
        if self._lookup.own:
            encoded = self._encoded(changes)
            kept = [place for place, row in enumerate(encoded) if row is not _UNKEPT]
            keys = self._places(list(last))
            self._store.put_many([keys[n] for n in kept], [encoded[n] for n in kept])
            return
        pairs = zip(copy_column(values), times, strict=True)
        self._told.update(zip(last, pairs, strict=True))

    def _places(self, keys: list[bytes]) -> list[bytes]:
        """Return the keys under which a copy keeps rows; those of windows sort by time."""
        if self._kept_ms is None:
            return keys
        return time_keys(self._window_times(keys), keys)

    def _window_times(self, keys: Sequence[bytes]) -> list[int]:
        """Return the time after each record key: a window's start, or a session's end."""
        serde = self._lookup.store.key_serde
        assert serde is not None, self._lookup.store.name
        begin = -serde.group_suffix
        end = begin + TIME_BYTES or None
        return [int.from_bytes(key[begin:end], "big", signed=True) for key in keys]

    def moves(self, key_bytes: Sequence[bytes]) -> list[int]:
        """Return the times to which changes of a windowed table advance its copy's clock."""
        return self._window_times(key_bytes)

    def is_kept(self, keys: Sequence[bytes], times: Sequence[int]) -> list[bool]:
        """Return whether windows of a copy can still be found, each at its own time."""
        assert self._kept_ms is not None, self._lookup.store.name
        pairs = zip(self._window_times(keys), times, strict=True)
        return [begin >= time - self._kept_ms for begin, time in pairs]

    def end(self) -> None:
        """End the epoch: forget the windows of a copy that can no longer change."""
        if self.clock is None or self._kept_ms is None:
            return
        self.clock.save()
        for group in self._store.groups:
            bound = self.clock.closed_until(group) - self._kept_ms
            WindowRows(self._store.group(group)).expire_before(bound)

    def _encoded(self, changes: Batch) -> list[Any]:
        codec, columns = self._codec, (changes.values, changes.timestamps)
        try:
            return codec.encode_many(*columns)
        except Exception:  # noqa: BLE001 - found again, row by row
            on_failure = failing(changes, self._operator.encode_failures())
            encoded: list[Any]
            encoded, failed = call_each(codec.encode_one, columns, on_failure)
            for row in failed:
                encoded[row] = _UNKEPT
            return encoded


def _viewed(
    view: TableView, keys: list[Any], values: list[Any], on_failure: OnFailure
) -> list[Any]:
    """Return looked-up values as mapped by a step without a store."""
    if isinstance(view, TableFilterNode):
        holds, failed = call_present(view.predicate, (keys, values), values, on_failure)
        holds = truths(holds, failed, on_failure)
        negate = view.negate
        return [
            value if value is not None and bool(held) is not negate else None
            for value, held in zip(values, holds, strict=True)
        ]
    columns = (keys, values) if view.with_key else (values,)
    return call_present(view.mapper, columns, values, on_failure)[0]


class JoinOperator(KeyedOperator[N]):
    """What operators with two keyed inputs share."""

    def keyed_input(self, batch: Batch, number: int) -> tuple[Batch, list[bytes]]:
        """Return the rows of an input that have a key, in order, and their keys as bytes."""
        if not len(batch):
            return batch, []
        batch, key_bytes = self.input_key_bytes(self.without_null_keys(batch), number)
        if key_bytes is not batch.key_bytes:
            batch = batch.with_key_bytes(key_bytes)
        batch = in_order(batch)
        assert batch.key_bytes is not None
        return batch, batch.key_bytes

    def input_key_bytes(self, batch: Batch, number: int) -> tuple[Batch, list[Any]]:
        """Return the rows whose key can be encoded, and their key bytes; None for a null key."""
        return self.encoded_keys(batch, self.context.key_serdes[number])

    def call_joiner(
        self, joiner: Callable[..., Any], batch: Batch, columns: tuple[list[Any], ...]
    ) -> tuple[list[Any], list[int]]:
        """Call a joiner for each row; return the results and the rows on which it failed."""
        return call_each(joiner, columns, failing(batch, self.user_failures(joiner)))


def in_order(batch: Batch) -> Batch:
    """Return the rows of a batch in order; changes of a table may arrive out of order."""
    order = batch.order
    if order is None or all(map(le, order, islice(order, 1, None))):
        return batch
    return batch.take(sorted(range(len(order)), key=order.__getitem__))
