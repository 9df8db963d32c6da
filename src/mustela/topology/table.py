"""Steps on tables: each reads changes (new value, old value) and gives changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Node

__all__ = ["TableFilterNode", "TableMapValuesNode", "TableToStreamNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilterNode(Node):
    """Rows for which ``predicate(key, value)`` holds; a row that stops to hold is deleted."""

    predicate: Callable[[Any, Any], Any]
    negate: bool = False
    store: StoreSpec | None = None
    explicit_store: bool = False

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The result's store, if it has one."""
        return () if self.store is None else (self.store,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMapValuesNode(Node):
    """``mapper(value)``, or ``mapper(key, value)`` if ``with_key``; deletions pass through."""

    mapper: Callable[..., Any]
    with_key: bool = False
    store: StoreSpec | None = None
    explicit_store: bool = False

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
