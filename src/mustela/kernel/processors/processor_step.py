"""A processor's step and its instances, as the parts of a processor at work know them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from mustela.api.context_port import StepFacts
from mustela.kernel.core.event_time import EventClock
from mustela.kernel.core.keyed import KeyedOperator
from mustela.model import FixedKeyRecord, Headers, Record
from mustela.plan.batch import Batch, Order
from mustela.serdes.base import Serde
from mustela.topology.processor import ProcessorNode

__all__ = ["NO_GROUP", "AnyRecord", "DrawnColumns", "Hand", "ProcessorStep", "Sender", "Task"]

NO_GROUP: Final = -1
"""Stands for the key group of a processor without stores."""

AnyRecord = Record[Any, Any] | FixedKeyRecord[Any, Any]


class Hand(NamedTuple):
    """What is being worked on.

    Attributes:
        timestamp: Its time.
        headers: Its headers.
        order: Its order, which all that is forwarded has too; None where order was given up.
        batch: The batch that it is a row of; None for a timer.
        row: Which row.
    """

    timestamp: int
    headers: Headers = ()
    order: Order | None = None
    batch: Batch | None = None
    row: int = -1


class DrawnColumns:
    """The columns of a batch, drawn once, so that rows can be taken one by one.

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
        """Return what gathered, and begin to gather anew."""
        ...


class ProcessorStep(KeyedOperator[ProcessorNode]):
    """The operator of a processor's step; `processor.ProcessorOperator` is it.

    Attributes:
        hand: What is being worked on; None between records.
        group_in_hand: The key group of what was sent last.
        topics: The plan's topics.
        sender: Where what is forwarded goes.
        tasks: The instances by key group.
        clock: Its event time.
        timing: What acts on time, a `processor_time.ProcessorTime`, or None.
        facts: What its contexts know of it; None before there is one.
    """

    hand: Hand | None
    group_in_hand: int
    topics: Sequence[str]
    sender: Sender
    tasks: dict[int, Task]
    clock: EventClock
    timing: Any
    facts: StepFacts | None

    @property
    def own_key_serde(self) -> Serde[Any]:
        """The serde by whose bytes its records are in their lane."""
        return self._key

    def task(self, group: int) -> Task:
        """Return the task of a key group; a new one is opened."""
        raise NotImplementedError

    def prefetch(self, batch: Batch, groups: Sequence[int]) -> None:
        """Fetch the rows of the batch's keys from each store that has such keys."""
        raise NotImplementedError

    def take_in_hand(self, hand: Hand | None) -> None:
        """Say what is being worked on: what is forwarded from now on has its order."""
        self.hand = hand

    @contextmanager
    def sending(self, hand: Hand, *parts: int) -> Generator[None]:
        """Let what is sent meanwhile have an order of its own, behind that of what is in hand.

        The parts of a record may be in several lanes: ``parts`` put what they send in order.
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
        context: What the processor may ask and do.
        processor: The user's.
        process: Its method.
    """

    __slots__ = ("context", "group", "operator", "process", "processor")

    def __init__(self, operator: ProcessorStep, group: int) -> None:
        self.operator = operator
        self.group = group
        self.context: Any = None
        self.processor: Any = operator.node.supplier()
        self.process: Callable[[Any], object] = self.processor.process
