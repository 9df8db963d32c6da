"""Tables that every host has whole, and the join of a stream with one."""

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

    No step of the plan makes it: engines follow the topic themselves, before records are joined.

    Attributes:
        topic: The topic.
        key: Serde of the keys.
        value: Serde of the values.
        store: What the copies are called, and how rows are laid out; it has no changelog, because
            the topic is one.
        explicit_store: Whether the user named the store.
        supplier: Gives the processor that writes the copies; None where rows are the records.
        plain: Whether a window store shows values without their times.
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
    """Each record of a stream with a row of a global table, wherever the record is.

    Attributes:
        key_mapper: (key, value), or (value) if ``by_value``, -> key of the row, or None.
        joiner: (value, row), or (key, value, row) if ``with_key``, with the record's own key.
        table: Store of the global table.
        kind: Whether records without a row are dropped.
        with_key: Whether the joiner is given the key.
        by_value: Whether the value alone says the key of the row.
    """

    key_mapper: Callable[..., Any]
    joiner: Callable[..., Any]
    table: StoreSpec
    kind: Literal["inner", "left"] = "inner"
    with_key: bool = False
    by_value: bool = False
