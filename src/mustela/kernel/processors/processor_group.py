"""Steps that share a store, run as one: each record passes through all of them before the next.

Decision. In Kafka Streams a record goes depth-first through the steps of its sub-topology, in the
order in which they were attached, before the next record is taken. Two processors that share a
store can observe this. So the steps of a stage that share a store with a processor, and the steps
on the paths between them, make a group (`mustela.plan.together`); all other steps run batch by
batch, because the difference cannot be observed there.

A group takes the rows of all its inputs in their order. Rows of one record that arrive by several
inputs are ordered as the steps were attached. A processor's ``forward`` returns when the later
steps of the group have finished; a step in between sees batches of one row. What leaves the group
is collected, and forwarded as a batch. All rows that result from an entering row belong to its key
group, whatever keys they get on the way, as they belong to one task in Kafka Streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

from mustela.kernel.core.divided import DividedBatch, SplitBatch, joined
from mustela.kernel.core.encode import encode_column
from mustela.kernel.core.isolate import for_branch, isolated
from mustela.kernel.core.operator import Operator
from mustela.kernel.processors.processor import ProcessorOperator
from mustela.kernel.processors.processor_output import Forwarded
from mustela.kernel.processors.processor_step import NO_GROUP, AnyRecord, DrawnColumns
from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.keygroups import row_groups
from mustela.topology.processor import ChildNode, OutputNode

__all__ = ["ProcessorGroup", "Reader"]

Reader = tuple[int, int]
"""A step, and one of its inputs."""

_Leave = Callable[[int, Batch], None]


class Passing(BaseException):
    """Carries an error through the forwarding processors, which must not handle it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def _unwrapped() -> Generator[None]:
    try:
        yield
    except Passing as passing:
        raise passing.error from passing.error.__cause__


