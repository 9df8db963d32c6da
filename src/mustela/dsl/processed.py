"""What a processor forwards, as a stream with side outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from mustela.api.errors import UnknownChildError
from mustela.api.names import path_name
from mustela.api.origin import user_origin
from mustela.api.update import Updated, reply_output
from mustela.dsl.kstream import KStream
from mustela.dsl.processing import Replies
from mustela.dsl.registry import Registry
from mustela.dsl.transacted import TransactedKStream
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.topology.processor import OutputNode
from mustela.topology.stateless import MergeNode

__all__ = ["ProcessedKStream", "parts_of"]

K = TypeVar("K")
V = TypeVar("V")


class ProcessedKStream(KStream[K, V]):
    """A stream of the records that a processor forwards; made by `KStream.process`.

    Args:
        registry: The topology while it is being written.
        name: The step's name.
        key: Serde of the keys, if it is known.
        value: Serde of the values, if it is known.
        outputs: Serdes of the keys and values of each side output, by its name.
        replies: What comes back from other lanes.
    """

    def __init__(
        self,
        registry: Registry,
        name: str,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        *,
        outputs: Mapping[str, tuple[Any, Any]],
        replies: Replies | None = None,
    ) -> None:
        super().__init__(registry, name, key, value)
        self._outputs = dict(outputs)
        self._replies = replies or Replies({}, ())
        self._taken: dict[str, KStream[Any, Any]] = {}

    def _typed(
        self, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> ProcessedKStream[Any, Any]:
        """Return this stream with the serdes of forwarded records, if they are given."""
        self._key, self._value = key or self._key, value or self._value
        return self

    def output(self, name: str) -> KStream[Any, Any]:
        """Return a side output of the processor as a stream.

        Args:
            name: The output's name, as given by ``outputs=``.

        Raises:
            UnknownChildError: If the step has no output of that name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> class Sort(ContextualProcessor):
            ...     def process(self, record):
            ...         if record.value < 0:
            ...             self.context.output("negative", record)
            ...         else:
            ...             self.context.forward(record)
            >>> builder = StreamsBuilder()
            >>> numbers = builder.stream("numbers", key=str, value=int)
            >>> sorted_numbers = numbers.process(Sort, outputs=["negative"])
            >>> sorted_numbers.output("negative").to("bad")
            >>> sorted_numbers.to("good", key=str, value=int)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("numbers").pipe_value_list([1, -2])
            ...     driver.create_output_topic("bad").read_values_to_list()
            ...     driver.create_output_topic("good").read_values_to_list()
            [-2]
            [1]
        """
        at = user_origin()
        if name not in self._outputs:
            msg = f"step {self._name!r} has no output {name!r}"
            raise UnknownChildError(
                msg,
                evidence={"outputs": ", ".join(self._outputs) or "none"},
                at=at,
                why="outputs are declared where the processor is added",
                fix=f'declare it: process(..., outputs=["{name}"])',
                fields={"step": self._name, "child": name},
            )
        if name not in self._taken:
            place = self._registry.place(path_name("output", name), parents=(self._name,), at=at)
            self._registry.add(OutputNode(**place, output=name))
            key, value = self._outputs[name]
            self._taken[name] = self._registry.handles.stream(place["name"], key, value)
        return self._taken[name]

    def reply(self, name: str) -> KStream[Any, Updated[Any, Any]]:
        """Return the results of the changes with this name as ``reply_to``, as a stream.

        Each value is an `Updated`; the keys are those that were changed, or ``reply_key``.

        Args:
            name: The reply's name, as given by ``replies=``.

        Raises:
            UnknownChildError: If the step has no reply of that name.

        Example:
            >>> from mustela import Stores, StreamsBuilder
            >>> from mustela.processors import ContextualProcessor
            >>> class Visit(ContextualProcessor):
            ...     def process(self, record):
            ...         one_more = lambda count: (count or 0) + 1
            ...         self.context.update("visits", record.value, one_more, reply_to="counted")
            >>> visits = Stores.key_value_store_builder(
            ...     Stores.persistent_key_value_store("visits"), key=str, value=int)
            >>> clicks = StreamsBuilder().stream("clicks", key=str, value=str)
            >>> counted = clicks.process(Visit, updates=[visits], replies=["counted"])
            >>> totals = counted.reply("counted").map_values(lambda change: change.new)
        """
        at = user_origin()
        if name not in self._replies.serdes:
            msg = f"step {self._name!r} has no reply {name!r}"
            raise UnknownChildError(
                msg,
                evidence={"replies": ", ".join(self._replies.serdes) or "none"},
                at=at,
                why="replies are declared where the processor is added",
                fix=f'declare them: process(..., updates=[...], replies=["{name}"])',
                fields={"step": self._name, "child": name},
            )
        key, value = self._replies.serdes[name]
        taken = path_name("reply", name)
        if taken not in self._taken:
            parts = self._reply_parts(name, at)
            stream: KStream[Any, Any] = self._registry.handles.stream(parts[0], key, value)
            if len(parts) > 1:
                place = self._registry.place(taken, parents=tuple(parts), at=at, path=self._name)
                self._registry.add(MergeNode(**place, key=key))
                stream = self._registry.handles.stream(place["name"], key, value)
            self._taken[taken] = stream
        return self._taken[taken]

    def transacted(self) -> TransactedKStream[Any, Any]:
        """Return the records that the processor's transactions send on, as a stream.

        Its ``refused()`` are those that were aborted, each with the arguments of its function.

        Raises:
            UnknownChildError: If the step was not given ``transacts=``.

        Example:
            >>> from mustela import Stores, StreamsBuilder
            >>> from mustela.processors import ContextualProcessor
            >>> def meet(tx, one, other):
            ...     for person in (one, other):
            ...         tx.store("met").put(person, tx.store("met").get(person, 0) + 1)
            ...     return tx.store("met").get(one)
            >>> class Meet(ContextualProcessor):
            ...     def process(self, record):
            ...         pair = record.key, record.value
            ...         self.context.transact(pair, meet, *pair)
            >>> met = Stores.key_value_store_builder(
            ...     Stores.persistent_key_value_store("met"), key=str, value=int)
            >>> meetings = StreamsBuilder().stream("meetings", key=str, value=str)
            >>> meetings.process(Meet, transacts=met).transacted().to("met", key=str, value=int)
        """
        if self._replies.requests is None:
            msg = f"step {self._name!r} asks for no transactions"
            raise UnknownChildError(
                msg,
                at=user_origin(),
                why="the stores of transactions are declared where the processor is added",
                fix="declare them: process(..., transacts=[store])",
                fields={"step": self._name, "child": "transacted"},
            )
        return self._replies.requests

    def _reply_parts(self, name: str, at: Origin) -> list[str]:
        """Add a step for each store that may send the reply; return their names."""
        parts: list[str] = []
        for maker in self._replies.makers:
            verb = path_name(maker, "reply", name)
            place = self._registry.place(verb, parents=(maker,), at=at, path=self._name)
            self._registry.add(OutputNode(**place, output=reply_output(self._name, name)))
            parts.append(place["name"])
        return parts


def parts_of(stream: ProcessedKStream[Any, Any]) -> dict[str, Callable[[], KStream[Any, Any]]]:
    """Return all outputs of a processor other than forwarded records, by the names of the parts.

    A part is added to the topology when it is requested.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.processors import ContextualProcessor
        >>> class Sort(ContextualProcessor):
        ...     def process(self, record):
        ...         self.context.output("bad", record)
        >>> words = StreamsBuilder().stream("words", key=str, value=str)
        >>> sorted_words = words.process(Sort, outputs=["bad"], name="sort")
        >>> parts_of(sorted_words)["sort.output.bad"]().name
        'sort.output.bad'
    """
    step, replies = stream.name, stream._replies  # pyright: ignore[reportPrivateUsage]
    parts: dict[str, Callable[[], KStream[Any, Any]]] = {}
    for name in stream._outputs:  # pyright: ignore[reportPrivateUsage]
        parts[path_name(step, "output", name)] = partial(stream.output, name)
    for name in replies.serdes:
        parts[path_name(step, "reply", name)] = partial(stream.reply, name)
    if replies.requests is not None:
        parts[path_name(step, "transacted")] = stream.transacted
        parts[path_name(step, "refused")] = replies.requests.refused
    return parts
