"""A topology written step by step: sources, processors, sinks and stores, each with a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from mustela.api.errors import SourceConflictError, UnknownStepError
from mustela.api.functions import check_function
from mustela.api.names import check_name
from mustela.api.options import Consumed, Partitioner, options_or
from mustela.api.origin import user_origin
from mustela.api.outputs import SideOutput
from mustela.api.processor import ProcessorSupplier
from mustela.api.processor_wrapper import ProcessorWrapper
from mustela.api.serdes import choose_serde
from mustela.api.stores import StoreBuilder
from mustela.dsl.global_stores import GlobalStoreOptions, add_global_store
from mustela.dsl.handle import Handle
from mustela.dsl.handles import Handles
from mustela.dsl.processed import parts_of
from mustela.dsl.processing import Ties, attach_processor
from mustela.dsl.registry import Registry
from mustela.dsl.serdes import serde_to_write
from mustela.dsl.sources import source_node
from mustela.dsl.suppliers import (
    add_store_builder,
    connected_stores,
    uses_of,
)
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.topology import graph
from mustela.topology.processor import ProcessorNode
from mustela.topology.sink import SinkNode, TopicNameExtractor
from mustela.topology.source import SourceNode

__all__ = ["Topology"]

_EXTRACTED = ("key", "value", "context")
_PARTITIONED = ("topic", "key", "value", "partitions")


class Topology(graph.TopologyGraph):
    """The steps of an application, each with a name, and their connections.

    Write one by hand, or extend the result of `StreamsBuilder.build`: steps have the names that
    ``describe()`` shows. An application runs it if its function returns it.

    Args:
        registry: The steps to begin with; none if not given.
        processor_wrapper: Wraps the suppliers of processors; see `ProcessorWrapper`.

    Example:
        >>> from mustela import Topology, TopologyTestDriver
        >>> from mustela.processors import ContextualProcessor
        >>> class Shout(ContextualProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(record.value.upper()))
        >>> topology = Topology()
        >>> topology = topology.add_source("words", "words", key=str, value=str)
        >>> topology = topology.add_processor("shout", Shout, "words")
        >>> topology = topology.add_sink("loud", "loud", "shout", key=str, value=str)
        >>> with TopologyTestDriver(topology) as driver:
        ...     driver.create_input_topic("words").pipe_input("a", "sun")
        ...     driver.create_output_topic("loud").read_value()
        'SUN'
    """

    _registry: Registry
    _parts: dict[str, Callable[[], Handle[Any, Any]]]
    _types: dict[str, tuple[Serde[Any] | None, Serde[Any] | None]]

    def __init__(
        self,
        registry: Registry | None = None,
        *,
        processor_wrapper: ProcessorWrapper | None = None,
    ) -> None:
        begun = Registry(Handles, processor_wrapper) if registry is None else registry
        object.__setattr__(self, "_registry", begun)
        object.__setattr__(self, "_parts", {})
        object.__setattr__(self, "_types", {})
        self._refresh()

    def add_source(
        self,
        name: str,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        key: Any = None,
        value: Any = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> Self:
        """Read one topic or several.

        Args:
            name: The step's name.
            topics: A topic, a list of topics, or a pattern; see `StreamsBuilder.stream`.
            key: Type or serde of the keys; bytes if not given.
            value: Type or serde of the values; bytes if not given.
            consumed: These options, where to begin and the timestamps of records, as one object.

        Returns:
            This topology.

        Raises:
            DuplicateNameError: If the name is taken.
            SourceConflictError: If a topic is already read.

        Example:
            >>> from mustela import Topology
            >>> topology = Topology().add_source("orders", ["eu", "us"], key=str, value=dict)
            >>> topology["orders"].topics
            ('eu', 'us')
        """
        at = user_origin()
        options = options_or(consumed, Consumed[Any, Any](), at=at)
        node = source_node(topics, key=key, value=value, name=name, options=options, at=at)
        self._registry.place("add_source", parents=(), at=at, name=name)
        if self._registry.add_source(node) is not node:
            msg = f"the topics of source {name!r} are already read"
            raise SourceConflictError(msg, at=at, fix="make the steps read that source")
        return self._refresh()

    def add_processor(  # noqa: PLR0913 - what a processor uses, and what comes out of it
        self,
        name: str,
        supplier: ProcessorSupplier,
        *parents: str,
        key: Any = None,
        value: Any = None,
        stores: Sequence[str | StoreBuilder] = (),
        outputs: Mapping[str, SideOutput[Any, Any]] | Iterable[str] = (),
        reads: Sequence[str] = (),
        updates: Sequence[str | StoreBuilder] = (),
        replies: Mapping[str, SideOutput[Any, Any]] | Iterable[str] = (),
        transacts: str | StoreBuilder | Sequence[str | StoreBuilder] = (),
    ) -> Self:
        """Handle the records of other steps with a processor.

        With stores, records first travel to the lane of their key. Outputs other than forwarded
        records are read by these names: ``<name>.output.<output>`` is a side output,
        ``<name>.reply.<reply>`` has the results of changes, ``<name>.transacted`` the records that
        its transactions send on, and ``<name>.refused`` the transactions that were aborted.

        Args:
            name: The step's name.
            supplier: A `Processor` class, or a function that returns a new processor on each call.
                The stores of its ``stores()`` are added and connected.
            parents: Names of the steps that it reads.
            key: Type or serde of the incoming keys; those of the source if it reads one, else
                Python's own types.
            value: Type or serde of the incoming values, likewise.
            stores: Names of stores that it uses, or store builders, which are added here.
            outputs: Names of side outputs, with their types.
            reads: Names of stores of any steps, in which it reads any key.
            updates: Stores in which it changes keys in their own lanes.
            replies: Names of the outputs that receive the results of such changes, with the types
                of their keys.
            transacts: The stores of the transactions for which it asks.

        Returns:
            This topology.

        Raises:
            UnknownStepError: If a parent does not exist, or none is given.
            DuplicateNameError: If the name is taken.
            FunctionError: If the supplier does not return a processor, or returns the same one
                twice.
            UnknownStoreError: If a store was not added.
            SharedStoreError: If a store cannot be updated.

        Example:
            >>> from mustela import Topology, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> class Sort(ContextualProcessor):
            ...     def process(self, record):
            ...         if record.value < 0:
            ...             self.context.output("bad", record)
            ...         else:
            ...             self.context.forward(record)
            >>> topology = Topology().add_source("numbers", "numbers", key=str, value=int)
            >>> topology = topology.add_processor("sort", Sort, "numbers", outputs=["bad"])
            >>> topology = topology.add_sink("good", "good", "sort", key=str, value=int)
            >>> topology = topology.add_sink("bad", "bad", "sort.output.bad")
            >>> with TopologyTestDriver(topology) as driver:
            ...     driver.create_input_topic("numbers").pipe_value_list([1, -2])
            ...     driver.create_output_topic("bad").read_values_to_list()
            [-2]
        """
        at = user_origin()
        registry = self._registry
        steps = self._parents(name, parents, at=at)
        known = self._serdes_of(steps)
        incoming: Handle[Any, Any] = Handle(
            registry,
            steps[0],
            choose_serde("key", key, None, holder="", at=at) or known[0],
            choose_serde("value", value, None, holder="", at=at) or known[1],
        )
        ties = Ties(stores, outputs, reads, updates, replies, transacts)
        place = registry.place("add_processor", parents=steps, at=at, name=name)
        made = attach_processor(incoming, place, supplier, ties, verb="add_processor")
        self._parts.update(parts_of(made))
        return self._refresh()

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parents: str,
        key: Any = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
    ) -> Self:
        """Write the records of other steps to a topic.

        Args:
            name: The step's name.
            topic: The topic, or a function of key, value and record context that returns it.
            parents: Names of the steps that it reads.
            key: Type or serde of the keys; those of the source if it reads one.
            value: Type or serde of the values; likewise.
            partitioner: Chooses the partition; see `KStream.to`.

        Returns:
            This topology.

        Raises:
            UnknownStepError: If a parent does not exist, or none is given.
            DuplicateNameError: If the name is taken.
            MissingSerdeError: If no serde is known for keys or values.

        Example:
            >>> from mustela import Topology
            >>> topology = Topology().add_source("in", "in", key=str, value=str)
            >>> topology.add_sink("out", "copies", "in")["out"].topic
            'copies'
        """
        at = user_origin()
        steps = self._parents(name, parents, at=at)
        place = self._registry.place("add_sink", parents=steps, at=at, name=name)
        if isinstance(topic, str):
            check_name(topic, what="topic", at=at)
        else:
            role = "topic name extractor"
            check_function(topic, _EXTRACTED, role=role, verb="add_sink", at=at)
        if partitioner is not None:
            role = "partitioner"
            check_function(partitioner, _PARTITIONED, role=role, verb="add_sink", at=at)
        known, find = self._serdes_of(steps), self._registry.node
        step = steps[0]
        key_serde = choose_serde("key", key, None, holder="", at=at)
        value_serde = choose_serde("value", value, None, holder="", at=at)
        self._registry.add(
            SinkNode(
                **place,
                topic=topic,
                key=serde_to_write("key", key_serde, known[0], find=find, step=step, at=at),
                value=serde_to_write("value", value_serde, known[1], find=find, step=step, at=at),
                partitioner=partitioner,
            )
        )
        return self._refresh()

    def add_state_store(self, store: StoreBuilder, *processors: str) -> Self:
        """Add a store, and connect it to processors.

        Args:
            store: A builder from `Stores`.
            processors: Names of the processors that use it.

        Returns:
            This topology.

        Raises:
            DuplicateStoreError: If another store has the name.
            UnknownStepError: If there is no such processor.

        Example:
            >>> from mustela import Stores, Topology
            >>> from mustela.processors import ContextualProcessor
            >>> class Copy(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record)
            >>> topology = Topology().add_source("in", "in").add_processor("copy", Copy, "in")
            >>> seen = Stores.key_value_store_builder(Stores.persistent_key_value_store("seen"))
            >>> [store.name for store in topology.add_state_store(seen, "copy")["copy"].stores]
            ['seen']
        """
        at = user_origin()
        added = add_store_builder(self._registry, store, verb="add_state_store", at=at)
        for processor in processors:
            self._connect(processor, added.spec.name, at=at)
        return self._refresh()

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Self:
        """Connect a processor to stores that were added, or that tables have.

        Args:
            processor: The processor's name; it may have been added by `KStream.process`.
            stores: Names of stores.

        Returns:
            This topology.

        Raises:
            UnknownStepError: If there is no such processor.
            UnknownStoreError: If there is no such store.

        Example:
            >>> from mustela import StreamsBuilder
            >>> from mustela.processors import ContextualProcessor
            >>> class Look(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record)
            >>> builder = StreamsBuilder()
            >>> clicks = builder.stream("clicks", key=str, value=str)
            >>> counts = clicks.group_by_key().count(store="counts")
            >>> looked = clicks.process(Look, name="look")
            >>> topology = builder.build()
            >>> topology = topology.connect_processor_and_state_stores("look", "counts")
            >>> [store.name for store in topology["look"].stores]
            ['counts']
        """
        at = user_origin()
        for store in stores:
            self._connect(processor, store, at=at)
        return self._refresh()

    def add_global_store(
        self,
        store: StoreBuilder,
        topic: str,
        supplier: ProcessorSupplier,
        *,
        name: str | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> Self:
        """Add a store of which every host has a full copy, written by a processor of one topic.

        See `StreamsBuilder.add_global_store`.

        Args:
            store: A builder from `Stores`.
            topic: The topic.
            supplier: Makes the processor that writes the store.
            name: The step's name; the topic's if not given.
            consumed: Types of the topic's records.

        Returns:
            This topology.

        Raises:
            DuplicateStoreError: If another store has the name.

        Example:
            >>> from mustela import Consumed, Stores, Topology
            >>> from mustela.processors import ContextualProcessor
            >>> class Keep(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.state_store("rates").put(record.key, record.value)
            >>> rates = Stores.key_value_store_builder(Stores.persistent_key_value_store("rates"))
            >>> topology = Topology().add_global_store(
            ...     rates, "rates", Keep, consumed=Consumed(key=str, value=float)
            ... )
            >>> topology["rates"].topic
            'rates'
        """
        options = GlobalStoreOptions(name=name, consumed=consumed)
        add_global_store(self._registry, store, topic, supplier, options, at=user_origin())
        return self._refresh()

    def add_read_only_state_store(
        self,
        store: StoreBuilder,
        source: str,
        topic: str,
        processor: str,
        supplier: ProcessorSupplier,
        *,
        consumed: Consumed[Any, Any] | None = None,
    ) -> Self:
        """Add a store that only one processor fills, from a topic; others can only read it.

        The store is in the lanes of the topic's keys, and records that use it travel there.

        Args:
            store: A builder from `Stores`.
            source: Name of the step that reads the topic.
            topic: The topic.
            processor: Name of the step that fills the store.
            supplier: Makes the processor that fills it.
            consumed: Types of the topic's records, and where to begin.

        Returns:
            This topology.

        Raises:
            DuplicateStoreError: If another store has the name.
            DuplicateNameError: If a name is taken.

        Example:
            >>> from mustela import Consumed, Stores, Topology
            >>> from mustela.processors import ContextualProcessor
            >>> class Keep(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.state_store("limits").put(record.key, record.value)
            >>> limits = Stores.key_value_store_builder(Stores.persistent_key_value_store("limits"))
            >>> topology = Topology().add_read_only_state_store(
            ...     limits, "limits", "limits", "keep", Keep, consumed=Consumed(key=str, value=int)
            ... )
            >>> [store.name for store in topology["keep"].stores]
            ['limits']
        """
        self.add_source(source, topic, consumed=consumed)
        self.add_processor(processor, supplier, source)
        at = user_origin()
        added = add_store_builder(self._registry, store, verb="add_read_only_state_store", at=at)
        self._connect(processor, added.spec.name, at=at)
        self._registry.make_read_only(added.spec.name, writer=processor)
        return self._refresh()

    def _refresh(self) -> Self:
        object.__setattr__(self, "nodes", self._registry.nodes)
        self.__post_init__()
        return self

    def _connect(self, processor: str, store: str, *, at: Origin) -> None:
        node = self._step(processor, at=at)
        if not isinstance(node, ProcessorNode):
            msg = f"step {processor!r} is not a processor, so no store can be connected to it"
            raise UnknownStepError(
                msg,
                at=at,
                why="other steps keep what they need in their own stores",
                fix="name a step that add_processor or KStream.process has added",
                fields={"step": processor, "store": store},
            )
        (added,) = connected_stores(self._registry, (), [store], step=processor, at=at)
        if any(spec.name == store for spec in node.connected):
            return
        uses = uses_of([*self._registry.stores_of(node), added], step=processor)
        self._registry.replace(replace(node, **uses))

    def _parents(self, name: str, parents: Iterable[str], *, at: Origin) -> tuple[str, ...]:
        """Return the steps that a new one reads; parts of a processor's step are added."""
        if not parents:
            msg = f"step {name!r} reads no other step"
            raise UnknownStepError(
                msg,
                at=at,
                why="no records would ever reach it",
                fix="name the steps that it reads, after the supplier or the topic",
                fields={"step": name},
            )
        steps: list[str] = []
        for parent in parents:
            if parent in self._parts:
                part = self._parts[parent]()
                self._types[part.name] = part.serdes
                steps.append(part.name)
                continue
            if isinstance(self._step(parent, at=at), SinkNode):
                msg = f"step {name!r} cannot read {parent!r}, which is a sink"
                raise UnknownStepError(
                    msg,
                    at=at,
                    why="what a sink has written can only be read from its topic",
                    fix="name a step before the sink, or read its topic with add_source",
                    fields={"step": name, "parent": parent},
                )
            steps.append(parent)
        return tuple(steps)

    def _step(self, name: str, *, at: Origin) -> Any:
        found = next((node for node in self._registry.nodes if node.name == name), None)
        if found is None:
            known = [*(node.name for node in self._registry.nodes), *self._parts]
            names = ", ".join(dict.fromkeys(known)) or "none"
            msg = f"there is no step {name!r}"
            raise UnknownStepError(
                msg,
                evidence={"steps": names},
                at=at,
                why="a step is added before others read it",
                fix="add it first, or correct the name",
                fields={"step": name},
            )
        return found

    def _serdes_of(self, parents: Iterable[str]) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        """Return the serdes of the input, if they are known and all the same."""
        keys, values = zip(*(self._types_of(parent) for parent in parents), strict=True)
        return (
            keys[0] if all(key == keys[0] for key in keys) else None,
            values[0] if all(value == values[0] for value in values) else None,
        )

    def _types_of(self, step: str) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        node = self._registry.node(step)
        if isinstance(node, SourceNode):
            return node.key or BytesSerde(), node.value or BytesSerde()
        return self._types.get(step, (None, None))
