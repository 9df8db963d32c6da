"""The join of a stream with a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning
from mustela.topology.table_lookup import TableLookup

__all__ = ["StreamTableJoinKind", "StreamTableJoinNode"]

StreamTableJoinKind = Literal["inner", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTableJoinNode(Node):
    """Joins each record of a stream with the row of its key in a table at that moment.

    The parents are the stream and the table, in this order.

    Attributes:
        joiner: (value, row), or (key, value, row) if ``with_key``; the row is None if there is
            none.
        kind: Whether records without a row are dropped.
        with_key: Whether the joiner is given the key.
        key: Serde of the keys, by which both sides are brought together.
        copy: The join's own copy of the table, if the table cannot be looked up where it is kept.
        grace_ms: How long a record waits for older rows of a versioned table; None for not at all.
        buffer: Where records wait.
        explicit_store: Whether the user named the step, and with it its stores.
        table: Where rows are looked up; the planner finds that out.
    """

    joiner: Callable[..., Any]
    key: Serde[Any]
    copy: StoreSpec
    kind: StreamTableJoinKind = "inner"
    with_key: bool = False
    grace_ms: int | None = None
    buffer: StoreSpec | None = None
    explicit_store: bool = False
    table: TableLookup | None = None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The join's own stores: waiting records, and the table if it had to be copied."""
        waiting = () if self.buffer is None else (self.buffer,)
        copied = (self.table.store,) if self.table is not None and self.table.own else ()
        return waiting + copied

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """The copy has rows of the table, the buffer records that wait for them."""
        meaning = store_meaning(store, owner=self.name, operation=f"{self.kind} join", key=self.key)
        if self.buffer is None or store.name != self.buffer.name:
            return meaning
        waiting = packed_meaning(meaning, "waiting", store.value_serde)
        return replace(waiting, grace_ms=self.grace_ms or 0)

    @property
    def acts_on_time(self) -> bool:
        """Waiting records go on when time has passed."""
        return self.buffer is not None

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Both sides travel to the lane of their key; an outer side keeps records without one."""
        stream = Arrival(key=self.key, keep_null_keys=self.kind == "left")
        return stream, Arrival(key=self.key)

    @property
    def looks_up(self) -> tuple[bool, ...]:
        """The table's rows."""
        return False, True
