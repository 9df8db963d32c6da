"""Aggregations of a regrouped table: a row's old value is subtracted, its new value added."""

from __future__ import annotations

from typing import Any

from mustela.kernel.aggregates.aggregate import Fold, FoldOperator, LaneOperator, Touched
from mustela.kernel.aggregates.watched import watched
from mustela.plan.batch import Batch
from mustela.topology.table_aggregate import TableAggregateNode

__all__ = ["TableCountOperator", "TableFoldOperator", "make_table_fold"]


def make_table_fold(node: TableAggregateNode) -> Fold:
    """Return the function that applies one change, a pair (new value, old value), to an aggregate.

    A value is subtracted only from an existing aggregate: a value that was never added, because the
    row is older than the aggregation or the function failed on it, is not subtracted.
    """
    adder, subtractor, initializer = node.adder, node.subtractor, node.initializer
    if node.kind == "count":
        return _count
    assert adder is not None, node.name
    adder = watched(adder, node.name)
    assert subtractor is not None, node.name
    if node.kind == "reduce":

        def reduce(_key: Any, change: tuple[Any, Any], total: Any) -> Any:
            new, old = change
            if old is not None and total is not None:
                total = subtractor(total, old)
            if new is None:
                return total
            return new if total is None else adder(total, new)

        return reduce
    assert initializer is not None, node.name

    def aggregate(key: Any, change: tuple[Any, Any], total: Any) -> Any:
        new, old = change
        if old is not None and total is not None:
            total = subtractor(key, old, total)
        if new is None:
            return total
        return adder(key, new, initializer() if total is None else total)

    return aggregate


def _count(_key: Any, change: tuple[Any, Any], total: int | None) -> int | None:
    new, old = change
    if old is not None and total is not None:
        total -= 1
    if new is None:
        return total
    return 1 if total is None else total + 1


def _olds(batch: Batch) -> list[Any]:
    assert batch.olds is not None, "changes of a regrouped table without old values"
    return batch.olds


class TableFoldOperator(FoldOperator[TableAggregateNode]):
    """Any aggregation of a regrouped table, one change at a time in merged order."""

    def open(self) -> None:
        """Build the fold."""
        super().open()
        self.skips_null_values = False

    def make_fold(self) -> Fold:
        """Return the fold of one change."""
        return make_table_fold(self.node)

    def process_one(self, batch: Batch) -> Batch | None:
        """Subtract old values and add new ones."""
        changes = list(zip(batch.values, _olds(batch), strict=True))
        return super().process_one(batch.with_values(changes))


class TableCountOperator(LaneOperator[TableAggregateNode]):
    """Counts the rows of each group, per batch."""

    def open(self) -> None:
        """Look up the store."""
        super().open()
        self.skips_null_values = False

    def process_one(self, batch: Batch) -> Batch | None:
        """Add and subtract rows; a group that becomes empty stays, with a count of 0."""
        batch, key_bytes = self.with_key_bytes(batch)
        if not key_bytes:
            return None
        last = dict(zip(key_bytes, range(len(key_bytes)), strict=True))
        keys = list(last)
        before, times = self._codec.decode_many(self._store.getmulti(keys), keys)
        counts = dict(zip(keys, before, strict=True))
        latest = dict(zip(keys, times, strict=True))
        rows = zip(key_bytes, batch.values, _olds(batch), batch.timestamps, strict=True)
        for key, new, old, time in rows:
            count = counts[key]
            if count is None:
                latest[key] = time
                if new is not None:
                    counts[key] = 1
                continue
            counts[key] = count + (new is not None) - (old is not None)
            if time > latest[key]:
                latest[key] = time
        touched = Touched(
            rows=list(last.values()),
            key_bytes=keys,
            values=list(counts.values()),
            timestamps=list(latest.values()),
            olds=before if self.step.wants_old else None,
        )
        self._store.put_many(keys, self.encode_or_raise(batch, touched))
        index = sorted(range(len(keys)), key=touched.rows.__getitem__)
        if None in touched.values:  # subtracted from a group that never existed
            index = [place for place in index if touched.values[place] is not None]
        return self.changes(batch, touched.take(index))
