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
    """``mapper(key, value)`` gives group and value of each row, of the new one and of the old one.

    What goes on are changes by group: one that takes the old value away and adds the new one where
    a row stays in its group, else one that takes away and one that adds, in this order.

    Attributes:
        mapper: (key, value) -> (group, value); None, or None for either, leaves the row out.
        key: Serde of the groups, by whose bytes they are told apart; None takes the typed default.
    """

    mapper: Callable[[Any, Any], Any]
    key: Serde[Any] | None = None

    @property
    def changes_keys(self) -> bool:
        """The mapper gives a new key."""
        return True

    @property
    def asks_old(self) -> tuple[bool, ...]:
        """What a row was decides which group it leaves."""
        return (True,)
