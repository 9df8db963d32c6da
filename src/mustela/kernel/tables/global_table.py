"""Global tables: their rows as bytes, and the join of a stream with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mustela.errors import InvariantError
from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.each import call_each, drop, without
from mustela.kernel.core.encode import encode_column, failing
from mustela.kernel.core.operator import Operator
from mustela.kernel.records.source import is_canonical
from mustela.kernel.tables.table_lookup import spread
from mustela.model import Headers
from mustela.plan.batch import Batch
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.headers import add_headers
from mustela.state.kinds.timed import pack_timestamped
from mustela.topology.global_table import GlobalJoinNode, GlobalTableNode

__all__ = ["GlobalJoinOperator", "GlobalView", "global_rows"]


class GlobalView(Protocol):
    """A copy of a global table in its current state."""

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the stored rows of ``keys`` in the same order."""
        ...


def global_rows(
    node: GlobalTableNode,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[Headers] | None,
) -> list[tuple[bytes, bytes | None]]:
    """Return the changes that records of a global table's topic make to a copy, in order.

    Records without a key are ignored. A key whose serde may encode equal keys in two ways is
    encoded again, so that lookups find it.

    Args:
        node: The table.
        keys: Keys as they were read.
        values: Values as they were read; None deletes.
        timestamps: Milliseconds.
        headers: Headers of each record, or None; the rows have them where the store keeps them.

    Returns:
        Keys with their stored rows, None for a deletion; a later one replaces an earlier one.
    """
    timed = node.store.traits.timed
    plain = is_canonical(node.key)
    headed = node.store.with_headers
    rows: list[tuple[bytes, bytes | None]] = []
    columns = zip(keys, values, timestamps, strict=True)
    for row, (key, value, timestamp) in enumerate(columns):
        if key is None:
            continue
        written = key if plain else node.key.serialize(node.key.deserialize(key))
        if written is None:
            continue
        stored = value
        if value is not None and timed:
            stored = pack_timestamped(value, timestamp)
            if headed:
                stored = add_headers(stored, headers[row] if headers else ())
        rows.append((written, stored))
    return rows


class GlobalJoinOperator(Operator[GlobalJoinNode]):
    """Looks up the rows of a batch with one fetch; records stay in their lane."""

    def open(self) -> None:
        """Look up the table.

        Raises:
            InvariantError: If the engine gave this task no such table.
        """
        spec = self.node.table
        view = self.context.global_tables.get(spec.name)
        if view is None:
            msg = f"step {self.step.name!r} looks up {spec.name!r}, which this task does not have"
            raise InvariantError(msg)
        self._view: GlobalView = view
        self._key = spec.key_serde or ValueSerde(sort_keys=True)
        self._codec = StoreCodec(spec, spec.value_serde or ValueSerde())
        self._left = self.node.kind == "left"

    def process_one(self, batch: Batch) -> Batch:
        """Join each record with the row of its mapped key."""
        batch = self.without_null(batch, "value", batch.values)
        mapper = self.node.key_mapper
        on_mapper = failing(batch, self.user_failures(mapper))
        columns = (batch.values,) if self.node.by_value else (batch.keys, batch.values)
        wanted, failed = call_each(mapper, columns, on_mapper)
        batch, wanted = without(batch, failed), drop(wanted, failed)
        encoded, failed = encode_column(self._key, wanted, batch, self.encode_failures())
        batch, key_bytes = without(batch, failed), drop(encoded, failed)
        found, failed = self._found(batch, key_bytes)
        batch, key_bytes, found = (
            without(batch, failed),
            drop(key_bytes, failed),
            drop(found, failed),
        )
        if not self._left and None in found:
            mask = [row is not None for row in found]
            self._count_null_keys(key_bytes)
            batch, found = batch.select(mask), [row for row in found if row is not None]
        columns = (batch.values, found)
        if self.node.with_key:
            columns = (batch.keys, *columns)
        joiner = self.node.joiner
        on_joiner = failing(batch, self.user_failures(joiner))
        values, failed = call_each(joiner, columns, on_joiner)
        return without(batch.with_values(values), failed)

    def _found(self, batch: Batch, key_bytes: list[bytes | None]) -> tuple[list[Any], list[int]]:
        """Return the row of each record, and the records whose row cannot be decoded."""
        keys = [key for key in dict.fromkeys(key_bytes) if key is not None]
        stored = self._view.getmulti(keys)
        try:
            values, _ = self._codec.decode_many(stored)
        except Exception:  # noqa: BLE001 - found again, row by row
            pass
        else:
            return spread(values, keys, key_bytes), []
        by_key = dict(zip(keys, stored, strict=True))
        raw = [None if key is None else by_key[key] for key in key_bytes]
        on_failure = failing(batch, self.user_failures(None))
        return call_each(self._codec.decode_one, (raw,), on_failure)

    def _count_null_keys(self, key_bytes: list[bytes | None]) -> None:
        null = key_bytes.count(None)
        if null:
            self.count("dropped_null_key", null)
