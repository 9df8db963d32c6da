"""A table grouped anew, so that its rows can be aggregated."""

from __future__ import annotations

from typing import TypeVar

from mustela.dsl.handle import Handle

__all__ = ["TableGrouping"]

K = TypeVar("K")
V = TypeVar("V")


class TableGrouping(Handle[K, V]):
    """What `KTable` can do to be aggregated: group_by."""
