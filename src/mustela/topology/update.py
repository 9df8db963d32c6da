"""Changes to keys of other lanes: they travel to the lane of their key, and are made there."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node

__all__ = ["UpdateNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNode(Node):
    """Makes the changes that processors have sent to a store, in the order of their records.

    Attributes:
        store: The store; no other step uses it.
        explicit_store: Whether the user named the store.
    """

    store: StoreSpec
    explicit_store: bool = True

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The store."""
        return (self.store,)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Changes travel to the lane of the key that they change."""
        arrival = Arrival(key=self.store.key_serde or ValueSerde(sort_keys=True))
        return (arrival,) * len(self.parents)

    @property
    def changes_keys(self) -> bool:
        """Replies have their own keys."""
        return True
