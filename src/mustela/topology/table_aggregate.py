"""Aggregations of a table that was grouped anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.topology.aggregate import AggregateNode

__all__ = ["TableAggregateNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregateNode(AggregateNode):
    """Fold the rows of each group: what a row was is taken away, what it is now is added.

    Attributes:
        subtractor: ``reduce``: (aggregate, old value); ``aggregate``: (key, old value, aggregate);
            None for ``count``.
    """

    subtractor: Callable[..., Any] | None = None

    @property
    def combinable(self) -> bool:
        """False: a value is taken away only where a result is there already."""
        return False
