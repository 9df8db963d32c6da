"""The last change of each key in an epoch."""

from __future__ import annotations

from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.tables.table import drop_empty_changes
from mustela.plan.batch import Batch
from mustela.topology.settle import SettleNode

__all__ = ["SettleOperator"]


class SettleOperator(KeyedOperator[SettleNode]):
    """Forwards one change per key and epoch of a table that itself forwards every change.

    The last change of a key is forwarded, with the old value of the first one.
    """

    def open(self) -> None:
        """Use the key bytes of the input."""
        self.use_key_serde(self.context.key_serde)

    def process_one(self, batch: Batch) -> Batch:
        """Keep the last change of each key."""
        if batch.latest is not None:  # a versioned table forwards every change
            return batch
        batch, key_bytes = self.with_key_bytes(batch)
        rows = range(len(key_bytes))
        last = dict(zip(key_bytes, rows, strict=True))
        olds = batch.olds
        if len(last) < len(batch):
            index = sorted(last.values())
            if olds is not None:
                before = dict(zip(reversed(key_bytes), reversed(olds), strict=True))
                olds = [before[key_bytes[row]] for row in index]
            batch, key_bytes = batch.take(index), [key_bytes[row] for row in index]
        settled = drop_empty_changes(
            Batch(
                batch.keys,
                batch.values,
                batch.origins,
                rows=batch.rows,
                olds=olds,
                key_bytes=key_bytes,
            )
        )
        if not self.step.wants_old:
            settled = settled.with_values(settled.values)
        return settled
