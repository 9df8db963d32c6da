"""Tables of which every host has a full copy, and the join of a stream with one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Node

__all__ = ["GlobalJoinNode", "GlobalTableNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTableNode(Node):
    """One topic as a table of which each host keeps a copy.

    No step of the plan makes it: engines read the topic themselves, before records are joined.

    Attributes:
        topic: The topic.
        key: Serde of the keys.
        value: Serde of the values.
        store: The name of the copies and the layout of their rows; it has no changelog, because the
            topic is one.
        explicit_store: Whether the user named the store.
        supplier: Makes the processor that writes the copies; None if rows are the records.
        plain: Whether a window store shows values without their timestamps.
    """

    topic: str
    key: Serde[Any]
    value: Serde[Any]
    store: StoreSpec
    explicit_store: bool = False
    supplier: Any = None
    plain: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic, as sources name theirs."""
        return (self.topic,)

    def matches(self, topic: str) -> bool:
        """Return whether this is the table's topic."""
        return topic == self.topic

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The copies' store."""
        return (self.store,)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalJoinNode(Node):
    """Joins each record of a stream with a row of a global table, wherever the record is.

    Attributes:
        key_mapper: (key, value), or (value) if ``by_value``, -> key of the row, or None.
        joiner: (value, row), or (key, value, row) if ``with_key``, with the record's own key.
        table: Store of the global table.
        kind: Whether records without a row are dropped.
        with_key: Whether the joiner is given the key.
        by_value: Whether the value alone gives the key of the row.
    """

    key_mapper: Callable[..., Any]
    joiner: Callable[..., Any]
    table: StoreSpec
    kind: Literal["inner", "left"] = "inner"
    with_key: bool = False
    by_value: bool = False
