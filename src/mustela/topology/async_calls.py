"""Calls to external services: a slow function, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from mustela.api.calls import AsyncOptions
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["AsyncNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncNode(Node):
    """Call an external service for each record; calls unfinished in an epoch are parked.

    Attributes:
        function: What is called: a coroutine function or a plain one.
        rules: How it is called.
        parking: Where records wait.
        ordered: As in the rules; it decides what is stored.
        key: Serde of the keys; None takes the typed default (`mustela.serdes.values`).
        value: Serde of the incoming values; None takes the typed default.
        with_call: Whether the function has a parameter for its call.
        gives: A new value for the record, or any number of records.
        with_key: Whether a function that gives a value takes key and value.
        result: Serde of the value that it gives; None takes the typed default.
    """

    function: Callable[..., Any]
    rules: AsyncOptions = field(default_factory=AsyncOptions)
    parking: StoreSpec
    ordered: bool = True
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    with_call: bool = False
    gives: Literal["value", "records"] = "value"
    with_key: bool = False
    result: Serde[Any] | None = None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The parking store."""
        return (self.parking,)

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """Records wait, those of each key in their order if the rules say so."""
        plain = store_meaning(store, owner=self.name, operation="calls", key=self.key)
        meaning = packed_meaning(plain, "parked", self.value or store.value_serde)
        return replace(meaning, window="in order of each key" if self.ordered else "in any order")

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records wait in the lane of their key, those without a key too."""
        return (Arrival(key=self.key or ValueSerde(sort_keys=True), keep_null_keys=True),)

    @property
    def changes_keys(self) -> bool:
        """Records that a call gives may have other keys."""
        return self.gives == "records"

    @property
    def writes_letters(self) -> bool:
        """A record whose call failed may become a dead letter."""
        return self.rules.on_failure == "dead_letter"

    @property
    def acts_on_time(self) -> bool:
        """Parked records go on when their results arrive."""
        return True

    @property
    def lag_ms(self) -> int:
        """How far behind event time results may be stamped, as the user says."""
        return self.rules.event_time_lag // timedelta(milliseconds=1)
