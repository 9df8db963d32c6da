"""The join of a table with a table, by key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.table_lookup import TableLookup

__all__ = ["TableJoinKind", "TableJoinNode"]

TableJoinKind = Literal["inner", "left", "outer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoinNode(Node):
    """The rows of two tables that have the same key, as one table.

    The parents are the left and the right table.

    Attributes:
        joiner: (left value, right value) -> value; a missing side is None.
        kind: Which rows the result has.
        key: Serde of the keys, by which both sides are brought together.
        value: Serde of the result's values, if it is known.
        copies: For each side the join's own copy, if the side cannot be looked up where it is kept.
        store: The result's store; None if nobody needs its old values.
        explicit_store: Whether the user named the store.
        sides: Where the rows of each side are looked up; the planner finds that out.
        kept_ms: How long each side keeps its windows, from their start (a session: from its end);
            None if a side has none, or for ever.
        later: The side that is made in a later stage than the other one, 0 or 1; None if both are
            made in one stage. The planner finds that out too.
    """

    joiner: Callable[[Any, Any], Any]
    kind: TableJoinKind
    key: Serde[Any]
    copies: tuple[StoreSpec, StoreSpec]
    value: Serde[Any] | None = None
    store: StoreSpec | None = None
    explicit_store: bool = False
    sides: tuple[TableLookup, TableLookup] | None = None
    kept_ms: tuple[int, int] | None = None
    later: int | None = None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The result's store, and the copies of the sides."""
        result = () if self.store is None else (self.store,)
        return result + tuple(side.store for side in self.sides or () if side.own)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Changes of both sides travel to the lane of their key."""
        return Arrival(key=self.key), Arrival(key=self.key)

    @property
    def looks_up(self) -> tuple[bool, ...]:
        """The rows of both sides."""
        return True, True

    @property
    def passes_old(self) -> bool:
        """The result's old values follow from those of the sides."""
        return True
