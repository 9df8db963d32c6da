"""The classes from which users derive processors, and the type variables for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from mustela.api.context import FixedKeyProcessorContext, ProcessorContext
from mustela.api.errors import ContextNotKeptError
from mustela.api.timers import FixedKeyTimer, Timer
from mustela.model import FixedKeyRecord, Record

__all__ = [
    "ContextualFixedKeyProcessor",
    "ContextualProcessor",
    "FixedKeyProcessor",
    "Processor",
    "ProcessorSupplier",
]

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")

ProcessorSupplier = Callable[[], Any]
"""A class, or a function without arguments, that returns a new processor on each call.

Its ``stores()``, a static or class method, or its ``stores``, a sequence, lists the stores that its
processors use: they are added to the topology and connected."""


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """Handles records one by one, with state, and forwards any number of records.

    A processor with stores has one instance for each key group, as Kafka Streams has one for each
    task; it sees the records of its key group in order. An instance lives for one epoch: whatever
    must outlive it belongs in a store, which is committed with the epoch's results.

    Example:
        >>> from mustela import Processor, Record, Stores, StreamsBuilder, TopologyTestDriver
        >>> class Deduplicate(Processor[str, int, str, int]):
        ...     @staticmethod
        ...     def stores():
        ...         seen = Stores.persistent_key_value_store("seen")
        ...         return [Stores.key_value_store_builder(seen, key=str, value=int)]
        ...
        ...     def init(self, context):
        ...         self.context = context
        ...         self.seen = context.state_store("seen")
        ...
        ...     def process(self, record: Record[str, int]) -> None:
        ...         if self.seen.get(record.key) != record.value:
        ...             self.seen.put(record.key, record.value)
        ...             self.context.forward(record)
        >>> builder = StreamsBuilder()
        >>> readings = builder.stream("readings", key=str, value=int)
        >>> readings.process(Deduplicate).to("changes", key=str, value=int)
        >>> with TopologyTestDriver(builder) as driver:
        ...     readings = driver.create_input_topic("readings")
        ...     readings.pipe_key_value_list([("a", 1), ("a", 1), ("a", 2)])
        ...     driver.create_output_topic("changes").read_key_values_to_list()
        [('a', 1), ('a', 2)]
    """

    punctuates: ClassVar[bool | None] = None
    """Whether ``init`` schedules punctuators; None: if it calls ``schedule`` itself."""

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Prepare; called once, before the first record.

        Args:
            context: The processor's context; the same object for its whole life.
        """

    def process(self, record: Record[KIn, VIn]) -> None:
        """Handle one record.

        Args:
            record: The record; it never changes.
        """
        raise NotImplementedError

    def on_timer(self, timer: Timer[KIn], context: ProcessorContext[KOut, VOut]) -> None:
        """Handle a timer that was registered with the context.

        The stores show the state of the timer's key. ``timer.with_value(...)`` is a record with the
        timer's key and time.

        Args:
            timer: The timer.
            context: The same context that ``init`` was given.

        Example:
            >>> class Silence(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.register_event_time_timer(record.timestamp + 100)
            ...
            ...     def on_timer(self, timer, context):
            ...         context.forward(timer.with_value("silent"))
        """

    def close(self) -> None:
        """Release what `init` acquired; called once, after the last record."""


class FixedKeyProcessor(Generic[KIn, VIn, VOut]):
    """A processor that cannot change keys, so the steps after it need no repartitioning.

    Example:
        >>> from mustela import FixedKeyProcessor, StreamsBuilder, TopologyTestDriver
        >>> class Shout(FixedKeyProcessor[str, str, str]):
        ...     def init(self, context):
        ...         self.context = context
        ...
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(record.value.upper()))
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str)
        >>> words.process_values(Shout).to("loud", value=str)
        >>> with TopologyTestDriver(builder) as driver:
        ...     driver.create_input_topic("words").pipe_input("a", "sun")
        ...     driver.create_output_topic("loud").read_value()
        'SUN'
    """

    punctuates: ClassVar[bool | None] = None
    """Whether ``init`` schedules punctuators; None: if it calls ``schedule`` itself."""

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Prepare; called once, before the first record.

        Args:
            context: The processor's context.
        """

    def process(self, record: FixedKeyRecord[KIn, VIn]) -> None:
        """Handle one record.

        Args:
            record: The record; other records with its key are derived from it.
        """
        raise NotImplementedError

    def on_timer(
        self, timer: FixedKeyTimer[KIn], context: FixedKeyProcessorContext[KIn, VOut]
    ) -> None:
        """Handle a timer that was registered with the context.

        The stores show the state of the timer's key. ``timer.with_value(...)`` is a record with the
        timer's key and time.

        Args:
            timer: The timer.
            context: The same context that ``init`` was given.

        Example:
            >>> class Silence(ContextualFixedKeyProcessor):
            ...     def process(self, record):
            ...         self.context.register_event_time_timer(record.timestamp + 100)
            ...
            ...     def on_timer(self, timer, context):
            ...         context.forward(timer.with_value("silent"))
        """

    def close(self) -> None:
        """Release what `init` acquired; called once, after the last record."""


class ContextualProcessor(Processor[KIn, VIn, KOut, VOut]):
    """A processor that keeps its context as ``self.context``.

    Example:
        >>> from mustela.processors import ContextualProcessor
        >>> class Twice(ContextualProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record)
        ...         self.context.forward(record)
    """

    context: ProcessorContext[KOut, VOut]

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Keep the context; a subclass that overrides this calls it."""
        self.context = context

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Say what to write if the context was not kept."""
            raise _not_there(self, name)


class ContextualFixedKeyProcessor(FixedKeyProcessor[KIn, VIn, VOut]):
    """A fixed-key processor that keeps its context as ``self.context``.

    Example:
        >>> from mustela.processors import ContextualFixedKeyProcessor
        >>> class Length(ContextualFixedKeyProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(len(record.value)))
    """

    context: FixedKeyProcessorContext[KIn, VOut]

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Keep the context; a subclass that overrides this calls it."""
        self.context = context

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Say what to write if the context was not kept."""
            raise _not_there(self, name)


def _not_there(processor: object, name: str) -> AttributeError:
    """Return the error for an attribute that a processor does not have."""
    kind = type(processor).__name__
    if name != "context":
        return AttributeError(f"{kind!r} object has no attribute {name!r}")
    return ContextNotKeptError(
        f"{kind} has no context yet",
        why=f"init of {kind} does not call the init that keeps it, or has not been called",
        fix="begin init with: super().init(context)",
        fields={"processor": kind},
    )
