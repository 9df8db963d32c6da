"""Where a topology begins: topics read as streams and as tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Self, TypeVar, overload
from zoneinfo import ZoneInfo

from mustela.api.handlers import read_on_error
from mustela.api.names import check_name
from mustela.api.options import (
    Consumed,
    Materialized,
    options_or,
)
from mustela.api.origin import user_origin
from mustela.api.processor import ProcessorSupplier
from mustela.api.processor_wrapper import ProcessorWrapper
from mustela.api.schedule import CatchUp
from mustela.api.scheduled import Tick
from mustela.api.serdes import choose, choose_serde
from mustela.api.stores import StoreBuilder
from mustela.dsl.global_stores import GlobalStoreOptions, add_global_store
from mustela.dsl.globalktable import GlobalKTable, add_global_table
from mustela.dsl.handles import Handles
from mustela.dsl.kstream import KStream
from mustela.dsl.ktable import KTable
from mustela.dsl.materialize import KEY_VALUE_KINDS, store_spec
from mustela.dsl.missing import VerbStage
from mustela.dsl.registry import NodePlace, Registry
from mustela.dsl.scheduled import CatchUpWord, add_scheduled, schedule_of
from mustela.dsl.sources import (
    checked_extractor,
    event_time_options,
    reading_start,
    source_node,
    topic_names,
)
from mustela.dsl.suppliers import add_store_builder
from mustela.dsl.topology_builder import Topology
from mustela.model import Record
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.topology.source import TableSourceNode

__all__ = ["StreamsBuilder"]

K = TypeVar("K")
V = TypeVar("V")


class StreamsBuilder(VerbStage):
    """Collects the steps of an application, beginning with the topics it reads.

    Args:
        processor_wrapper: Wraps the suppliers of the program's processors; see `ProcessorWrapper`.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> lines = builder.stream("lines", key=str, value=str)
        >>> words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
        >>> words.count(store="counts").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("lines").pipe_input("page 1", "hello hello")
        ...     driver.create_output_topic("counts").read_key_values_to_map()
        {'hello': 2}
    """

    def __init__(self, *, processor_wrapper: ProcessorWrapper | None = None) -> None:
        self._registry = Registry(Handles, processor_wrapper)

    @overload
    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        consumed: Consumed[Any, Any] | None = None,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        name: str | None = None,
    ) -> KStream[K, V]: ...
    @overload
    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        consumed: None = None,
        *,
        key: type[K] | Serde[K],
        value: None = None,
        name: str | None = None,
    ) -> KStream[K, bytes]: ...
    @overload
    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        consumed: None = None,
        *,
        key: None = None,
        value: type[V] | Serde[V],
        name: str | None = None,
    ) -> KStream[bytes, V]: ...
    @overload
    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        consumed: Consumed[K, V],
        *,
        key: None = None,
        value: None = None,
        name: str | None = None,
    ) -> KStream[K, V]: ...
    @overload
    def stream(
        self, topics: str | Sequence[str] | re.Pattern[str], *, name: str | None = None
    ) -> KStream[bytes, bytes]: ...
    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        consumed: Consumed[Any, Any] | None = None,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """Read one or several topics as a stream of records.

        A topic that is read twice in the same way is one source with two readers.

        Args:
            topics: A topic, a list of topics, or a compiled regular expression: all topics with
                names that it matches in full, including those created while the application runs.
                It matches neither the application's internal topics nor the topic for its dead
                letters: a letter that fails again would be written for ever.
            key: Type or serde of the keys; bytes if not given.
            value: Type or serde of the values; bytes if not given.
            name: Step name; the topics' names if not given.
            consumed: These options, where to begin and the time of records, as one object.

        Returns:
            The stream.

        Raises:
            SourceConflictError: If a topic is already read in another way.
            BadNameError: If a topic's name, or ``name``, breaks Kafka's rule for names.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> clicks = builder.stream(["clicks.eu", "clicks.us"], key=str, value=dict)
        """
        at = user_origin()
        options = options_or(consumed, Consumed[Any, Any](), at=at)
        node = source_node(topics, key=key, value=value, name=name, options=options, at=at)
        source = self._registry.add_source(node)
        return self._registry.handles.stream(
            source.name, source.key or BytesSerde(), source.value or BytesSerde()
        )

    @overload
    def table(
        self,
        topic: str,
        consumed: Consumed[Any, Any] | None = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V]: ...
    @overload
    def table(
        self,
        topic: str,
        consumed: Consumed[K, V],
        materialized: Materialized[Any, Any] | None = None,
        *,
        key: None = None,
        value: None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V]: ...
    def table(  # noqa: PLR0913 - the common options of two option objects as keywords
        self,
        topic: str,
        consumed: Consumed[Any, Any] | None = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[Any, Any]:
        """Read a topic as a table: the newest value of each key; a null value deletes.

        Records without a key are dropped. The table has a store if the table or the store is named
        here, or if a later step needs the values that are replaced.

        Args:
            topic: The topic.
            key: Type or serde of the keys.
            value: Type or serde of the values.
            name: Step name, and the store's name if ``store`` is not given.
            store: Name of the store.
            consumed: Serdes, name and where to begin, as one object.
            materialized: Options of the store.

        Returns:
            The table.

        Raises:
            SourceConflictError: If the topic is already read in another way.
            DuplicateStoreError: If another step has a store of that name.
            BadNameError: If a name breaks Kafka's rule for names.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=int, store="prices")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("prices").pipe_input("apple", 3)
            ...     driver.get_key_value_store("prices").get("apple")
            3
        """
        at = user_origin()
        options = options_or(consumed, Consumed[Any, Any](), at=at)
        names = topic_names(topic, at=at)
        said = choose("name", name, options.name, holder="Consumed", at=at)
        place = NodePlace(
            name=names[0] if said is None else check_name(said, what="step", at=at),
            parents=(),
            origin=at,
            explicit_name=said is not None,
        )
        stored = options_or(materialized, Materialized[Any, Any](), at=at)
        key_serde = choose_serde("key", key, options.key, holder="Consumed", at=at)
        value_serde = choose_serde("value", value, options.value, holder="Consumed", at=at)
        key_serde = choose_serde("key", key_serde, stored.key, holder="Materialized", at=at)
        value_serde = choose_serde("value", value_serde, stored.value, holder="Materialized", at=at)
        spec, explicit = store_spec(
            place,
            stored,
            store=store,
            key=key_serde or BytesSerde(),
            value=value_serde or BytesSerde(),
            kinds=KEY_VALUE_KINDS,
        )
        place["on_error"] = read_on_error(options.on_error, verb="table", at=at)
        node = TableSourceNode(
            **place,
            topic=names[0],
            key=spec.key_serde,
            value=spec.value_serde,
            store=spec if explicit or spec.ttl_ms is not None else None,
            explicit_store=explicit,
            auto_offset_reset=reading_start(options, at=at),
            timestamp_extractor=checked_extractor(options, at=at),
            **event_time_options(options, at=at),
        )
        source = self._registry.add_source(node)
        return self._registry.handles.table(source.name, source.key, source.value)

    @overload
    def global_table(
        self,
        topic: str,
        consumed: Consumed[Any, Any] | None = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        name: str | None = None,
        store: str | None = None,
    ) -> GlobalKTable[K, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        consumed: Consumed[Any, Any] | None = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        key: type[K] | Serde[K],
        value: None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> GlobalKTable[K, bytes]: ...
    @overload
    def global_table(
        self,
        topic: str,
        consumed: Consumed[K, V],
        materialized: Materialized[Any, Any] | None = None,
        *,
        key: None = None,
        value: None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> GlobalKTable[K, V]: ...
    def global_table(  # noqa: PLR0913 - the common options of two option objects as keywords
        self,
        topic: str,
        consumed: Consumed[Any, Any] | None = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        store: str | None = None,
    ) -> GlobalKTable[Any, Any]:
        """Read a topic as a table of which every host has a full copy.

        A stream is joined with it by any key, and no records travel for that. The topic is read to
        its end before the first record is joined, and followed from then on; changes of the table
        do not produce results by themselves.

        Args:
            topic: The topic; preferably a compacted one.
            key: Type or serde of the keys; bytes if not given.
            value: Type or serde of the values; bytes if not given.
            name: Step name; the topic's name if not given.
            store: Name of the store; the step's name if not given.
            consumed: Serdes and name as one object.
            materialized: Options of the store.

        Returns:
            The global table.

        Raises:
            SourceConflictError: If the topic is already a global table with other options.
            DuplicateNameError: If another step has the name; the topic's name is taken if the topic
                is read as a stream too.
            BadOptionError: If the table would be versioned.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> rates = builder.global_table("rates", key=str, value=float)
            >>> sales = builder.stream("sales", key=str, value=float)
            >>> in_euro = sales.join(
            ...     rates,
            ...     lambda amount, rate: amount * rate,
            ...     foreign_key_with_key=lambda currency, _amount: currency,
            ...     value=float,
            ... )
            >>> in_euro.to("euros")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("rates").pipe_input("USD", 0.5)
            ...     driver.create_input_topic("sales").pipe_input("USD", 10.0)
            ...     driver.create_output_topic("euros").read_value()
            5.0
        """
        return add_global_table(
            self._registry,
            topic,
            key=key,
            value=value,
            name=name,
            store=store,
            consumed=consumed,
            materialized=materialized,
            at=user_origin(),
        )

    def scheduled(  # noqa: PLR0913 - two kinds of schedule and the options of a stream
        self,
        name: str,
        function: Callable[[Tick], Iterable[tuple[K, V] | Record[K, V]] | None],
        *,
        every: timedelta | None = None,
        offset: timedelta | None = None,
        cron: str | None = None,
        time_zone: str | ZoneInfo | None = None,
        catch_up: CatchUp | CatchUpWord = "all",
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        stores: Sequence[str] = (),
    ) -> KStream[K, V]:
        """Begin a stream with a function that is called on a schedule.

        The function's records are emitted in the transaction of the epoch that remembers the tick:
        in a crash no tick is lost, and none counts twice, although the function itself may be
        called again. The first tick is the schedule's first moment after the first start.

        Args:
            name: Step name; the last tick is remembered under it.
            function: Called with a `Tick`; returns pairs of key and value, whose records have the
                tick's time, or `Record` objects with their own time and headers; nothing, or None,
                for no records.
            every: Tick at all multiples of this since 1970-01-01 UTC.
            offset: Moves these ticks, by less than ``every``.
            cron: Tick at the times of this expression: minute, hour, day of the month, month and
                day of the week, with the second before them if there are six fields.
            time_zone: The time zone of ``cron``, such as ``"Europe/Berlin"``; UTC if not given.
            catch_up: What happens to ticks that were missed while the application was down: ``all``
                handles each, ``last`` handles only the last one, ``none`` skips them; or a
                `CatchUp`.
            key: Type or serde of the keys.
            value: Type or serde of the values.
            stores: Names of stores of other steps that the function reads: see `Tick.store`.

        Returns:
            The stream.

        Raises:
            BadOptionError: If an option is invalid, or the schedule is given twice or not at all.
            DuplicateNameError: If another step has the name.
            FunctionError: If the function cannot be called with a tick.
            UnknownStoreError: By `build`, if a store that is read does not exist.
            StoreAccessError: By `build`, if it cannot be read: a global table or a buffer.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> beats = builder.scheduled(
            ...     "beat", lambda tick: [("beat", tick.time.isoformat())], every=timedelta(hours=1)
            ... )
            >>> beats.to("beats", key=str, value=str)
            >>> with TopologyTestDriver(builder.build(), initial_wall_clock=0) as driver:
            ...     driver.advance_wall_clock_time(timedelta(hours=1))
            ...     driver.create_output_topic("beats").read_key_values_to_list()
            [('beat', '1970-01-01T01:00:00+00:00')]
        """
        at = user_origin()
        node = add_scheduled(
            self._registry,
            name,
            function,
            schedule=schedule_of(every=every, offset=offset, cron=cron, time_zone=time_zone, at=at),
            catch_up=catch_up,
            key=key,
            value=value,
            stores=stores,
            at=at,
        )
        return self._registry.handles.stream(node.name, node.key, node.value)

    def add_state_store(self, store: StoreBuilder) -> Self:
        """Add a store that processors may use by its name.

        Args:
            store: A builder from `Stores`.

        Returns:
            This builder.

        Raises:
            DuplicateStoreError: If another store has the name.

        Example:
            >>> from mustela import Stores, StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> seen = Stores.persistent_key_value_store("seen")
            >>> seen = Stores.key_value_store_builder(seen, key=str, value=int)
            >>> builder.add_state_store(seen) is builder
            True
        """
        add_store_builder(self._registry, store, verb="add_state_store", at=user_origin())
        return self

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

        The processor gets the topic's records in the order of each partition, before any record
        that may need them is processed; it writes the store, and forwards nothing. Every processor
        may read the store by its name. A host that starts fresh, or that stops while it reads,
        gives its processor some records again: the result must not depend on how often a record is
        processed.

        Args:
            store: A builder from `Stores`; the store has no changelog, because the topic is one.
            topic: The topic; preferably a compacted one.
            supplier: Makes the processor that writes the store; the store need not be connected.
            name: The step's name; the topic's if not given.
            consumed: Types of the topic's records.

        Returns:
            This builder.

        Raises:
            DuplicateStoreError: If another store has the name.
            DuplicateNameError: If the step's name is taken.
            FunctionError: If the supplier returns no processor, or the same one twice.

        Example:
            >>> from mustela import Consumed, Stores, StreamsBuilder
            >>> from mustela.processors import ContextualProcessor
            >>> from mustela import TopologyTestDriver
            >>> class Keep(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.state_store("rates").put(record.key.lower(), record.value)
            >>> class Convert(ContextualProcessor):
            ...     def process(self, record):
            ...         rate = self.context.state_store("rates").get(record.key)
            ...         self.context.forward(record.with_value(record.value * rate))
            >>> rates = Stores.persistent_key_value_store("rates")
            >>> rates = Stores.key_value_store_builder(rates, key=str, value=float)
            >>> builder = StreamsBuilder()
            >>> builder = builder.add_global_store(
            ...     rates, "rates", Keep, consumed=Consumed(key=str, value=float)
            ... )
            >>> sales = builder.stream("sales", key=str, value=float)
            >>> sales.process(Convert).to("euros", key=str, value=float)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("rates").pipe_input("USD", 0.5)
            ...     driver.create_input_topic("sales").pipe_input("usd", 10.0)
            ...     driver.create_output_topic("euros").read_value()
            5.0
        """
        options = GlobalStoreOptions(name=name, consumed=consumed)
        add_global_store(self._registry, store, topic, supplier, options, at=user_origin())
        return self

    def build(self) -> Topology:
        """Return the topology written so far; further steps can be added to it by name.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> builder.stream("lines").to("copies")
            >>> [node.name for node in builder.build()]
            ['lines', 'lines.to.copies']
        """
        self._registry.topology()
        return Topology(self._registry.copy())
