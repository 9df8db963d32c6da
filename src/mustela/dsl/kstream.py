"""A stream of records, and the steps that can follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function, function_name
from mustela.api.given_types import Part, read_serde
from mustela.api.handlers import OnError, read_on_error
from mustela.api.names import check_name, path_name
from mustela.api.options import Grouped, Partitioner, Produced, options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose, choose_serde
from mustela.dsl.async_calls import AsyncCalls
from mustela.dsl.distinct import Distinct
from mustela.dsl.grouped import KGroupedStream
from mustela.dsl.handle import Handle
from mustela.dsl.processing import Processing
from mustela.dsl.registry import NodePlace
from mustela.dsl.routing import Routing
from mustela.dsl.serdes import said_or_read, serde_to_write
from mustela.dsl.stream_joins import StreamJoins
from mustela.dsl.transact import TransactVerb
from mustela.errors import Origin
from mustela.model import RecordContext
from mustela.serdes.base import Serde
from mustela.serdes.primitives import StrSerde
from mustela.topology.fold_cells import all_together
from mustela.topology.sink import SinkNode
from mustela.topology.stateless import (
    FilterNode,
    FlatMapNode,
    FlatMapValuesNode,
    ForeachNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    SelectKeyNode,
)

__all__ = ["KStream"]

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
W = TypeVar("W")

_VALUE = ("value",)
_KEY_VALUE = ("key", "value")
_KEY_VALUE_CONTEXT = ("key", "value", "context")
_ROLES = {
    "filter": "predicate",
    "filter_not": "predicate",
    "foreach": "action",
    "peek": "action",
}


class KStream(
    StreamJoins[K, V],
    Routing[K, V],
    Processing[K, V],
    TransactVerb[K, V],
    AsyncCalls[K, V],
    Distinct[K, V],
    Handle[K, V],
):
    """A stream of records with keys of type K and values of type V.

    Each method adds a step and returns its result. The stream itself never changes and can be used
    any number of times. User functions run in Spark's Python workers, so they must be picklable
    (lambdas are), and any other state that they change stays in one worker.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=dict)
        >>> paid = orders.filter(lambda _id, order: order["paid"])
        >>> paid.map_values(lambda order: order["total"], value=int).to("totals")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     order = driver.create_input_topic("orders")
        ...     order.pipe_input("o-1", {"paid": True, "total": 30})
        ...     order.pipe_input("o-2", {"paid": False, "total": 7})
        ...     driver.create_output_topic("totals").read_key_values_to_map()
        {'o-1': 30}
    """

    def map(
        self,
        mapper: Callable[[K, V], tuple[K2, W]],
        *,
        key: type[K2] | Serde[K2] | None = None,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, W]:
        """Replace each record's key and value; timestamp and headers stay the same.

        The key may change, so a later grouping or join sends records to the lane of their new key.
        Use `map_values` if the key does not change.

        Args:
            mapper: Called with key and value; returns the new key and the new value as a pair.
            key: Type or serde of the new keys; what the mapper's annotation says if not given.
            value: Type or serde of the new values; likewise.
            name: Step name in `describe()`, metrics and error messages; made from the step's
                place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of new records.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> ages = builder.stream("ages", key=str, value=int)
            >>> ages.map(lambda person, age: (age, person)).to("persons", key=int, value=str)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("ages").pipe_input("ann", 41)
            ...     driver.create_output_topic("persons").read_key_values_to_map()
            {41: 'ann'}
        """
        place = self._place("map", name, mapper, _KEY_VALUE, on_error)
        self._registry.add(MapNode(**place, mapper=mapper))
        step, at = place["name"], place["origin"]
        keys = said_or_read("key", key, mapper, "key", step=step, at=at)
        values = said_or_read("value", value, mapper, "value", step=step, at=at)
        return self._registry.handles.stream(step, keys, values)

    def map_values(
        self,
        mapper: Callable[[V], W],
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, W]:
        """Replace each value; keys, timestamps and headers stay the same.

        The key cannot change, so no records travel at a later grouping or join because of this
        step. Use `map` if the key must change too.

        Args:
            mapper: Called with the value, which may be None.
            value: Type or serde of the new values; what the mapper's annotation says if not given.
            name: Step name in `describe()`, metrics and error messages; made from the step's
                place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of new values.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=dict)
            >>> totals = orders.map_values(lambda order: order["total"], name="totals")
            >>> totals.to("totals", value=int)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("orders").pipe_input("o-1", {"total": 30})
            ...     driver.create_output_topic("totals").read_values_to_list()
            [30]
        """
        place = self._place("map_values", name, mapper, _VALUE, on_error)
        self._registry.add(MapValuesNode(**place, mapper=mapper))
        return self._of_values(place, value, mapper)

    def map_values_with_key(
        self,
        mapper: Callable[[K, V], W],
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, W]:
        """Replace each value by a function of key and value; see `map_values`.

        Args:
            mapper: Called with key and value. It must not change the key.
            value: Type or serde of the new values; what the mapper's annotation says if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of new values.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> ages = builder.stream("ages", key=str, value=int)
            >>> texts = ages.map_values_with_key(lambda person, age: f"{person} is {age}")
            >>> texts.to("texts", value=str)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("ages").pipe_input("ann", 41)
            ...     driver.create_output_topic("texts").read_values_to_list()
            ['ann is 41']
        """
        place = self._place("map_values_with_key", name, mapper, _KEY_VALUE, on_error)
        self._registry.add(MapValuesNode(**place, mapper=mapper, with_key=True))
        return self._of_values(place, value, mapper)

    def flat_map(
        self,
        mapper: Callable[[K, V], Iterable[tuple[K2, W]]],
        *,
        key: type[K2] | Serde[K2] | None = None,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, W]:
        """Replace each record by any number of records; timestamp and headers are the record's.

        The keys may change, so a later grouping or join sends records to the lane of their new key.
        Use `flat_map_values` if the key does not change.

        Args:
            mapper: Called with key and value; returns or yields pairs of key and value.
            key: Type or serde of the new keys; what the mapper's annotation says if not given.
            value: Type or serde of the new values; likewise.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of new records, in the order in which the mapper returned them.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> follows = builder.stream("follows", key=str, value=str)
            >>> both = follows.flat_map(lambda who, whom: [(who, "follows"), (whom, "followed")])
            >>> both.to("seen", key=str, value=str)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("follows").pipe_input("ann", "bob")
            ...     driver.create_output_topic("seen").read_key_values_to_map()
            {'ann': 'follows', 'bob': 'followed'}
        """
        place = self._place("flat_map", name, mapper, _KEY_VALUE, on_error)
        self._registry.add(FlatMapNode(**place, mapper=mapper))
        step, at = place["name"], place["origin"]
        keys = said_or_read("key", key, mapper, "each_key", step=step, at=at)
        values = said_or_read("value", value, mapper, "each_value", step=step, at=at)
        return self._registry.handles.stream(step, keys, values)

    def flat_map_values(
        self,
        mapper: Callable[[V], Iterable[W]],
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, W]:
        """Replace each value by any number of values, each with the record's key and timestamp.

        Args:
            mapper: Called with the value, which may be None; returns or yields values.
            value: Type or serde of each new value; what the mapper's annotation says if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of new values, in the order in which the mapper returned them.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> lines = builder.stream("lines", key=str, value=str)
            >>> lines.flat_map_values(str.split).to("words", value=str)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("lines").pipe_input("page 1", "to be or")
            ...     driver.create_output_topic("words").read_values_to_list()
            ['to', 'be', 'or']
        """
        place = self._place("flat_map_values", name, mapper, _VALUE, on_error)
        self._registry.add(FlatMapValuesNode(**place, mapper=mapper))
        return self._of_values(place, value, mapper, "each")

    def flat_map_values_with_key(
        self,
        mapper: Callable[[K, V], Iterable[W]],
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, W]:
        """Replace each value by any number of values, from key and value.

        Args:
            mapper: Called with key and value; returns or yields values. It must not change
                the key.
            value: Type or serde of each new value; what the mapper's annotation says if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of new values, in the order in which the mapper returned them.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder
            >>> pages = StreamsBuilder().stream("pages", key=str, value=str)
            >>> lines = pages.flat_map_values_with_key(
            ...     lambda page, text: [f"{page}: {line}" for line in text.splitlines()]
            ... )
        """
        place = self._place("flat_map_values_with_key", name, mapper, _KEY_VALUE, on_error)
        self._registry.add(FlatMapValuesNode(**place, mapper=mapper, with_key=True))
        return self._of_values(place, value, mapper, "each")

    def filter(
        self,
        predicate: Callable[[K, V], object],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Keep the records for which the predicate is true.

        Args:
            predicate: Called with key and value, of which each may be None.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of matching records.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the predicate cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str)
            >>> words.filter(lambda _key, word: len(word) > 3).to("long")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     word = driver.create_input_topic("words")
            ...     word.pipe_input("a", "sun")
            ...     word.pipe_input("b", "moon")
            ...     driver.create_output_topic("long").read_values_to_list()
            ['moon']
        """
        place = self._place("filter", name, predicate, _KEY_VALUE, on_error)
        self._registry.add(FilterNode(**place, predicate=predicate))
        return self._registry.handles.stream(place["name"], self._key, self._value)

    def filter_not(
        self,
        predicate: Callable[[K, V], object],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Keep the records for which the predicate is false.

        Args:
            predicate: Called with key and value, of which each may be None.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of records that do not match.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the predicate cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder
            >>> words = StreamsBuilder().stream("words", key=str, value=str)
            >>> filled = words.filter_not(lambda _key, word: word is None)
        """
        place = self._place("filter_not", name, predicate, _KEY_VALUE, on_error)
        self._registry.add(FilterNode(**place, predicate=predicate, negate=True))
        return self._registry.handles.stream(place["name"], self._key, self._value)

    def select_key(
        self,
        mapper: Callable[[K, V], K2],
        *,
        key: type[K2] | Serde[K2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V]:
        """Give each record a new key; the value stays.

        A later grouping or join sends records to the lane of their new key.

        Args:
            mapper: Called with key and value; returns the new key.
            key: Type or serde of the new keys; what the mapper's annotation says if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream with new keys.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=dict)
            >>> orders.select_key(lambda _id, order: order["user"], key=str).to("by-user")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("orders").pipe_input("o-1", {"user": "ann"})
            ...     driver.create_output_topic("by-user").read_key_values_to_map()
            {'ann': {'user': 'ann'}}
        """
        place = self._place("select_key", name, mapper, _KEY_VALUE, on_error)
        self._registry.add(SelectKeyNode(**place, mapper=mapper))
        step, at = place["name"], place["origin"]
        keys = said_or_read("key", key, mapper, step=step, at=at)
        return self._registry.handles.stream(step, keys, self._value)

    def peek(
        self,
        action: Callable[[K, V], object],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Call a function for each record and pass the record on unchanged.

        External effects of the action are not part of the transaction: they may happen again when
        an epoch is run again.

        Args:
            action: Called with key and value; what it returns is ignored.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The same records.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the action cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str)
            >>> words.peek(lambda key, word: print(key, word)).to("copies")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("words").pipe_input("a", "sun")
            a sun
        """
        place = self._place("peek", name, action, _KEY_VALUE, on_error)
        self._registry.add(PeekNode(**place, action=action))
        return self._registry.handles.stream(place["name"], self._key, self._value)

    def foreach(
        self,
        action: Callable[[K, V], object],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Call a function for each record; no records are passed on.

        External effects of the action are not part of the transaction: they may happen again when
        an epoch is run again.

        Args:
            action: Called with key and value; what it returns is ignored.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the action cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> builder.stream("words", key=str, value=str).foreach(print)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("words").pipe_input("a", "sun")
            a sun
        """
        place = self._place("foreach", name, action, _KEY_VALUE, on_error)
        self._registry.add(ForeachNode(**place, action=action))

    def merge(self, *others: KStream[K2, V2], name: str | None = None) -> KStream[K | K2, V | V2]:
        """Merge the records of several streams into one.

        Args:
            others: The other streams, of the same builder.
            name: Step name; made from the step's place if not given.

        Returns:
            The records of all streams. Those of one stream stay in order. A later step that works
            by key sees those of all streams in order of time, as far as they are available.

        Raises:
            OtherBuilderError: If another stream comes from another builder.
            DuplicateNameError: If another step already has this name.
            BadOptionError: If there is no other stream.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> europe = builder.stream("orders.eu", key=str, value=int)
            >>> america = builder.stream("orders.us", key=str, value=int)
            >>> europe.merge(america).to("orders")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("orders.us").pipe_input("o-1", 30)
            ...     driver.create_input_topic("orders.eu").pipe_input("o-2", 40)
            ...     driver.create_output_topic("orders").read_values_to_list()
            [30, 40]
        """
        at = user_origin()
        if not others:
            msg = f"there is nothing to merge with {self._name!r}"
            raise BadOptionError(
                msg, at=at, fix="name the other streams: stream.merge(second, third)"
            )
        streams: list[KStream[Any, Any]] = [self, *others]
        for other in others:
            self._check_builder(other, verb="merge", at=at)
            _check_is_stream(self._name, other, at=at)
        place = self._registry.place(
            "merge",
            parents=tuple(stream._name for stream in streams),
            at=at,
            name=name,
            apart=others[0]._name,
        )
        keys = [stream._key for stream in streams]
        values = [stream._value for stream in streams]
        key = keys[0] if all(serde == keys[0] for serde in keys) else None
        value = values[0] if all(serde == values[0] for serde in values) else None
        self._registry.add(MergeNode(**place, key=key))
        return self._registry.handles.stream(place["name"], key, value)

    def group_by(
        self,
        mapper: Callable[[K, V], K2],
        grouped: Grouped[K2, V] | None = None,
        *,
        key: type[K2] | Serde[K2] | None = None,
        value: type[V] | Serde[V] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KGroupedStream[K2, V]:
        """Group the records by a new key: `select_key` and `group_by_key` in one step.

        Args:
            mapper: Called with key and value; returns the key to group by.
            key: Type or serde of the new key; a serde that keeps Python's types if not given.
            value: Type or serde of the values; the stream's if not given.
            name: Step name; made from the step's place if not given.
            grouped: Serdes and name as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The grouped records, which can be counted, reduced or aggregated.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=dict)
            >>> by_user = orders.group_by(lambda _id, order: order["user"], key=str)
            >>> by_user.count(store="orders-by-user").to_stream().to("counts")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("orders").pipe_input("o-1", {"user": "ann"})
            ...     driver.create_output_topic("counts").read_key_values_to_map()
            {'ann': 1}
        """
        at = user_origin()
        options = options_or(grouped, Grouped[Any, Any](), at=at)
        said = choose("name", name, options.name, holder="Grouped", at=at)
        place = self._place("group_by", said, mapper, _KEY_VALUE, on_error)
        key_serde = choose_serde("key", key, options.key, holder="Grouped", at=at)
        value_serde = choose_serde("value", value, options.value, holder="Grouped", at=at)
        self._registry.add(SelectKeyNode(**place, mapper=mapper))
        step = place["name"]
        key_serde = key_serde or read_serde(mapper, key=True)
        return self._registry.handles.grouped(step, step, key_serde, value_serde or self._value)

    def group_all(
        self, *, value: type[V] | Serde[V] | None = None, name: str | None = None
    ) -> KGroupedStream[str, V]:
        """Group all records together, even those without a key, under the key ``all``.

        The fold runs in one lane. Counts, aggregates by name, and folds with a merger or
        ``associative=True`` are combined before records travel there, so that it gets one row from
        each task instead of every record; any other fold gets all records, one at a time.

        Args:
            value: Type or serde of the values; the stream's if not given.
            name: Step name; made from the step's place if not given.

        Returns:
            The grouped records, which can be counted, reduced or aggregated.

        Raises:
            DuplicateNameError: If another step already has this name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.aggregates import Sum
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=dict)
            >>> orders.group_all().aggregate(total=Sum("amount"), store="total").to_stream().to("t")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("orders").pipe_input("o-1", {"amount": 3})
            ...     driver.create_input_topic("orders").pipe_input("o-2", {"amount": 4})
            ...     driver.create_output_topic("t").read_key_values_to_map()
            {'all': Row(total=7)}
        """
        at = user_origin()
        value_serde = choose_serde("value", value, None, holder="Grouped", at=at)
        place = self._registry.place("group_all", parents=(self._name,), at=at, name=name)
        self._registry.add(SelectKeyNode(**place, mapper=all_together))
        step = place["name"]
        return self._registry.handles.grouped(step, step, StrSerde(), value_serde or self._value)

    def group_by_key(
        self,
        grouped: Grouped[K, V] | None = None,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K, V]:
        """Group the records by their present key.

        Records travel to the lane of their key only if they are not there already.

        Args:
            key: Type or serde of the key; the stream's if not given.
            value: Type or serde of the values; the stream's if not given.
            name: The beginning of the names of the following steps; the stream's name if not given.
            grouped: Serdes and name as one object.

        Returns:
            The grouped records, which can be counted, reduced or aggregated.

        Raises:
            BadNameError: If the name breaks the rule for names.

        Example:
            >>> from mustela import StreamsBuilder
            >>> clicks = StreamsBuilder().stream("clicks", key=str, value=str)
            >>> counts = clicks.group_by_key().count(store="clicks-by-user")
        """
        at = user_origin()
        options = options_or(grouped, Grouped[Any, Any](), at=at)
        said = choose("name", name, options.name, holder="Grouped", at=at)
        path = self._name if said is None else check_name(said, what="grouping", at=at)
        key_serde = choose_serde("key", key, options.key, holder="Grouped", at=at)
        value_serde = choose_serde("value", value, options.value, holder="Grouped", at=at)
        return self._registry.handles.grouped(
            self._name, path, key_serde or self._key, value_serde or self._value
        )

    def to(  # noqa: PLR0913 - the options of `Produced` as keywords
        self,
        topic: str | Callable[[K, V, RecordContext], str],
        produced: Produced[K, V] | None = None,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        name: str | None = None,
        partitioner: Partitioner | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Write the records to a topic.

        Args:
            topic: The topic, or a function of key, value and record context that returns the topic
                for each record.
            key: Type or serde of the keys; the stream's if not given.
            value: Type or serde of the values; the stream's if not given.
            name: Step name; made from the step's place and the topic if not given.
            partitioner: Called with topic, key, value and the number of partitions; returns a
                partition, or None for Kafka's own choice by key. A set of several partitions
                sends the record to each of them, an empty one drops it.
            produced: These options as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Raises:
            MissingSerdeError: If no serde is known for keys or values.
            BadNameError: If the topic's name, or ``name``, breaks Kafka's rule for names.
            DuplicateNameError: If another step already has this name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=int)
            >>> orders.to(lambda _id, total, _context: "large" if total > 99 else "small")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("orders").pipe_input("o-1", 120)
            ...     driver.create_output_topic("large", key=str, value=int).read_values_to_list()
            [120]
        """
        at = user_origin()
        options = options_or(produced, Produced[Any, Any](), at=at)
        said = choose("name", name, options.name, holder="Produced", at=at)
        chooser = choose("partitioner", partitioner, options.partitioner, holder="Produced", at=at)
        if chooser is not None:
            arguments = ("topic", "key", "value", "partitions")
            check_function(chooser, arguments, role="partitioner", verb="to", at=at)
        handler = choose("on_error", on_error, options.on_error, holder="Produced", at=at)
        on_failure = read_on_error(handler, verb="to", at=at)
        place = self._sink_place(topic, said, at=at)
        place["on_error"] = on_failure
        key_serde = choose_serde("key", key, options.key, holder="Produced", at=at)
        value_serde = choose_serde("value", value, options.value, holder="Produced", at=at)
        find, step = self._registry.node, self._name
        self._registry.add(
            SinkNode(
                **place,
                topic=topic,
                key=serde_to_write("key", key_serde, self._key, find=find, step=step, at=at),
                value=serde_to_write(
                    "value", value_serde, self._value, find=find, step=step, at=at
                ),
                partitioner=chooser,
            )
        )

    def _of_values(
        self, place: NodePlace, said: Any, mapper: Callable[..., Any], part: Part = "all"
    ) -> KStream[K, Any]:
        """Return the stream of a step that changes values."""
        step = place["name"]
        value = said_or_read("value", said, mapper, part, step=step, at=place["origin"])
        return self._registry.handles.stream(step, self._key, value)

    def _place(
        self,
        verb: str,
        name: str | None,
        function: Callable[..., Any],
        arguments: tuple[str, ...],
        on_error: OnError | None = None,
    ) -> NodePlace:
        """Check a step's function and choose the step's name."""
        at = user_origin()
        role = _ROLES.get(verb, "mapper")
        check_function(function, arguments, role=role, verb=verb, at=at)
        handler = read_on_error(on_error, verb=verb, at=at)
        place = self._registry.place(
            verb, parents=(self._name,), at=at, name=name, apart=function_name(function)
        )
        place["on_error"] = handler
        return place

    def _sink_place(
        self, topic: str | Callable[..., str], name: str | None, *, at: Origin
    ) -> NodePlace:
        if isinstance(topic, str):
            check_name(topic, what="topic", at=at)
            verb = path_name("to", topic)
            return self._registry.place(verb, parents=(self._name,), at=at, name=name)
        check_function(topic, _KEY_VALUE_CONTEXT, role="topic name extractor", verb="to", at=at)
        return self._registry.place(
            "to", parents=(self._name,), at=at, name=name, apart=function_name(topic)
        )


def _check_is_stream(name: str, other: Handle[Any, Any], *, at: Origin) -> None:
    if isinstance(other, KStream):
        return
    kind = type(other).__name__
    msg = f"cannot merge {name!r} with {other.name!r}, which is a {kind}"
    raise BadOptionError(
        msg,
        at=at,
        why="merge combines the records of streams, and a table has rows",
        fix="read the topic with stream() or table()"
        if kind == "GlobalKTable"
        else "merge with the table's changes: table.to_stream()",
        fields={"verb": "merge", "other": kind},
    )