class ProcessorGroup:
    """The steps of a group in one lane.

    Args:
        operators: The steps by their numbers, senders first.
        readers: For each step, its readers inside the group, in order of attachment.
        leaves: The steps that are also read outside the group.
        ranks: The order in which the steps take the rows of one record.

    Attributes:
        operators: The same.
        taken: Records that steps took from others of the group.
        given: Records that they passed on.
    """

    def __init__(
        self,
        operators: Mapping[int, Operator[Any]],
        readers: Mapping[int, Sequence[Reader]],
        leaves: frozenset[int],
        ranks: Mapping[int, int],
    ) -> None:
        self.operators = operators
        self._readers = readers
        self._leaves = leaves
        self._ranks = ranks
        self._left: dict[int, list[Batch]] = {}
        self._group = NO_GROUP
        self.taken: Counter[int] = Counter()
        self.given: Counter[int] = Counter()
        for number, operator in operators.items():
            if isinstance(operator, ProcessorOperator):
                operator.sender = _PassedOn(self, number, operator)

    def run(self, inboxes: Mapping[int, Sequence[Batch | None]]) -> None:
        """Handle the waiting rows of the group's steps, one by one."""
        rows: list[tuple[Order, int, int, int, DrawnColumns, int, int]] = []
        for number, inbox in inboxes.items():
            for place, batch in enumerate(inbox):
                if batch is None:
                    continue
                batch, groups = self._entering(number, batch)
                columns = DrawnColumns(batch)
                order: Sequence[Order] = columns.order or [()] * len(batch)
                rank = self._ranks[number]
                rows += [
                    (order[row], rank, place, row, columns, number, group)
                    for row, group in enumerate(groups)
                ]
        rows.sort(key=itemgetter(0, 1, 2, 3))
        with _unwrapped():
            for _, _, place, row, columns, number, group in rows:
                self._group = group
                self._enter(number, place, columns, row)
        self._group = NO_GROUP

    def finish(self) -> None:
        """Finish each step, and pass on its output."""
        with _unwrapped():
            for number, operator in self.operators.items():
                batch = operator.finish()
                if isinstance(operator, ProcessorOperator):
                    self._leave(number, batch)
                elif batch is not None and len(batch):
                    _, groups = self._entering(number, batch)
                    for row, group in enumerate(groups):
                        self._group = group
                        self._pass(number, _one(batch, row))
        self._group = NO_GROUP

    def take(self) -> dict[int, Batch]:
        """Return what has left the group, by step, and start collecting again."""
        left, self._left = self._left, {}
        for number in self._leaves:
            operator = self.operators[number]
            if isinstance(operator, ProcessorOperator):
                batch = operator.sender.take(self._topics(operator))
                if batch is not None:
                    left.setdefault(number, []).append(batch)
        found: dict[int, Batch] = {}
        for number in sorted(left):
            first, *others = left[number]
            for other in others:
                first = joined(first, other)
            found[number] = first
        return found

    def forward(self, number: int, batch: Batch, target: str | None, group: int) -> None:
        """Pass a record that a processor forwards to its readers in the group."""
        before, self._group = self._group, group
        for reader, place in self._readers[number]:
            node = self.operators[reader].node
            if isinstance(node, ChildNode) and target not in {None, node.child}:
                continue
            if isinstance(node, OutputNode) and target != node.output:
                continue
            own = _own(batch)
            if isinstance(node, ChildNode | OutputNode):
                own = DividedBatch(own, [target])
            self.taken[reader] += 1
            try:
                self._enter(reader, place, DrawnColumns(own), 0)
            except Exception as error:
                raise Passing(error) from error
        self._group = before

    def _entering(self, number: int, batch: Batch) -> tuple[Batch, list[int]]:
        """Return rows with their key groups; rows for processors have their state fetched."""
        operator = self.operators[number]
        if isinstance(operator, ProcessorOperator):
            batch, groups = operator.grouped(batch)
            operator.prefetch(batch, groups)
            return batch, groups
        first = next(op for op in self.operators.values() if isinstance(op, ProcessorOperator))
        serde, keys = first.own_key_serde, batch.key_bytes
        if keys is None:
            keys, _ = encode_column(serde, batch.keys, batch, operator.encode_failures())
        groups = first.options.key_groups
        return batch, row_groups(list(keys), groups, suffix=serde.group_suffix)

    def _enter(self, number: int, place: int, columns: DrawnColumns, row: int) -> None:
        operator = self.operators[number]
        if isinstance(operator, ProcessorOperator):
            operator.handle(columns, row, self._group)
            return
        inputs = [Batch.empty()] * max(len(operator.step.inputs), 1)
        batch = columns.batch
        inputs[place] = batch if len(batch) == 1 else _one(batch, row)
        self._pass(number, operator.with_replaced(operator.process(inputs)))

    def _pass(self, number: int, batch: Batch | None) -> None:
        """Pass on the output of a step between processors for one row."""
        if batch is None or not len(batch):
            return
        self.given[number] += len(batch)
        for reader, _ in self._readers[number]:
            self.taken[reader] += len(batch)
        self._leave(number, for_branch(batch) if self._readers[number] else batch)
        if isinstance(batch, SplitBatch | DividedBatch):
            for reader, place in self._readers[number]:
                self._enter(reader, place, DrawnColumns(batch), 0)
            return
        for row in range(len(batch)):
            for reader, place in self._readers[number]:
                self._enter(reader, place, DrawnColumns(_own(_one(batch, row))), 0)

    def _leave(self, number: int, batch: Batch | None) -> None:
        if batch is not None and len(batch) and number in self._leaves:
            self._left.setdefault(number, []).append(batch)

    @staticmethod
    def _topics(operator: ProcessorOperator) -> Sequence[str]:
        return operator.topics


class _PassedOn(Forwarded):
    """Sends what a processor of a group forwards to the next steps, before the processor continues.

    Args:
        group: The group.
        number: The processor's step.
        operator: The same.
    """

    def __init__(self, group: ProcessorGroup, number: int, operator: ProcessorOperator) -> None:
        super().__init__(operator)
        self._steps = group
        self._number = number

    def can_forget(self, sent: int) -> bool:
        """Say whether all records but so many can be taken back: none that was passed on can."""
        return self.sent == sent

    def send(self, record: AnyRecord, target: str | None) -> None:
        """Pass a record on, and keep it for its readers outside the group."""
        super().send(record, target)
        self._steps.given[self._number] += 1
        operator = self._operator
        hand = operator.hand
        order = None if hand is None or hand.order is None else [hand.order]
        headers = [record.headers] if record.headers else None
        origins = Origins([record.timestamp], headers, order, operator.topics)
        batch = Batch([record.key], [record.value], origins)
        self._steps.forward(self._number, batch, target, operator.group_in_hand)


def _one(batch: Batch, row: int) -> Batch:
    return batch if len(batch) == 1 else batch.take([row])


def _own(batch: Batch) -> Batch:
    """Return a batch of one row whose key and value are shared with no other batch."""
    keys, values = [isolated(batch.keys[0])], [isolated(batch.values[0])]
    return Batch(keys, values, batch.origins, rows=batch.rows, olds=batch.olds, latest=batch.latest)
