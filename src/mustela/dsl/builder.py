"""Where a topology begins: topics read as streams and as tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Self, TypeVar, overload
from zoneinfo import ZoneInfo

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
        processor_wrapper: Wraps what gives the program's processors; see `ProcessorWrapper`.

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
        """Read one topic or several as a stream of records.

        A topic that is read twice in the same way is one source with two users.

        Args:
            topics: A topic, a list of topics, or a compiled regular expression: all topics whose
                whole name it matches, also those that are made while the application runs. It
                matches no topic that the application makes for itself, and not the one that its
                dead letters go to: a letter that fails again would be written for ever.
            key: Type or serde of the keys; bytes if not given.
            value: Type or serde of the values; bytes if not given.
            name: Step name; the topics' names if not given.
            consumed: All of this, where to begin, and what time records have, as one object.

        Returns:
            The stream.

        Raises:
            SourceConflictError: If a topic is read already, in another way.
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

        Records without a key are dropped. The table has a store if it, or its store, is named
        here, or if a step downstream needs to know the values that are replaced.

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
            SourceConflictError: If the topic is read already, in another way.
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
        """Read a topic as a table of which every host has a whole copy.

        A stream is joined with it by any key, without travelling to it. The topic is read to its
        end before the first record is joined, and followed from then on; its changes give no
        results by themselves.

        Args:
            topic: The topic; best a compacted one.
            key: Type or serde of the keys; bytes if not given.
            value: Type or serde of the values; bytes if not given.
            name: Step name; the topic's name if not given.
            store: Name of the store; the step's name if not given.
            consumed: Serdes and name as one object.
            materialized: Options of the store.

        Returns:
            The global table.

        Raises:
            SourceConflictError: If the topic is a global table already, made in another way.
            DuplicateNameError: If another step has the name; the topic's own is taken where the
                topic is read as a stream too.
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
        """Begin a stream with a function that is called by a schedule.

        What the function returns is emitted in the transaction of the epoch that remembers the
        tick: over a crash no tick is lost, and none counts twice. The function itself may then be
        called again. The first tick is the first moment of the schedule behind the first start.

        Args:
            name: Step name; the last tick is remembered under it.
            function: Called with a `Tick`; returns pairs of key and value, whose records have the
                tick's time, or `Record` objects with a time and headers of their own; nothing, or
                None, for no records.
            every: Tick at all multiples of this since 1970-01-01 UTC.
            offset: Moves these ticks, by less than ``every``.
            cron: Tick where this expression says: minute, hour, day of the month, month and day of
                the week, with the second before them if there are six fields.
            time_zone: By whose clock ``cron`` is read, such as ``"Europe/Berlin"``; UTC if not
                given.
            catch_up: What becomes of ticks that were missed while the application was down:
                ``all`` are handled, ``last`` handles the last one alone, ``none`` forgets them; or
                a `CatchUp`.
            key: Type or serde of the keys.
            value: Type or serde of the values.
            stores: Names of stores of other steps that the function reads: see `Tick.store`.

        Returns:
            The stream.

        Raises:
            BadOptionError: If an option cannot be what it is, or the schedule is told twice or not
                at all.
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
            store: What `Stores` builds.

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
        """Keep a store of which every host has all, written by a processor of one topic.

        The processor is given the topic's records in the order of each partition, before any
        record that may meet them is processed; it writes the store, and forwards nothing. Every
        processor may read the store by its name. A host that begins anew, or that stops while it
        reads, gives its processor some records again: what is written must not depend on how often
        it is.

        Args:
            store: What `Stores` builds; it has no changelog, because the topic is one.
            topic: The topic; best a compacted one.
            supplier: Gives the processor that writes the store; the store need not be connected.
            name: The step's name; the topic's if not given.
            consumed: Types of the topic's records.

        Returns:
            This builder.

        Raises:
            DuplicateStoreError: If another store has the name.
            DuplicateNameError: If the step's name is taken.
            FunctionError: If the supplier gives no processor, or the same one twice.

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
        """Return the topology as written so far; more steps can be added to it by name.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> builder.stream("lines").to("copies")
            >>> [node.name for node in builder.build()]
            ['lines', 'lines.to.copies']
        """
        self._registry.topology()
        return Topology(self._registry.copy())
