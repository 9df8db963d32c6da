"""Aggregations of a grouped stream into a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Node

__all__ = ["AggregateKind", "AggregateNode"]

AggregateKind = Literal["count", "reduce", "aggregate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateNode(Node):
    """Fold the records of each key into one value.

    Attributes:
        kind: What the fold is.
        store: Where the table lives.
        key: Serde of the grouping key; None takes the typed default for values without a serde.
        initializer: For ``aggregate``: called without arguments for a key's first value.
        adder: ``reduce``: (aggregate, value); ``aggregate``: (key, value, aggregate).
        merger: ``aggregate``: (key, left, right), makes combining before the shuffle legal.
        associative: ``reduce``: the adder is associative, so partial results may be combined.
    """

    kind: AggregateKind
    store: StoreSpec
    key: Serde[Any] | None = None
    initializer: Callable[[], Any] | None = None
    adder: Callable[..., Any] | None = None
    merger: Callable[[Any, Any, Any], Any] | None = None
    associative: bool = False
