"""A processor's step and its instances, as the other parts of a running processor see them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from mustela.api.context_port import StepFacts
from mustela.kernel.core.event_time import EventClock
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.processors.processor_undo import Undo
from mustela.model import FixedKeyRecord, Headers, Record
from mustela.plan.batch import Batch, Order
from mustela.serdes.base import Serde
from mustela.topology.processor import ProcessorNode

__all__ = ["NO_GROUP", "AnyRecord", "DrawnColumns", "Hand", "ProcessorStep", "Sender", "Task"]

NO_GROUP: Final = -1
"""Used as the key group of a processor without stores."""

AnyRecord = Record[Any, Any] | FixedKeyRecord[Any, Any]


class Hand(NamedTuple):
    """The current record or timer.

    Attributes:
        timestamp: Its time.
        headers: Its headers.
        order: Its order, shared by all that it forwards; None if order was given up.
        batch: The batch that holds it; None for a timer.
        row: Its row in the batch.
    """

    timestamp: int
    headers: Headers = ()
    order: Order | None = None
    batch: Batch | None = None
    row: int = -1


class DrawnColumns:
    """The columns of a batch, fetched once, so that rows can be taken one by one.

    Args:
        batch: The rows.
    """

    __slots__ = ("batch", "headers", "order", "timestamps")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.timestamps = batch.timestamps
        self.headers: list[Headers] | None = batch.headers
        self.order: list[Order] | None = batch.order


class Sender(Protocol):
    """Where what a processor forwards goes."""

    def send(self, record: AnyRecord, target: str | None) -> None:
        """Send a record to one reader, or to all children."""
        ...

    def take(self, topics: Sequence[str]) -> Batch | None:
        """Return what was collected, and start collecting again."""
        ...

    @property
    def sent(self) -> int:
        """How many records wait to be taken."""
        ...

    def can_forget(self, sent: int) -> bool:
        """Say whether all records but so many can be taken back."""
        ...

    def forget(self, sent: int) -> None:
        """Take back all records but so many."""
        ...


class ProcessorStep(KeyedOperator[ProcessorNode]):
    """The interface of `processor.ProcessorOperator`, the operator of a processor's step.

    Attributes:
        hand: The current record or timer; None between records.
        group_in_hand: The key group of what was sent last.
        topics: The plan's topics.
        sender: Where what is forwarded goes.
        tasks: The instances by key group.
        clock: Its event time.
        timing: Its timers and punctuators, a `processor_time.ProcessorTime`, or None.
        facts: What its contexts know about it; None before the first context exists.
        undo: Remembers what is written, where a record may be tried again; else None.
    """

    hand: Hand | None
    group_in_hand: int
    topics: Sequence[str]
    sender: Sender
    tasks: dict[int, Task]
    clock: EventClock
    timing: Any
    facts: StepFacts | None
    undo: Undo | None

    @property
    def own_key_serde(self) -> Serde[Any]:
        """The serde of the key bytes by which its records are assigned to lanes."""
        return self._key

    def task(self, group: int) -> Task:
        """Return the task of a key group, opening it first if it is new."""
        raise NotImplementedError

    def prefetch(self, batch: Batch, groups: Sequence[int]) -> None:
        """Fetch the rows of the batch's keys from each store that has such keys."""
        raise NotImplementedError

    def take_in_hand(self, hand: Hand | None) -> None:
        """Set the current record or timer: what is forwarded from now on has its order."""
        self.hand = hand

    @contextmanager
    def sending(self, hand: Hand, *parts: int) -> Generator[None]:
        """Give what is sent meanwhile its own order, after that of the current record.

        The parts of a record may be in several lanes: ``parts`` orders what they send.
        """
        order = None if hand.order is None else (*hand.order, *parts)
        self.take_in_hand(hand._replace(order=order))
        try:
            yield
        finally:
            self.take_in_hand(hand)


class Task:
    """One processor instance: what Kafka Streams calls a task, for one step.

    Args:
        operator: The step.
        group: The key group, or `NO_GROUP`.

    Attributes:
        context: The processor's context.
        processor: The user's processor.
        process: Its method.
    """

    __slots__ = ("context", "group", "operator", "process", "processor")

    def __init__(self, operator: ProcessorStep, group: int) -> None:
        self.operator = operator
        self.group = group
        self.context: Any = None
        self.processor: Any = operator.node.supplier()
        self.process: Callable[[Any], object] = self.processor.process
