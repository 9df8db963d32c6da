"""The join of two streams over a window of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from mustela.api.window_specs import JoinSpans, JoinWindowSpec
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["StreamJoinKind", "StreamJoinNode"]

StreamJoinKind = Literal["inner", "left", "outer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoinNode(Node):
    """Joins each left record with each right record of the same key within a window of time.

    The parents are the left and the right stream, in this order; they may be the same.

    Attributes:
        kind: Whether records without a partner are results too: on neither, one or both sides.
        joiner: (left, right), or (key, left, right) if ``with_key``.
        window: Which records are partners; with ``spans``, the widest window of any left record.
        key: Serde of the keys, by which both sides are brought together; None takes the typed
            default.
        left: Where records of the left side are kept.
        right: Where those of the right side are kept.
        unmatched: Where records wait that have no partner yet, for a left or outer join.
        with_key: Whether the joiner is given the key.
        single_store: Whether both sides are one stream, whose records need be kept only once.
        spans: Gives the window of each left record; None if all have the same.
        explicit_store: Whether the user named the stores, by ``store=`` or by ``name=``.
    """

    kind: StreamJoinKind
    joiner: Callable[..., Any]
    window: JoinWindowSpec
    left: StoreSpec
    right: StoreSpec
    unmatched: StoreSpec | None = None
    key: Serde[Any] | None = None
    with_key: bool = False
    single_store: bool = False
    spans: JoinSpans | None = None
    explicit_store: bool = False

    @property
    def outer_sides(self) -> tuple[bool, bool]:
        """Whether records of the left and of the right side are results without a partner."""
        return self.kind != "inner", self.kind == "outer"

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """Where records are kept, and those without a partner."""
        sides = (self.left,) if self.single_store else (self.left, self.right)
        return sides if self.unmatched is None else (*sides, self.unmatched)

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """Records are kept for partners within the window; those that wait are of either side."""
        meaning = store_meaning(store, owner=self.name, operation=f"{self.kind} join", key=self.key)
        if self.unmatched is not None and store.name == self.unmatched.name:
            sides = (self.left.value_serde, self.right.value_serde)
            meaning = packed_meaning(meaning, "waiting", *sides)
        elif self.spans is not None and store.name == self.left.name:
            meaning = packed_meaning(meaning, "spanned", self.left.value_serde)
        window = self.window.kept_as + (", by record" if self.spans is not None else "")
        return replace(meaning, window=window, grace_ms=self.window.grace_ms)

    @property
    def acts_on_time(self) -> bool:
        """Records without a partner are results when their window closes."""
        return self.unmatched is not None

    @property
    def lag_ms(self) -> int:
        """A record without a partner becomes a result after the close of its window."""
        return 0 if self.unmatched is None else self.window.lag_ms

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Both sides travel to the lane of their key.

        If records can be results without a partner, those without a key come too, even from a side
        that drops them: they advance the time.
        """
        arrival = Arrival(
            key=self.key or ValueSerde(sort_keys=True), keep_null_keys=self.kind != "inner"
        )
        return arrival, arrival
