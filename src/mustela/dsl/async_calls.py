"""Steps that call the outside: services, databases, models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mustela.dsl.functions import check_function, function_name
from mustela.dsl.handle import Handle
from mustela.dsl.names import STORE_NAME_LENGTH_MAX, path_name
from mustela.dsl.options import options_or
from mustela.dsl.origin import user_origin
from mustela.dsl.registry import Place
from mustela.dsl.serdes import choose_serde
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.async_calls import (
    AsyncMapNode,
    AsyncOptions,
    AsyncProcessNode,
    takes_call,
)

if TYPE_CHECKING:
    from mustela.dsl.kstream import KStream

__all__ = ["AsyncCalls"]

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


class AsyncCalls(Handle[K, V]):
    """What `KStream` can do with functions that take their time."""

    def map_values_async(
        self,
        function: Callable[..., Awaitable[W] | W],
        options: AsyncOptions | None = None,
        *,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
    ) -> KStream[K, W]:
        """Replace each value by what a call to the outside gives; keys and timestamps stay.

        Calls of different keys overlap, also with the epochs of the application: an epoch waits a
        moment, then it commits without the records whose calls are not done. These are parked in
        a store with a changelog, later records of the same key wait behind them, and a later epoch
        lets their results go on.

        Each record has exactly one result, also over a crash. But a call whose process died, or
        whose epoch failed, is made again: let ``function`` have a parameter ``call`` and hand its
        ``idempotency_key`` to a service for which that matters.

        Args:
            function: A coroutine function, or a plain one, which runs in a thread. Called with the
                value, and with ``call=`` (`AsyncCall`) if it has a parameter of that name.
            options: Order, limits, retries, and what becomes of failures.
            value: Type or serde of what the function gives; Python's common types need none.
            name: Step name, and what the parking store's name begins with; made from the step's
                place if not given.

        Returns:
            The stream of results. With ``ordered=True`` those of a key are in the order of its
            records.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the function cannot be called with a value.

        Example:
            >>> from mustela import AsyncOptions, Retry, StreamsBuilder, TopologyTestDriver
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
        """Replace each value by what a call gives for key and value; see `map_values_async`.

        Args:
            function: Called with key and value, and with ``call=`` if it has such a parameter.
            options: Order, limits, retries, and what becomes of failures.
            value: Type or serde of what the function gives.
            name: Step name; made from the step's place if not given.

        Returns:
            The stream of results.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the function cannot be called with a key and a value.

        Example:
            >>> from mustela import AsyncCall, StreamsBuilder, TopologyTestDriver
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
        """Replace each record by the records that a call gives; see `map_values_async`.

        Args:
            function: A coroutine function or a plain one. Called with the record (`Record`), and
                with ``call=`` if it has such a parameter. It gives nothing (None), a `Record`, or
                several: records, or pairs of key and value, which have the record's timestamp and
                headers. Keys and values are of Python's common types.
            options: Order, limits, retries, and what becomes of failures.
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
        from mustela.dsl.kstream import KStream  # streams make streams, but not by themselves

        place, facts = self._call("process_async", ("record",), function, options, name)
        self._registry.add(AsyncProcessNode(**place, **facts))
        return KStream(self._registry, place["name"], None, None)

    def _map(
        self,
        verb: str,
        function: Callable[..., Any],
        options: AsyncOptions | None,
        value: Any,
        name: str | None,
    ) -> KStream[K, Any]:
        from mustela.dsl.kstream import KStream

        with_key = verb.endswith("_with_key")
        arguments = ("key", "value") if with_key else ("value",)
        place, facts = self._call(verb, arguments, function, options, name)
        result = choose_serde("value", value, None, holder="AsyncOptions", at=place["origin"])
        self._registry.add(AsyncMapNode(**place, **facts, with_key=with_key, result=result))
        return KStream(self._registry, place["name"], self._key, result)

    def _call(
        self,
        verb: str,
        arguments: tuple[str, ...],
        function: Callable[..., Any],
        options: AsyncOptions | None,
        name: str | None,
    ) -> tuple[Place, dict[str, Any]]:
        """Check a step that calls; return where it stands, and what its node says."""
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
        parking = StoreSpec(
            name=path_name(place["name"], "parked", length_max=STORE_NAME_LENGTH_MAX),
            kind="parking",
            key_serde=self._key or ValueSerde(sort_keys=True),
            value_serde=self._value or ValueSerde(),
        )
        facts: dict[str, Any] = {
            "function": function,
            "rules": rules,
            "parking": parking,
            "ordered": rules.ordered,
            "key": self._key,
            "value": self._value,
            "with_call": with_call,
        }
        return place, facts
