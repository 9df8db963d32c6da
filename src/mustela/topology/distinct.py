"""Streams from which repetitions within a span of time are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, store_meaning

__all__ = ["DistinctKeysNode", "DistinctNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctKeysNode(Node):
    """Gives each record what identifies it as its key; key and value go along as a pair.

    Attributes:
        chooser: (key, value) -> what identifies the record; None: it equals no other record.
    """

    chooser: Callable[[Any, Any], Any]

    @property
    def changes_keys(self) -> bool:
        """The pair is on its way to the lane of what was chosen."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctNode(Node):
    """Leaves out records that were already seen within a span of time.

    Attributes:
        within_ms: How far apart two records may be and still count as the same, in both directions.
        grace_ms: How much longer a record is remembered, for records that come late.
        store: When records were passed on: windows of their keys, by start.
        chosen: Whether records come as pairs of key and value, under what a `DistinctKeysNode`
            chose.
        explicit_store: Whether the user named the store, by ``store=`` or by the step's ``name=``.
    """

    within_ms: int
    grace_ms: int
    store: StoreSpec
    chosen: bool = False
    explicit_store: bool = False

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The store of what was passed on."""
        return (self.store,)

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """Each row covers a span of time that begins with a record."""
        meaning = store_meaning(store, owner=self.name, operation=self.operation)
        told = f"distinct within {self.within_ms} ms"
        return replace(meaning, window=told, grace_ms=self.grace_ms)

    @property
    def operation(self) -> str:
        """What it does."""
        return "distinct"

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records travel to the lane of what identifies them, also those without it.

        They come in merged order: the first of two records is passed on.
        """
        key = self.store.key_serde or ValueSerde(sort_keys=True)
        return (Arrival(key=key, keep_null_keys=True),)

    @property
    def changes_keys(self) -> bool:
        """Pairs become records with their own keys again."""
        return self.chosen

    @property
    def drops_late(self) -> bool:
        """A record that is older than what is remembered is late."""
        return True

    @property
    def told(self) -> str:
        """What it does, in words.

        Example:
            >>> from mustela.state.interfaces import StoreSpec
            >>> store = StoreSpec(name="seen", kind="window")
            >>> DistinctNode(name="once", within_ms=60_000, grace_ms=0, store=store).told
            'within 60000 ms, grace 0 ms'
        """
        return f"within {self.within_ms} ms, grace {self.grace_ms} ms"
