"""Aggregations of one or several grouped streams into a table by key and window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mustela.api.window_specs import (
    SessionWindowSpec,
    TimeWindowSpec,
    UnlimitedWindowSpec,
    WindowEmit,
    WindowSpec,
)
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.aggregate import AggregateKind
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["WindowAggregateNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAggregateNode(Node):
    """Fold the records of each key and window into one value.

    A node may have several parents, like a cogroup: then ``kind`` is ``aggregate`` and ``adders``
    has one function for each parent, in their order; records of all parents are folded in merged
    order into the same windows. All parents' records travel by ``key``.

    Attributes:
        kind: What the fold is.
        windows: Which windows a record belongs to.
        store: Where the table lives.
        key: Serde of the grouping key; None takes the typed default (`mustela.serdes.values`).
        window_key: Serde of the windowed keys of the results.
        initializer: For ``aggregate``: called without arguments for a first value.
        adders: ``reduce``: one of (aggregate, value); ``aggregate``: one of (key, value,
            aggregate) for each parent; ``count``: none.
        merger: ``aggregate``: (key, left, right): merges two sessions that meet, and allows
            combining before the shuffle for time windows.
        associative: ``reduce``: the adder is associative, so partial results may be combined.
        emit: When changes are passed on.
        headers: Where the headers of each window's last record are kept until it closes; None if
            results do not carry them.
        explicit_store: Whether the user named the store, by ``store=`` or by the step's ``name=``.
    """

    kind: AggregateKind
    windows: WindowSpec
    store: StoreSpec
    window_key: Serde[Any]
    key: Serde[Any] | None = None
    initializer: Callable[[], Any] | None = None
    adders: tuple[Callable[..., Any], ...] = ()
    merger: Callable[[Any, Any, Any], Any] | None = None
    associative: bool = False
    emit: WindowEmit = "update"
    headers: StoreSpec | None = None
    explicit_store: bool = False

    @property
    def adder(self) -> Callable[..., Any] | None:
        """The function that adds a record, if there is only one."""
        return self.adders[0] if len(self.adders) == 1 else None

    @property
    def combinable(self) -> bool:
        """Whether partial results may be made anywhere and merged later."""
        windows = self.windows
        if not isinstance(windows, TimeWindowSpec) or len(self.parents) > 1:
            return False
        if windows.size_ms % windows.advance_ms:
            return False  # records of a slice between two starts differ in their windows
        if self.kind == "reduce":
            return self.associative
        return self.kind == "count" or self.merger is not None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The table's store, and that of the headers."""
        return (self.store,) if self.headers is None else (self.store, self.headers)

    @property
    def operation(self) -> str:
        """What the fold is."""
        return self.kind

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """The rows of both stores are windows; one store holds only headers."""
        key = self.key or store.key_serde
        meaning = store_meaning(store, owner=self.name, operation=self.operation, key=key)
        if self.headers is not None and store.name == self.headers.name:
            meaning = packed_meaning(meaning, "headers")
        grace_ms = -1 if isinstance(self.windows, UnlimitedWindowSpec) else self.windows.grace_ms
        return replace(meaning, window=self.windows.kept_as, grace_ms=grace_ms)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records travel to the lane of their key, which is also that of its windows."""
        return (Arrival(key=self.key or ValueSerde(sort_keys=True)),) * len(self.parents)

    @property
    def changes_keys(self) -> bool:
        """A key becomes a windowed key."""
        return True

    @property
    def keyed_by(self) -> Serde[Any]:
        """The serde by whose bytes results are in the lane of their key."""
        return self.window_key

    @property
    def acts_on_time(self) -> bool:
        """With ``emit=close`` windows are passed on when they close."""
        return self.emit == "close"

    @property
    def drops_late(self) -> bool:
        """A record of windows that are closed is late."""
        return True

    @property
    def lag_ms(self) -> int:
        """How far behind event time this step may stamp rows."""
        return self.windows.lag_ms if self.emit == "close" else 0

    @property
    def is_session(self) -> bool:
        """Whether windows grow with their records."""
        return isinstance(self.windows, SessionWindowSpec)
