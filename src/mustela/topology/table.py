"""Steps on tables: each reads and gives changes (new value, old value)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node

__all__ = ["StreamToTableNode", "TableFilterNode", "TableMapValuesNode", "TableToStreamNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamToTableNode(Node):
    """Records of a stream as a table: the newest value of each key; a null value deletes.

    Attributes:
        key: Serde of the keys; None takes the typed default (`mustela.serdes.values`).
        value: Serde of the values, if it is known.
        store: The table's store; None if nobody needs the table's old values.
        explicit_store: Whether the user named the store.
    """

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    store: StoreSpec | None = None
    explicit_store: bool = False

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The table's store, if it has one."""
        return () if self.store is None else (self.store,)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records travel to the lane of their key."""
        return (Arrival(key=self.key or ValueSerde(sort_keys=True)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilterNode(Node):
    """Rows for which ``predicate(key, value)`` holds; a row that no longer matches is deleted."""

    predicate: Callable[[Any, Any], Any]
    negate: bool = False
    store: StoreSpec | None = None
    explicit_store: bool = False

    @property
    def passes_old(self) -> bool:
        """The result's old values follow from the table's."""
        return True

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The result's store, if it has one."""
        return () if self.store is None else (self.store,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMapValuesNode(Node):
    """``mapper(value)``, or ``mapper(key, value)`` if ``with_key``.

    Deletions pass through, unless ``with_nulls``: then the mapper is called for them too, and the
    result has a store, because a row without a value may have a result there.
    """

    mapper: Callable[..., Any]
    with_key: bool = False
    with_nulls: bool = False
    store: StoreSpec | None = None
    explicit_store: bool = False

    @property
    def passes_old(self) -> bool:
        """The result's old values follow from the table's."""
        return True

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The result's store, if it has one."""
        return () if self.store is None else (self.store,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToStreamNode(Node):
    """The new value of each change as a record; deletions become null values.

    Attributes:
        mapper: Optional (key, value) -> new key.
    """

    mapper: Callable[[Any, Any], Any] | None = None

    @property
    def changes_keys(self) -> bool:
        """A mapper gives a new key."""
        return self.mapper is not None
