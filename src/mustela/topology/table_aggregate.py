"""Aggregations of a regrouped table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.topology.aggregate import AggregateNode

__all__ = ["TableAggregateNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregateNode(AggregateNode):
    """Fold the rows of each group: a row's old value is subtracted, its new value is added.

    Attributes:
        subtractor: ``reduce``: (aggregate, old value); ``aggregate``: (key, old value, aggregate);
            None for ``count``.
    """

    subtractor: Callable[..., Any] | None = None

    @property
    def combinable(self) -> bool:
        """False: a value is subtracted only where there is already a result."""
        return False
