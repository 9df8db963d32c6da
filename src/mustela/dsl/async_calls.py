"""Steps that call external services, databases and models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mustela.api.calls import AsyncOptions, RequestReply, takes_call
from mustela.api.functions import check_function, function_name
from mustela.api.names import STORE_NAME_LENGTH_MAX, check_name, path_name
from mustela.api.options import options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose_serde
from mustela.dsl.handle import Handle
from mustela.dsl.registry import NodePlace
from mustela.dsl.serdes import said_or_read, serde_to_write
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.async_calls import AsyncNode
from mustela.topology.request_reply import CorrelateNode, ReplyKeyNode, RequestReplyNode
from mustela.topology.sink import SinkNode
from mustela.topology.stateless import MapNode

if TYPE_CHECKING:
    from mustela.dsl.kstream import KStream

__all__ = ["AsyncCalls"]

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")
W = TypeVar("W")


class _Outgoing:
    """Makes the request of a record, with the correlation id as its key.

    Args:
        request: The user's function.
    """

    def __init__(self, request: Callable[[Any, Any], Any] | None) -> None:
        self._request = request

    def __call__(self, _name: str, pair: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return key and value of the request."""
        key, value = pair
        return key, value if self._request is None else self._request(key, value)


class AsyncCalls(Handle[K, V]):
    """What `KStream` can do with slow functions."""

    def map_values_async(
        self,
        function: Callable[..., Awaitable[W] | W],
        options: AsyncOptions | None = None,
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
    ) -> KStream[K, W]:
        """Replace each value by the result of an external call; keys and timestamps stay the same.

        Calls of different keys overlap, even with the application's epochs: an epoch waits a
        moment, then commits without the records whose calls are not finished. These are parked in a
        store with a changelog, later records of the same key wait behind them, and a later epoch
        passes on their results.

        Each record has exactly one result, even after a crash. But if the process of a call died,
        or its epoch failed, the call is made again: if that matters to the service, give
        ``function`` a parameter ``call`` and pass on its ``idempotency_key``.

        Args:
            function: A coroutine function, or a plain one, which runs in a thread. Called with the
                value, and with ``call=`` (`AsyncCall`) if it has a parameter of that name.
            options: Order, limits, retries, and what happens to failures.
            value: Type or serde of the function's results; Python's common types need none.
            name: Step name, and the beginning of the parking store's name; made from the step's
                place if not given.

        Returns:
            The stream of results. With ``ordered=True``, the results of a key are in the order of
            its records.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the function cannot be called with a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.calls import AsyncOptions, Retry
            >>> async def look_up(word: str) -> int:
            ...     return len(word)  # await a client's answer here
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str)
            >>> careful = AsyncOptions(retry=Retry(attempts=3))
            >>> words.map_values_async(look_up, careful, name="look-up").to("lengths", value=int)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("words").pipe_input("a", "hello")
            ...     driver.create_output_topic("lengths").read_key_values_to_list()
            [('a', 5)]
        """
        return self._map("map_values_async", function, options, value, name)

    def map_values_async_with_key(
        self,
        function: Callable[..., Awaitable[W] | W],
        options: AsyncOptions | None = None,
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
    ) -> KStream[K, W]:
        """Replace each value by the result of a call with key and value; see `map_values_async`.

        Args:
            function: Called with key and value, and with ``call=`` if it has such a parameter.
            options: Order, limits, retries, and what happens to failures.
            value: Type or serde of the function's results.
            name: Step name; made from the step's place if not given.

        Returns:
            The stream of results.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the function cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.calls import AsyncCall
            >>> def pay(account: str, amount: int, call: AsyncCall) -> str:
            ...     return f"{account} paid {amount}, attempt {call.attempt}"
            >>> builder = StreamsBuilder()
            >>> bills = builder.stream("bills", key=str, value=int)
            >>> bills.map_values_async_with_key(pay, name="pay").to("paid", value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("bills").pipe_input("ann", 7)
            ...     driver.create_output_topic("paid").read_values_to_list()
            ['ann paid 7, attempt 1']
        """
        return self._map("map_values_async_with_key", function, options, value, name)

    def process_async(
        self,
        function: Callable[..., Any],
        options: AsyncOptions | None = None,
        *,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """Replace each record by the records that a call returns; see `map_values_async`.

        Args:
            function: A coroutine function or a plain one. Called with the record (`Record`), and
                with ``call=`` if it has such a parameter. It returns nothing (None), a `Record`, or
                several: records, or pairs of key and value, which get the record's timestamp and
                headers. Keys and values are of Python's common types.
            options: Order, limits, retries, and what happens to failures.
            name: Step name; made from the step's place if not given.

        Returns:
            The stream of records. Their keys may be new, so a later grouping or join sends them to
            the lane of their key.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the function cannot be called with a record.

        Example:
            >>> from mustela import Record, StreamsBuilder, TopologyTestDriver
            >>> async def friends(record: Record[str, str]) -> list[tuple[str, str]]:
            ...     return [(friend, record.key) for friend in record.value.split()]
            >>> builder = StreamsBuilder()
            >>> people = builder.stream("people", key=str, value=str)
            >>> people.process_async(friends, name="friends").to("known-by", key=str, value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("people").pipe_input("ann", "bob eve")
            ...     driver.create_output_topic("known-by").read_key_values_to_list()
            [('bob', 'ann'), ('eve', 'ann')]
        """
        place, facts = self._call("process_async", ("record",), function, options, name)
        self._registry.add(AsyncNode(**place, **facts, gives="records"))
        return self._registry.handles.stream(place["name"], None, None)

    def request_reply(
        self,
        replies: KStream[Any, V2],
        joiner: Callable[[V, V2], W],
        options: RequestReply,
        *,
        request: Callable[[K, V], Any] | None = None,
        name: str | None = None,
    ) -> KStream[K, W]:
        """Send a request to a topic for each record, and join the record with the reply.

        Each record's request is written to the request topic, with a correlation id in a header,
        and the record is parked in a store with a changelog. A reply with the same header releases
        it, however much later, even after a restart. The requests of an epoch and the records that
        wait for replies are committed together: no request is made twice.

        Results are passed on as replies arrive, so those of a key need not be in order. A reply
        that arrives after its record has timed out, or for the second time, is dropped and counted.

        Args:
            replies: The stream of the replies; their keys do not matter.
            joiner: Called with the record's value and the reply's; returns the result.
            options: The request topic, the header, and how long to wait for a reply.
            request: Called with key and value; returns the value of the request. The record's own
                value if not given.
            name: Step name, and the beginning of the parking store's name; made from the step's
                place if not given.

        Returns:
            The stream of results, with the records' keys, timestamps and headers.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If a function cannot be called with what it gets.
            MissingSerdeError: If no serde is known for the requests.
            OtherBuilderError: If the replies come from another builder.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.calls import RequestReply
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=str)
            >>> prices = builder.stream("prices", key=bytes, value=int)
            >>> asking = RequestReply(topic="price-requests", timeout=timedelta(seconds=30))
            >>> priced = orders.request_reply(
            ...     prices, lambda item, price: f"{item} for {price}", asking, name="ask"
            ... )
            >>> priced.to("priced", key=str, value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("orders").pipe_input("o-1", "pear")
            ...     request = driver.create_output_topic("price-requests").read_record()
            ...     reply = driver.create_input_topic("prices")
            ...     reply.pipe_input(None, 7, headers=request.headers)
            ...     driver.create_output_topic("priced").read_key_values_to_list()
            [('o-1', 'pear for 7')]
        """
        at, verb = user_origin(), "request_reply"
        rules = options_or(options, RequestReply(topic="x", timeout=timedelta(1)), at=at)
        self._check_builder(replies, verb=verb, at=at)
        check_function(joiner, ("value", "reply"), role="joiner", verb=verb, at=at)
        if request is not None:
            check_function(request, ("key", "value"), role="request", verb=verb, at=at)
        if callable(rules.on_timeout):
            wanted = ("record", "error")
            check_function(rules.on_timeout, wanted, role="on_timeout", verb=verb, at=at)
        check_name(rules.topic, what="topic", at=at)
        place = self._registry.place(verb, parents=(self._name,), at=at, name=name)
        asked = self._registry.part(place, "correlate", self._name)
        self._registry.add(CorrelateNode(**asked, header=rules.header, step=place["name"]))
        self._send_requests(place, asked["name"], rules, request)
        told = self._registry.part(place, "replies", replies.name)
        self._registry.add(ReplyKeyNode(**told, header=rules.header))
        place["parents"] = (asked["name"], told["name"])
        self._registry.add(
            RequestReplyNode(
                **place,
                joiner=joiner,
                timeout_ms=rules.timeout // timedelta(milliseconds=1),
                rules=rules,
                parking=self._parking(place, "buffer"),
                key=self._key,
                value=self._value,
            )
        )
        return self._registry.handles.stream(place["name"], self._key, None)

    def _send_requests(
        self,
        place: NodePlace,
        correlated: str,
        rules: RequestReply,
        request: Callable[[K, V], Any] | None,
    ) -> None:
        """Write the requests: the records unchanged, or what the user makes of them."""
        at, outgoing = place["origin"], self._registry.part(place, "requests", correlated)
        self._registry.add(MapNode(**outgoing, mapper=_Outgoing(request)))
        said = [
            choose_serde(part, wish, None, holder="RequestReply", at=at)
            for part, wish in (("key", rules.key), ("value", rules.value))
        ]
        node, find = self._registry.node(outgoing["name"]), self._registry.node
        known = None if request is not None else self._value
        self._registry.add(
            SinkNode(
                **self._registry.part(place, "to", outgoing["name"]),
                topic=rules.topic,
                key=serde_to_write("key", said[0], self._key, find=find, step=self._name, at=at),
                value=serde_to_write(
                    "value",
                    said[1],
                    known,
                    find=find if request is None else lambda _name: node,
                    step=self._name,
                    at=at,
                ),
            )
        )

    def _parking(self, place: NodePlace, kind: str) -> StoreSpec:
        return StoreSpec(
            name=path_name(place["name"], "parked", length_max=STORE_NAME_LENGTH_MAX),
            kind=kind,
            key_serde=self._key or ValueSerde(sort_keys=True),
            value_serde=self._value or ValueSerde(),
        )

    def _map(
        self,
        verb: str,
        function: Callable[..., Any],
        options: AsyncOptions | None,
        value: Any,
        name: str | None,
    ) -> KStream[K, Any]:
        with_key = verb.endswith("_with_key")
        arguments = ("key", "value") if with_key else ("value",)
        place, facts = self._call(verb, arguments, function, options, name)
        at, step = place["origin"], place["name"]
        result = said_or_read("value", value, function, step=step, at=at)
        self._registry.add(AsyncNode(**place, **facts, with_key=with_key, result=result))
        return self._registry.handles.stream(place["name"], self._key, result)

    def _call(
        self,
        verb: str,
        arguments: tuple[str, ...],
        function: Callable[..., Any],
        options: AsyncOptions | None,
        name: str | None,
    ) -> tuple[NodePlace, dict[str, Any]]:
        """Check a step that makes calls; return its place and the fields of its node."""
        at = user_origin()
        rules = options_or(options, AsyncOptions(), at=at)
        with_call = callable(function) and takes_call(function)
        told = partial(function, call=None) if with_call else function
        check_function(told, arguments, role="function", verb=verb, at=at)
        if callable(rules.on_failure):
            wanted = ("record", "error")
            check_function(rules.on_failure, wanted, role="on_failure", verb=verb, at=at)
        place = self._registry.place(
            verb, parents=(self._name,), at=at, name=name, apart=function_name(function)
        )
        facts: dict[str, Any] = {
            "function": function,
            "rules": rules,
            "parking": self._parking(place, "parking"),
            "ordered": rules.ordered,
            "key": self._key,
            "value": self._value,
            "with_call": with_call,
        }
        return place, facts
