"""Aggregations of a grouped stream into a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node

__all__ = ["AggregateKind", "AggregateNode"]

AggregateKind = Literal["count", "reduce", "aggregate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateNode(Node):
    """Fold the records of each key into one value.

    Attributes:
        kind: What the fold is.
        store: Where the table is kept.
        key: Serde of the grouping key; None takes the typed default (`mustela.serdes.values`).
        initializer: For ``aggregate``: called without arguments for a key's first value.
        adder: ``reduce``: (aggregate, value); ``aggregate``: (key, value, aggregate).
        merger: ``aggregate``: (key, left, right); it allows combining before the shuffle.
        associative: ``reduce``: the adder is associative, so partial results may be combined.
        explicit_store: Whether the user named the store, by ``store=`` or by the step's ``name=``.
    """

    kind: AggregateKind
    store: StoreSpec
    key: Serde[Any] | None = None
    initializer: Callable[[], Any] | None = None
    adder: Callable[..., Any] | None = None
    merger: Callable[[Any, Any, Any], Any] | None = None
    associative: bool = False
    explicit_store: bool = False

    @property
    def operation(self) -> str:
        """What the fold is."""
        return self.kind

    @property
    def combinable(self) -> bool:
        """Whether partial results may be made anywhere and merged later."""
        if self.kind == "reduce":
            return self.associative
        return self.kind == "count" or self.merger is not None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The table's store."""
        return (self.store,)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records travel to the lane of their key."""
        return (Arrival(key=self.key or ValueSerde(sort_keys=True)),)
