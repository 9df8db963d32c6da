"""Processors around those of the user's: what a program wants of all its processors, said once."""

from __future__ import annotations

from typing import Any, ClassVar

from mustela.api.processor import ProcessorSupplier

__all__ = ["ProcessorWrapper", "WrappedProcessor"]


class WrappedProcessor:
    """A processor that hands all it is called for to another one; a base for wrappers.

    It serves for both kinds of processors: override what is to happen around the other's methods.

    Args:
        inner: The processor that is wrapped.

    Example:
        >>> from mustela import Record
        >>> from mustela.processors import ContextualProcessor
        >>> from mustela.testing import MockProcessorContext
        >>> class Copy(ContextualProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record)
        >>> class Told(WrappedProcessor):
        ...     def process(self, record):
        ...         print("comes:", record.value)
        ...         super().process(record)
        >>> context, processor = MockProcessorContext(), Told(Copy())
        >>> processor.init(context)
        >>> processor.process(Record("a", 1, 0))
        comes: 1
        >>> context.forwarded()[0].record
        Record(key='a', value=1, timestamp=0)
    """

    punctuates: ClassVar[bool | None] = None
    """Whether the wrapper itself schedules punctuators; what it wraps says so by itself."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def init(self, context: Any) -> None:
        """Prepare the wrapped processor."""
        self.inner.init(context)

    def process(self, record: Any) -> None:
        """Let the wrapped processor handle a record."""
        self.inner.process(record)

    def on_timer(self, timer: Any, context: Any) -> None:
        """Let a timer of the wrapped processor fire."""
        self.inner.on_timer(timer, context)

    def close(self) -> None:
        """Let the wrapped processor go."""
        self.inner.close()


class ProcessorWrapper:
    """Wraps what gives the processors of a topology; override the method of the kind.

    Every processor that the program writes passes here when its step is added: those of
    `KStream.process` and `KStream.process_values`, of `Topology.add_processor` and of global
    stores. The other steps of the DSL are no processors, and are not wrapped. What is returned
    gives processors too, which usually hand on what they are called for; see `WrappedProcessor`.
    Stores that its ``stores()`` gives are added and connected besides those of the supplier.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.processors import ContextualProcessor
        >>> class Counted(WrappedProcessor):
        ...     def init(self, context):
        ...         self.seen = context.metrics().counter("seen")
        ...         super().init(context)
        ...
        ...     def process(self, record):
        ...         self.seen.increment()
        ...         super().process(record)
        >>> class CountAll(ProcessorWrapper):
        ...     def wrap_processor_supplier(self, name, supplier):
        ...         return lambda: Counted(supplier())
        >>> class Copy(ContextualProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record)
        >>> builder = StreamsBuilder(processor_wrapper=CountAll())
        >>> words = builder.stream("words", key=str, value=str)
        >>> words.process(Copy, name="copy").to("copies", key=str, value=str)
        >>> with TopologyTestDriver(builder) as driver:
        ...     driver.create_input_topic("words").pipe_value_list(["a", "b"])
        ...     driver.metrics["user.seen:copy"]
        2
    """

    def wrap_processor_supplier(self, name: str, supplier: ProcessorSupplier) -> ProcessorSupplier:
        """Return what gives the processors of a step.

        Args:
            name: The step's name.
            supplier: What the program gave.

        Example:
            >>> ProcessorWrapper().wrap_processor_supplier("step", dict) is dict
            True
        """
        del name
        return supplier

    def wrap_fixed_key_processor_supplier(
        self, name: str, supplier: ProcessorSupplier
    ) -> ProcessorSupplier:
        """Return what gives the fixed-key processors of a step.

        Args:
            name: The step's name.
            supplier: What the program gave.

        Example:
            >>> ProcessorWrapper().wrap_fixed_key_processor_supplier("step", dict) is dict
            True
        """
        del name
        return supplier
