"""Values together with the times of their records."""

from __future__ import annotations

from mustela.kernel.core.operator import Operator
from mustela.plan.batch import Batch
from mustela.topology.timed_values import TimedValuesNode

__all__ = ["TimedValuesOperator"]


class TimedValuesOperator(Operator[TimedValuesNode]):
    """Pairs each value with its time."""

    def process_one(self, batch: Batch) -> Batch:
        """Return the batch with (value, time) pairs as values."""
        pairs = zip(batch.values, batch.timestamps, strict=True)
        return batch.with_values([None if pair[0] is None else pair for pair in pairs])
