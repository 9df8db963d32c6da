"""Joins of a table with a table, by key or by foreign key."""

from __future__ import annotations

from typing import TypeVar

from mustela.dsl.handle import Handle

__all__ = ["TableJoins"]

K = TypeVar("K")
V = TypeVar("V")


class TableJoins(Handle[K, V]):
    """The joins of `KTable`."""
