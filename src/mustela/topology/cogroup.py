"""Aggregations of several grouped streams into one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.serdes.values import ValueSerde
from mustela.topology.aggregate import AggregateNode
from mustela.topology.node import Arrival

__all__ = ["CogroupNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CogroupNode(AggregateNode):
    """Fold the records of each key, of all parents in merged order, into one value.

    Attributes:
        adders: For each parent (key, value, aggregate) -> aggregate, in their order.
    """

    adders: tuple[Callable[[Any, Any, Any], Any], ...]

    @property
    def combinable(self) -> bool:
        """False: what one stream adds may depend on what another has added before."""
        return False

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records of all parents travel to the lane of their key."""
        return (Arrival(key=self.key or ValueSerde(sort_keys=True)),) * len(self.parents)
