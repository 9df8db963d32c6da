"""Where a join finds the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.state.interfaces import StoreSpec
from mustela.topology.table import TableFilterNode, TableMapValuesNode

__all__ = ["TableLookup", "TableView"]

TableView = TableFilterNode | TableMapValuesNode
"""A step whose table is a function of the table before it, row by row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLookup:
    """Where a join finds a table's rows as they were before the changes that come to it.

    Attributes:
        store: The store that holds them.
        views: Steps between the store and the joined table, in order; what is looked up passes
            through their functions.
        own: Whether the store is the join's own. Then the join keeps there what it is told of the
            table, because the table itself lives in an earlier stage or has no store.
    """

    store: StoreSpec
    views: tuple[TableView, ...] = ()
    own: bool = True
