"""Joins of a stream with a stream, a table or a global table."""

from __future__ import annotations

from typing import TypeVar

from mustela.dsl.handle import Handle

__all__ = ["StreamJoins"]

K = TypeVar("K")
V = TypeVar("V")


class StreamJoins(Handle[K, V]):
    """The joins of `KStream`."""
