"""What users derive their processors from, and what they write types with."""

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
"""A class, or a function without arguments, that gives a new processor each time it is called.

A ``stores()`` of it, as a static or class method or as a sequence, names the stores that its
processors use: they are added to the topology and connected."""


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """Handles records one by one, keeps state, and forwards what it likes.

    A processor with stores has one instance for each key group, as Kafka Streams has one for each
    task; it sees the records of its key group in order. An instance lives for an epoch: what has
    to outlive it belongs into a store, which is committed with the epoch's results.

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
    """Whether ``init`` schedules punctuators; None: it does if it calls ``schedule`` itself."""

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Prepare; called once, before the first record.

        Args:
            context: What the processor may ask and do; the same object for its whole life.
        """

    def process(self, record: Record[KIn, VIn]) -> None:
        """Handle one record.

        Args:
            record: The record; it never changes.
        """
        raise NotImplementedError

    def on_timer(self, timer: Timer[KIn], context: ProcessorContext[KOut, VOut]) -> None:
        """Act when a timer fires that was registered with the context.

        Stores are those of the timer's key. ``timer.with_value(...)`` is a record with the
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
        """Let go of what `init` took; called once, behind the last record."""


class FixedKeyProcessor(Generic[KIn, VIn, VOut]):
    """A processor that cannot change keys, so that nothing behind it has to travel.

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
    """Whether ``init`` schedules punctuators; None: it does if it calls ``schedule`` itself."""

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Prepare; called once, before the first record.

        Args:
            context: What the processor may ask and do.
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
        """Act when a timer fires that was registered with the context.

        Stores are those of the timer's key. ``timer.with_value(...)`` is a record with the
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
        """Let go of what `init` took; called once, behind the last record."""


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
            """Say what to write where the context was not kept."""
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
            """Say what to write where the context was not kept."""
            raise _not_there(self, name)


def _not_there(processor: object, name: str) -> AttributeError:
    """Return the error of an attribute that a processor does not have."""
    kind = type(processor).__name__
    if name != "context":
        return AttributeError(f"{kind!r} object has no attribute {name!r}")
    return ContextNotKeptError(
        f"{kind} has no context yet",
        why=f"init of {kind} does not call the init that keeps it, or has not been called",
        fix="begin init with: super().init(context)",
        fields={"processor": kind},
    )
