"""Where a join finds the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.state.interfaces import StoreSpec
from mustela.topology.table import TableFilterNode, TableMapValuesNode

__all__ = ["TableLookup", "TableView"]

TableView = TableFilterNode | TableMapValuesNode
"""A step whose table is a row-by-row function of the table before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLookup:
    """Where a join finds a table's rows as they were before the changes that reach it.

    Attributes:
        store: The store that holds them.
        views: Steps between the store and the joined table, in order; rows that are looked up pass
            through their functions.
        own: Whether the store is the join's own copy, which it keeps because the table itself lives
            in an earlier stage or has no store.
    """

    store: StoreSpec
    views: tuple[TableView, ...] = ()
    own: bool = True
