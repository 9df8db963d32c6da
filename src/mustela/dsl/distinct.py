"""Streams without repetitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from mustela.api.functions import check_function, function_name
from mustela.api.given_types import read_serde
from mustela.api.handlers import OnError, read_on_error
from mustela.api.options import Materialized
from mustela.api.origin import user_origin
from mustela.api.spans import milliseconds
from mustela.dsl.handle import Handle
from mustela.dsl.materialize import store_spec
from mustela.dsl.registry import NodePlace
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BoolSerde
from mustela.topology.distinct import DistinctKeysNode, DistinctNode

if TYPE_CHECKING:
    from mustela.dsl.kstream import KStream

__all__ = ["Distinct"]

K = TypeVar("K")
V = TypeVar("V")

_NO_GRACE = timedelta(0)


class Distinct(Handle[K, V]):
    """What `KStream` can do with repeated records: distinct."""

    def distinct(
        self,
        *,
        within: timedelta,
        key: Callable[[K, V], object] | None = None,
        grace: timedelta = _NO_GRACE,
        store: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Drop records that are repeated within a span of event time.

        The first record of a key is passed on unchanged; another record of the same key is dropped
        if its timestamp is at most ``within`` before or after that of a record that was passed on.
        A dropped record extends nothing: the next one is compared only with records that were
        passed on. Records without a key are all passed on. Two keys are the same if their bytes
        are.

        Records that were passed on are remembered for ``within`` plus ``grace``, counted from their
        timestamps. A record that is older than that is passed on if no record like it is
        remembered, and is counted as ``late``; if its source has ``late=LatePolicy.DEAD_LETTER``,
        it becomes a dead letter.

        Args:
            within: How far apart records of a key may be and still count as the same; it must be
                positive. It has no default: a stream has no end, and what is remembered for ever
                grows for ever.
            key: Called with key and value; returns what identifies a record instead of its key,
                which it keeps: a field of the value, or a tuple of several. Records for which it
                returns None are passed on.
            grace: How much longer to remember, for records that come late.
            store: Name of the store of what was passed on; made from the step's name if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The records that are passed on. With ``key=`` they are in the lane of what it returned,
            so a later grouping or join sends them to the lane of their key.

        Raises:
            BadOptionError: If a span is not a timedelta or is negative, or ``within`` is zero.
            FunctionError: If ``key`` cannot be called with a key and a value.
            DuplicateNameError: If another step already has this name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=dict)
            >>> by_number = lambda _user, order: order["number"]
            >>> once = orders.distinct(within=timedelta(minutes=1), key=by_number, store="seen")
            >>> once.to("once")
            >>> with TopologyTestDriver(builder) as driver:
            ...     order = driver.create_input_topic("orders")
            ...     order.pipe_input("ann", {"number": 7}, timestamp=0)
            ...     order.pipe_input("bob", {"number": 7}, timestamp=60_000)
            ...     order.pipe_input("cid", {"number": 7}, timestamp=60_001)
            ...     driver.create_output_topic("once").read_key_values_to_list()
            [('ann', {'number': 7}), ('cid', {'number': 7})]
        """
        at = user_origin()
        within_ms = milliseconds("distinct", "within", within, at=at, sign="positive")
        grace_ms = milliseconds("distinct", "grace", grace, at=at)
        if key is not None:
            check_function(key, ("key", "value"), role="key", verb="distinct", at=at)
        apart = store or (None if key is None else function_name(key))
        place = self._registry.place(
            "distinct", parents=(self._name,), at=at, name=name, apart=apart
        )
        place["on_error"] = read_on_error(on_error, verb="distinct", at=at)
        serde = self._key
        if key is not None:
            serde = self._choose(place, key)
        spec, explicit = store_spec(
            place,
            Materialized[Any, Any](),
            store=store,
            key=serde,
            value=BoolSerde(),
            kinds=("window",),
        )
        self._registry.add(
            DistinctNode(
                **place,
                within_ms=within_ms,
                grace_ms=grace_ms,
                store=replace(
                    spec,
                    kind="window",
                    window_ms=within_ms,
                    retention_ms=within_ms + grace_ms,
                    indexed=True,
                ),
                chosen=key is not None,
                explicit_store=explicit,
            )
        )
        return self._registry.handles.stream(place["name"], self._key, self._value)

    def _choose(self, place: NodePlace, key: Callable[[K, V], object]) -> Serde[Any] | None:
        """Add the step that applies ``key`` before that of ``place``; return its results' serde."""
        before = self._registry.part(place, "key", *place["parents"])
        self._registry.add(DistinctKeysNode(**before, chooser=key))
        place["parents"] = (before["name"],)
        return read_serde(key, key=True)
