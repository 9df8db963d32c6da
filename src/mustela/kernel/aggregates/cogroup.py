"""Several grouped streams folded into one table, record by record in merged order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mustela.kernel.aggregates.aggregate import Fold, FoldOperator
from mustela.kernel.aggregates.watched import watched
from mustela.plan.batch import Batch
from mustela.topology.cogroup import CogroupNode

__all__ = ["CogroupOperator"]


class CogroupOperator(FoldOperator[CogroupNode]):
    """Adds each record to the common aggregate, with the adder of the record's stream."""

    def make_fold(self) -> Fold:
        """Return the fold for values paired with the number of their stream."""
        adders = tuple(watched(adder, self.node.name) for adder in self.node.adders)
        initializer = self.node.initializer
        assert initializer is not None, self.node.name

        def fold(key: Any, numbered: tuple[int, Any], total: Any) -> Any:
            number, value = numbered
            return adders[number](key, value, initializer() if total is None else total)

        return fold

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Fold the records of all streams."""
        numbered: list[Batch] = []
        for number, batch in enumerate(inputs):
            present = self.without_nulls(batch)
            values = [(number, value) for value in present.values]
            numbered.append(present.with_values(values))
        merged = Batch.merge(numbered)
        return self.process_one(merged) if len(merged) else None
