"""The join of a stream with a table: each record is joined with the row valid at its moment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, Final

from mustela.kernel.core.each import drop, without
from mustela.kernel.core.isolate import copy_column
from mustela.kernel.tables.table_lookup import JoinOperator, LookupTable, in_order, spread
from mustela.kernel.tables.versioned_lookup import VersionedLookup
from mustela.plan.batch import Batch, Order, Origins
from mustela.topology.stream_table_join import StreamTableJoinNode

__all__ = ["StreamTableJoinOperator", "behind"]

_NO_TIME: Final = -1
_LAST: Final = 1 << 63
"""Larger than any part of an order."""


def behind(places: Sequence[Order], causes: Sequence[Order]) -> Sequence[Order]:
    """Return orders of records that place a record after its own changes.

    The changes of an aggregation have the order of the record that caused them, plus two numbers. A
    record that is joined with an aggregation it is part of therefore finds itself in the row.

    Example:
        >>> behind([(5, 0, 0, 7)], [(5, 0, 0, 7, 3, 0)])[0] > (5, 0, 0, 7, 3, 0)
        True
    """
    if not places or not causes or len(places[0]) >= len(causes[0]):
        return places
    return [(*place, _LAST) for place in places]


class StreamTableJoinOperator(JoinOperator[StreamTableJoinNode]):
    """Joins the records of a batch with a table that changes between them.

    One fetch gets the rows of all keys as they were before the batch. Records and changes are
    interleaved one by one only for keys whose row changes in the same batch.
    """

    def open(self) -> None:
        """Look up the table."""
        assert self.node.table is not None, self.node.name
        self.use_key_serde(self.node.key)
        self._left = self.node.kind == "left"
        self._table: LookupTable | None = None
        self._versions: VersionedLookup | None = None
        if self.node.table.store.traits.versioned:
            self._versions = VersionedLookup(self, self.node.table)
        else:
            self._table = LookupTable(self, self.node.table)

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Join the records of the stream; changes of the table alone give no result."""
        stream, changes = inputs
        changes, changed = self.keyed_input(changes, 1)
        stream, key_bytes = self._admitted(stream, ordered=bool(changed))
        if self._versions is not None:
            places = stream.order or [()] * len(stream)
            found = self._versioned(self._versions, (stream, key_bytes), places, changes, changed)
            return self._joined(stream, key_bytes, found)
        assert self._table is not None
        result: Batch | None = None
        if len(stream):
            found, failed = self._found(self._table, (stream, key_bytes), changes, changed)
            if self._table.clock is not None:
                found = self._known(found, (stream, key_bytes), (changes, changed))
            if failed:
                stream = without(stream, failed)
                key_bytes, found = drop(key_bytes, failed), drop(found, failed)
            result = self._joined(stream, key_bytes, found)
        self._table.tell(changes, changed)
        if self._table.clock is not None:
            moves = Origins(self._table.moves(changed), None, changes.order)
            self._table.clock.row_times(Batch(changed, changed, moves), changed)
        return result

    def finish(self) -> Batch | None:
        """Forget the windows that can no longer change."""
        if self._table is not None:
            self._table.end()
        return None

    def _admitted(self, stream: Batch, *, ordered: bool) -> tuple[Batch, list[Any]]:
        """Return the records that take part, and their keys as bytes; None for a null key."""
        if not len(stream):
            return stream, []
        stream = self.without_null(stream, "value", stream.values)
        if not self._left:
            stream = self.without_null_keys(stream)
        return self.input_key_bytes(in_order(stream) if ordered else stream, 0)

    @staticmethod
    def _versioned(
        table: VersionedLookup,
        records: tuple[Batch, list[Any]],
        places: Sequence[Order],
        changes: Batch,
        changed: list[bytes],
    ) -> list[Any]:
        """Return the version that each record is joined with, none for a record without a key."""
        batch, key_bytes = records
        rows = [row for row, key in enumerate(key_bytes) if key is not None]
        times = batch.timestamps
        found: list[Any] = [None] * len(key_bytes)
        asked = behind([places[row] for row in rows], changes.order or [])
        keys: list[bytes] = [key_bytes[row] for row in rows]
        held = table.answer(asked, keys, [times[row] for row in rows], changes, changed)
        for row, value in zip(rows, held, strict=True):
            found[row] = value
        return found

    def _joined(self, stream: Batch, key_bytes: list[Any], found: list[Any]) -> Batch:
        """Call the joiner for each record and its row."""
        if not self._left and None in found:
            mask = [row is not None for row in found]
            stream = stream.select(mask)
            key_bytes = [key for key, met in zip(key_bytes, mask, strict=True) if met]
            found = [row for row in found if row is not None]
        columns: tuple[list[Any], ...] = (stream.values, found)
        if self.node.with_key:
            columns = (stream.keys, *columns)
        values, failed = self.call_joiner(self.node.joiner, stream, columns)
        result = Batch(stream.keys, values, stream.origins, rows=stream.rows, key_bytes=key_bytes)
        return without(result, failed)

    def _known(
        self,
        found: list[Any],
        stream: tuple[Batch, list[Any]],
        changes: tuple[Batch, list[bytes]],
    ) -> list[Any]:
        """Return the rows except those of windows already forgotten when a record looks them up.

        Records do not advance this time, as they do not advance that of the table.
        """
        assert self._table is not None
        assert self._table.clock is not None
        (records, key_bytes), (told, changed) = stream, changes
        asking = [row for row, key in enumerate(key_bytes) if key is not None]
        keys = [*changed, *(key_bytes[row] for row in asking)]
        times = [*self._table.moves(changed), *repeat(_NO_TIME, len(asking))]
        order: list[Order] | None = None
        index: Sequence[int] = range(len(keys))
        causes, places = told.order or [], records.order
        if places is not None and len(causes) == len(changed):
            order = [*causes, *behind([places[row] for row in asking], causes)]
            index = sorted(index, key=order.__getitem__)
        both = Batch(keys, keys, Origins(times, None, order)).take(index)
        judged = self._table.clock.row_times(both, both.keys)
        at = dict(zip(index, judged, strict=True))
        first = len(changed)
        asked = keys[first:]
        kept = self._table.is_kept(asked, [at[first + place] for place in range(len(asked))])
        for row, known in zip(asking, kept, strict=True):
            if not known:
                found[row] = None
        return found

    def _found(
        self,
        table: LookupTable,
        records: tuple[Batch, list[Any]],
        changes: Batch,
        changed: list[bytes],
    ) -> tuple[list[Any], list[int]]:
        """Return the row of each record, and the records on whose row a view failed."""
        stream, key_bytes = records
        first: dict[Any, None] = dict.fromkeys(key_bytes)
        first.pop(None, None)
        keys: list[bytes] = key_bytes if len(first) == len(key_bytes) else list(first)
        failed: list[int] = []

        def objects() -> list[Any]:
            by_key = dict(zip(key_bytes, stream.keys, strict=True))
            return [by_key[key] for key in keys]

        def on_failure(place: int, error: Exception) -> None:
            failures = self.user_failures(None)
            key = keys[place]
            rows = [row for row, other in enumerate(key_bytes) if other == key]
            for row in rows:
                failures.one(stream, row, error)
            failed.extend(rows)

        values, _ = table.rows(keys, objects, on_failure)
        if changed and not first.keys().isdisjoint(changed):
            return _interleaved(
                (stream, key_bytes), (changes, changed), dict(zip(keys, values, strict=True))
            ), sorted(failed)
        return spread(values, keys, key_bytes), sorted(failed)


def _interleaved(
    stream: tuple[Batch, list[Any]],
    changes: tuple[Batch, list[bytes]],
    rows: dict[Any, Any],
) -> list[Any]:
    """Return the row of each record, where rows change between the records.

    Args:
        stream: Records in order, and their keys.
        changes: Changes in order, and their keys.
        rows: The row of each key before the first change.
    """
    (records, key_bytes), (told, changed) = stream, changes
    causes = told.order
    places = records.order
    assert causes is not None
    assert places is not None
    rows[None] = None
    found: list[Any] = []
    ends = chain(causes, repeat(None))
    upcoming = zip(changed, told.values, strict=True)
    end = next(ends)
    for place, key in zip(behind(places, causes), key_bytes, strict=True):
        while end is not None and end <= place:
            changed_key, value = next(upcoming)
            rows[changed_key] = value
            end = next(ends)
        found.append(rows[key])
    return copy_column(found)
