"""Transformers of a table's values that keep state: the user's class, and what runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from mustela.api.errors import ProcessorError

__all__ = [
    "TransformerContext",
    "TransformerProcessors",
    "TransformerSupplier",
    "ValueTransformerWithKey",
]

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


class ValueTransformerWithKey(Generic[K, V, W]):
    """Replaces the values of a table, with access to stores and to a context.

    As with Kafka Streams' class of this name, each key group has its own instance. An instance
    lives for one epoch; whatever must outlive it belongs in a store.

    Example:
        >>> from mustela import Stores, StreamsBuilder, TopologyTestDriver
        >>> from mustela.processors import ValueTransformerWithKey
        >>> class Trend(ValueTransformerWithKey[str, float, str]):
        ...     def init(self, context):
        ...         self.last = context.state_store("last")
        ...
        ...     def transform(self, key, price):
        ...         if price is None:
        ...             return None
        ...         before = self.last.get(key, price)
        ...         self.last.put(key, price)
        ...         return "up" if price > before else "down" if price < before else "even"
        >>> last = Stores.persistent_key_value_store("last")
        >>> builder = StreamsBuilder()
        >>> builder = builder.add_state_store(
        ...     Stores.key_value_store_builder(last, key=str, value=float)
        ... )
        >>> prices = builder.table("prices", key=str, value=float)
        >>> trends = prices.transform_values(Trend, stores=["last"], value=str)
        >>> trends.to_stream().to("trends")
        >>> with TopologyTestDriver(builder) as driver:
        ...     prices = driver.create_input_topic("prices")
        ...     prices.pipe_key_value_list([("a", 1.0), ("a", 2.0), ("a", 1.5)])
        ...     driver.create_output_topic("trends").read_values_to_list()
        ['even', 'up', 'down']
    """

    punctuates: ClassVar[bool | None] = None
    """Whether ``init`` schedules punctuators; None: if it calls ``schedule`` itself."""

    def init(self, context: Any) -> None:
        """Prepare; called once, before the first row.

        Args:
            context: The transformer's context, a `TransformerContext`.
        """

    def transform(self, key: K, value: V | None) -> W | None:
        """Return the new value of a row.

        Args:
            key: The key.
            value: The value; None if the row was deleted.

        Returns:
            The value of the result; None deletes its row.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release what `init` acquired; called once, after the last row."""


class TransformerContext:
    """The context of a fixed-key processor, without `forward`.

    Args:
        context: The processor's context.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        """Return what the processor's context has by this name."""
        return getattr(self._context, name)

    def forward(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Refuse: a transformer returns its row instead.

        Raises:
            ProcessorError: Always.
        """
        msg = "a transformer of values cannot forward records"
        raise ProcessorError(
            msg,
            why="what transform(key, value) returns is the row's new value",
            fix="return the value; to forward more, use to_stream().process_values(...)",
        )

    output = forward


TransformerSupplier = Callable[[], Any]
"""A class, or a function without arguments, that returns a new transformer on each call."""


@dataclass(frozen=True, slots=True)
class TransformerProcessors:
    """Makes fixed-key processors that run a transformer.

    Attributes:
        supplier: The user's: a class, or a function that returns a new transformer.
        timed: Whether its transformers schedule punctuators.
    """

    supplier: TransformerSupplier
    timed: bool

    @property
    def stores(self) -> Any:
        """The stores that the user's supplier names."""
        return getattr(self.supplier, "stores", None)

    def __call__(self) -> Any:
        """Return a new processor."""
        made = _TimedTransforming if self.timed else _Transforming
        return made(self.supplier())


class _Transforming:
    """The processor around a transformer."""

    punctuates: ClassVar[bool] = False

    def __init__(self, transformer: Any) -> None:
        self._transformer = transformer

    def init(self, context: Any) -> None:
        self._context = context
        init = getattr(self._transformer, "init", None)
        if init is not None:
            init(TransformerContext(context))

    def process(self, record: Any) -> None:
        value = self._transformer.transform(record.key, record.value)
        self._context.forward(record.with_value(value))

    def close(self) -> None:
        close = getattr(self._transformer, "close", None)
        if close is not None:
            close()


class _TimedTransforming(_Transforming):
    """The same for a transformer that schedules punctuators."""

    punctuates: ClassVar[bool] = True
