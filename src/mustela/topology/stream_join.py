"""The join of two streams over a window of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["JoinSpans", "JoinWindowSpec", "StreamJoinKind", "StreamJoinNode"]

StreamJoinKind = Literal["inner", "left", "outer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindowSpec:
    """Which records of the right side a record of the left side meets.

    Attributes:
        before_ms: How much older than the left record a right one may be; negative if it must be
            younger.
        after_ms: How much younger it may be; negative if it must be older.
        grace_ms: How long behind the end of its window a record without a partner waits for one.

    Example:
        >>> JoinWindowSpec(before_ms=5, after_ms=20, grace_ms=1).retention_ms
        26
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    @property
    def size_ms(self) -> int:
        """From the oldest to the youngest right record that a left one may meet."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """How long Kafka Streams keeps a record, by the time of its own side."""
        return self.size_ms + self.grace_ms

    @property
    def kept_ms(self) -> int:
        """How long a record is kept, by the time of both sides: until nobody can meet it."""
        return max(self.size_ms, self.before_ms, self.after_ms) + self.grace_ms

    @property
    def segment_ms(self) -> int:
        """Length of the spans of time in which records are kept, and dropped together.

        A longer one means fewer rows to look for, a shorter one less to keep behind its time.
        """
        return max(self.kept_ms, min(4 * self.kept_ms, 60_000), 1_000)

    @property
    def block_ms(self) -> int:
        """Length of the longest span of time that a row of what waits covers."""
        return self.segment_ms // 16

    @property
    def kept_as(self) -> str:
        """Which partners the rows of a store are for; recorded with the store."""
        return f"partners up to {self.before_ms} ms before and {self.after_ms} ms after"

    @property
    def lag_ms(self) -> int:
        """How far behind the time of its closing a result may be stamped."""
        return max(self.before_ms, self.after_ms, 0) + self.grace_ms + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpans:
    """Functions that say the window of a left record; None where it is the widest.

    Attributes:
        before: Gives how much older a right record may be, as a timedelta.
        after: How much younger.
    """

    before: Callable[[Any], timedelta] | None = None
    after: Callable[[Any], timedelta] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoinNode(Node):
    """Each pair of a left and a right record of the same key within a window of time.

    The parents are the left and the right stream, in this order; they may be the same.

    Attributes:
        kind: Whether records without a partner are results too: of neither, one or both sides.
        joiner: (left, right), or (key, left, right) if ``with_key``.
        window: Which records are partners; with ``spans`` the widest that any left record has.
        key: Serde of the keys, by which both sides come together; None takes the typed default.
        left: Where records of the left side are kept.
        right: Where those of the right side are kept.
        unmatched: Where records wait that have no partner yet, for a left or outer join.
        with_key: Whether the joiner is given the key.
        single_store: Both sides are one stream, whose records need be kept only once.
        spans: What says the window of each left record; None where all have the same.
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
        """What is kept is for partners within the window; what waits is of either side."""
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
        """A record without a partner is a result behind the close of its window."""
        return 0 if self.unmatched is None else self.window.lag_ms

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Both sides travel to the lane of their key.

        Where records can be results without a partner, those without a key come too, also of a
        side that drops them: they tell the time.
        """
        arrival = Arrival(
            key=self.key or ValueSerde(sort_keys=True), keep_null_keys=self.kind != "inner"
        )
        return arrival, arrival
