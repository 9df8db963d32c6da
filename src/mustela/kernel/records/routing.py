"""Operators that route records: branches, repartitioning by key, printing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from mustela.kernel.core.divided import SplitBatch
from mustela.kernel.core.each import call_each, drop, truths
from mustela.kernel.core.encode import failing
from mustela.kernel.core.isolate import for_branch
from mustela.kernel.core.operator import EXCHANGED, Operator
from mustela.kernel.records.partitioning import spread
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.routing import BranchNode, PrintNode, RepartitionNode, SplitNode

__all__ = ["BranchOperator", "PrintOperator", "RepartitionOperator", "SplitOperator"]


class SplitOperator(Operator[SplitNode]):
    """Sends each record to the first branch whose predicate holds.

    A predicate sees only the records that no earlier predicate took.
    """

    def process_one(self, batch: Batch) -> Batch:
        """Assign the rows to branches."""
        left, parts = batch, list[Batch]()
        for predicate in self.node.predicates:
            mine, left = self._divide(predicate, left)
            parts.append(mine)
        if self.node.default:
            parts.append(left)
        return SplitBatch(batch, parts)

    def _divide(self, predicate: Callable[[Any, Any], Any], batch: Batch) -> tuple[Batch, Batch]:
        if not len(batch):
            return batch, batch
        on_failure = failing(batch, self.user_failures(predicate))
        mask, failed = call_each(predicate, (batch.keys, batch.values), on_failure)
        mask = truths(mask, failed, on_failure)
        others = [not held for held in mask]
        for row in failed:  # a record on which a predicate raises is in no branch
            mask[row] = others[row] = False
        return batch.select(mask), batch.select(others)


class BranchOperator(Operator[BranchNode]):
    """The rows of one branch; no row is in two, so branches cannot see each other's changes."""

    reads_only: ClassVar[bool] = True

    def process_one(self, batch: Batch) -> Batch:
        """Take the branch's rows."""
        assert isinstance(batch, SplitBatch), self.step.name
        return batch.parts[self.node.index]


class RepartitionOperator(Operator[RepartitionNode]):
    """Records that arrived in the lane of their key; a partitioner may drop or repeat them.

    Records without a key are kept only if a later join has results for them.
    """

    def process_one(self, batch: Batch) -> Batch:
        """Return the rows."""
        if not self.node.null_keys:
            batch = self.without_null(batch, "key", batch.keys)
        partitioner = self.node.partitioner
        if partitioner is None:
            return batch
        count = self.node.partitions or self.options.key_groups
        names = [self.step.name] * len(batch)
        failures = self.user_failures(partitioner)
        _, _, going = spread(partitioner, names, batch, lambda _name: count, failures, self.count)
        # A record that is forwarded twice is two records: changes to one are not seen in the other.
        return for_branch(going)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the serde of the key bytes that the records arrived with."""
        known = self.context.key_serde
        return (self.node.key or ValueSerde(sort_keys=True)) if known is EXCHANGED else known


class PrintOperator(Operator[PrintNode]):
    """Writes a line of text for each record."""

    def process_one(self, batch: Batch) -> None:
        """Write all the lines at once."""
        columns = (batch.keys, batch.values)
        mapper = self.node.mapper
        on_failure = failing(batch, self.user_failures(mapper))
        told, failed = call_each(mapper or "{}, {}".format, columns, on_failure)
        label = self.node.label
        text = "".join(f"[{label}]: {line}\n" for line in drop(told, failed))
        if self.node.path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            with Path(self.node.path).open("a", encoding="utf-8") as file:
                file.write(text)
