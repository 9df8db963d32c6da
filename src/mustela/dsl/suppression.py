"""Holding back changes of a table."""

from __future__ import annotations

from typing import TypeVar

from mustela.dsl.handle import Handle

__all__ = ["Suppression"]

K = TypeVar("K")
V = TypeVar("V")


class Suppression(Handle[K, V]):
    """What `KTable` can do to emit less: suppress."""
