"""The rows of a table, grouped by something other than their key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.serdes.base import Serde
from mustela.topology.node import Node

__all__ = ["TableGroupNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGroupNode(Node):
    """``mapper(key, value)`` gives a row's group and value, for its new and for its old value.

    Its output consists of changes by group: one that subtracts the old value and adds the new one
    if a row stays in its group, otherwise one that subtracts and one that adds, in this order.

    Attributes:
        mapper: (key, value) -> (group, value); None, or None for either, leaves the row out.
        key: Serde of the groups, which are compared by its bytes; None takes the typed default.
    """

    mapper: Callable[[Any, Any], Any]
    key: Serde[Any] | None = None

    @property
    def changes_keys(self) -> bool:
        """The mapper gives a new key."""
        return True

    @property
    def asks_old(self) -> tuple[bool, ...]:
        """A row's old value decides which group it leaves."""
        return (True,)
