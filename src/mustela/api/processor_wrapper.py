"""Wrappers around the user's processors: what a program wants of all of them, written once."""

from __future__ import annotations

from typing import Any, ClassVar

from mustela.api.processor import ProcessorSupplier

__all__ = ["ProcessorWrapper", "WrappedProcessor"]


class WrappedProcessor:
    """A processor that passes each call on to another one; a base class for wrappers.

    It works for both kinds of processors: override the methods around which something is to happen.

    Args:
        inner: The processor that is wrapped.

    Example:
        >>> from mustela import Record
        >>> from mustela.processors import ContextualProcessor
        >>> from mustela.testing import MockProcessorContext
        >>> class Copy(ContextualProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record)
        >>> class Logged(WrappedProcessor):
        ...     def process(self, record):
        ...         print("input:", record.value)
        ...         super().process(record)
        >>> context, processor = MockProcessorContext(), Logged(Copy())
        >>> processor.init(context)
        >>> processor.process(Record("a", 1, 0))
        input: 1
        >>> context.forwarded()[0].record
        Record(key='a', value=1, timestamp=0)
    """

    punctuates: ClassVar[bool | None] = None
    """Whether the wrapper itself schedules punctuators; the wrapped processor has its own."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def init(self, context: Any) -> None:
        """Prepare the wrapped processor."""
        self.inner.init(context)

    def process(self, record: Any) -> None:
        """Pass a record to the wrapped processor."""
        self.inner.process(record)

    def on_timer(self, timer: Any, context: Any) -> None:
        """Pass a timer to the wrapped processor."""
        self.inner.on_timer(timer, context)

    def close(self) -> None:
        """Close the wrapped processor."""
        self.inner.close()


class ProcessorWrapper:
    """Wraps the suppliers of a topology's processors; override the method for the kind.

    The supplier of every processor that the program writes passes through here when its step is
    added: those of `KStream.process` and `KStream.process_values`, of `Topology.add_processor` and
    of global stores. The other steps of the DSL are not processors and are not wrapped. The
    processors of the supplier that is returned usually pass their calls on; see `WrappedProcessor`.
    The stores of its ``stores()`` are added and connected in addition to those of the original
    supplier.

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
        """Return the supplier of a step's processors.

        Args:
            name: The step's name.
            supplier: The supplier that the program gave.

        Example:
            >>> ProcessorWrapper().wrap_processor_supplier("step", dict) is dict
            True
        """
        del name
        return supplier

    def wrap_fixed_key_processor_supplier(
        self, name: str, supplier: ProcessorSupplier
    ) -> ProcessorSupplier:
        """Return the supplier of a step's fixed-key processors.

        Args:
            name: The step's name.
            supplier: The supplier that the program gave.

        Example:
            >>> ProcessorWrapper().wrap_fixed_key_processor_supplier("step", dict) is dict
            True
        """
        del name
        return supplier
