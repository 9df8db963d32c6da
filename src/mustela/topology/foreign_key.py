"""Joins of a table with a table by a foreign key, in three steps.

The lane of a left row says to which right row it belongs now; the lane of that right row keeps this
and finds the pairs; the lane of the left row joins them. All this happens in one epoch, and pairs
are put back into the order of the changes that made them, so no answer is ever stale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from mustela.serdes.base import Serde
from mustela.serdes.meaning import serde_format, serde_shape
from mustela.serdes.primitives import BytesSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, store_meaning
from mustela.topology.table_lookup import TableLookup

__all__ = ["ForeignKeyJoinNode", "ForeignKeyKind", "ForeignKeyMatchNode", "ForeignKeySubscribeNode"]

ForeignKeyKind = Literal["inner", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKeySubscribeNode(Node):
    """Says for each changed left row to which right row it belongs now, and did before.

    Its records have the bytes of the foreign key as their key.

    Attributes:
        extractor: (value), or (key, value) if ``with_key``, -> foreign key or None.
        kind: Which rows the result has.
        key: Serde of the left keys.
        value: Serde of the left values.
        foreign_key: Serde of the right keys.
        with_key: Whether the extractor takes the left key too.
    """

    extractor: Callable[..., Any]
    kind: ForeignKeyKind
    key: Serde[Any]
    value: Serde[Any]
    foreign_key: Serde[Any]
    with_key: bool = False

    @property
    def changes_keys(self) -> bool:
        """A left key becomes a foreign key."""
        return True

    @property
    def asks_old(self) -> tuple[bool, ...]:
        """A row's old value says to which right row it belonged."""
        return (True,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKeyMatchNode(Node):
    """Finds the pairs of left and right rows that a change of either side makes.

    The parents are the left side's subscriptions and the right table. Its records are pairs of
    encoded values by left key.

    Attributes:
        key: Serde of the left keys.
        foreign_key: Serde of the right keys.
        subscriptions: Holds the left values by foreign key and left key.
        rows: The join's own copy of the right rows, if they cannot be looked up where the
            subscriptions are.
        subscribed: Serde of the left values.
        explicit_store: Whether the names of the stores derive from one that the user gave.
        table: Where right rows are looked up, if not in `rows`; the planner finds that out.
    """

    key: Serde[Any]
    foreign_key: Serde[Any]
    subscriptions: StoreSpec
    rows: StoreSpec
    subscribed: Serde[Any]
    explicit_store: bool = False
    table: TableLookup | None = None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The subscriptions, and the right rows where they had to be copied."""
        return (self.subscriptions, self.rows) if self.table is None else (self.subscriptions,)

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """Subscriptions have left values by foreign key and left key."""
        if store.name != self.subscriptions.name:
            return store_meaning(store, owner=self.name, operation=self.operation)
        meaning = store_meaning(
            store, owner=self.name, operation=self.operation, value=self.subscribed
        )
        keys = (self.foreign_key, self.key)
        formats, shapes = map(serde_format, keys), [serde_shape(key) or "null" for key in keys]
        shape = "" if shapes == ["null", "null"] else f'["holds",{",".join(shapes)}]'
        return replace(meaning, key=f"subscription({', '.join(formats)})", key_shape=shape)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Both sides travel to the lane of the right key."""
        return Arrival(key=BytesSerde()), Arrival(key=self.foreign_key)

    @property
    def changes_keys(self) -> bool:
        """A foreign key becomes a left key again."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKeyJoinNode(Node):
    """Joins pairs of values into the rows of the result.

    Attributes:
        joiner: (left value, right value or None) -> value.
        kind: Which rows the result has.
        key: Serde of the left keys, which are the result's.
        left: Serde of the left values.
        right: Serde of the right values.
        value: Serde of the result's values, if it is known.
        store: The result's store; None if nobody needs its old values.
        explicit_store: Whether the user named the store.
    """

    joiner: Callable[[Any, Any], Any]
    kind: ForeignKeyKind
    key: Serde[Any]
    left: Serde[Any]
    right: Serde[Any]
    value: Serde[Any] | None = None
    store: StoreSpec | None = None
    explicit_store: bool = False

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The result's store, if it has one."""
        return () if self.store is None else (self.store,)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Pairs travel back to the lane of their left key."""
        return (Arrival(key=self.key),)
