"""What processors forward: to all their readers, to one of them, or to a side output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mustela.kernel.core.divided import DividedBatch
from mustela.kernel.core.isolate import for_branch, isolated
from mustela.kernel.core.operator import Operator
from mustela.kernel.processors.processor_step import AnyRecord, ProcessorStep
from mustela.model import Headers
from mustela.plan.batch import Batch, Order, Origins
from mustela.topology.processor import ChildNode, OutputNode

__all__ = ["ChildOperator", "Forwarded", "OutputOperator"]

_NO_ORDER: Order = ()


class Forwarded:
    """Collects what is forwarded until the operator has seen all of its rows.

    Args:
        operator: The processor's step.
    """

    def __init__(self, operator: ProcessorStep) -> None:
        self._operator = operator
        self._divided = operator.node.divides
        self._begin()

    def _begin(self) -> None:
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._timestamps: list[int] = []
        self._headers: list[Headers] = []
        self._orders: list[Order] = []
        self._targets: list[str | None] = []
        self._any_headers = False
        self._no_order = False

    def send(self, record: AnyRecord, target: str | None) -> None:
        """Keep a copy of a record: later changes to it are not visible."""
        hand = self._operator.hand
        order = None if hand is None else hand.order
        self._keys.append(isolated(record.key))
        self._values.append(isolated(record.value))
        self._timestamps.append(record.timestamp)
        self._headers.append(record.headers)
        if record.headers:
            self._any_headers = True
        if order is None:
            self._no_order, order = True, _NO_ORDER
        self._orders.append(order)
        self._targets.append(target)

    @property
    def sent(self) -> int:
        """How many records wait to be taken."""
        return len(self._keys)

    def can_forget(self, sent: int) -> bool:
        """Say whether all records but so many can be taken back: here they always can."""
        del sent
        return True

    def forget(self, sent: int) -> None:
        """Take back all records but so many."""
        columns: list[list[Any]] = [self._keys, self._values, self._timestamps, self._targets]
        for column in (*columns, self._headers, self._orders):
            del column[sent:]

    def take(self, topics: Sequence[str]) -> Batch | None:
        """Return what was collected as a batch, and start collecting again."""
        if not self._keys:
            return None
        headers = self._headers if self._any_headers else None
        order = None if self._no_order else self._orders
        origins = Origins(self._timestamps, headers, order, topics)
        batch = Batch(self._keys, self._values, origins)
        if self._divided:
            batch = DividedBatch(batch, self._targets)
        self._begin()
        return batch


class ChildOperator(Operator[ChildNode]):
    """The rows that one of several children gets."""

    reads_only: ClassVar[bool] = True

    def process_one(self, batch: Batch) -> Batch:
        """Take the child's rows, so that no other child sees changes to them."""
        assert isinstance(batch, DividedBatch), self.step.name
        child = self.node.child
        mask = [target is None or target == child for target in batch.targets]
        return for_branch(batch if all(mask) else batch.select(mask))

    def key_serde_out(self) -> None:
        """Return None: the keys are those that the processor forwarded."""
        return


class OutputOperator(Operator[OutputNode]):
    """The rows of one side output; no row is in two."""

    reads_only: ClassVar[bool] = True

    def process_one(self, batch: Batch) -> Batch:
        """Take the output's rows."""
        assert isinstance(batch, DividedBatch), self.step.name
        return batch.select([target == self.node.output for target in batch.targets])

    def key_serde_out(self) -> None:
        """Return None: the keys are those that the processor forwarded."""
        return
