"""Where records of a stream go: branches, lanes, tables, the console."""

from __future__ import annotations

from typing import TypeVar

from mustela.dsl.handle import Handle

__all__ = ["Routing"]

K = TypeVar("K")
V = TypeVar("V")


class Routing(Handle[K, V]):
    """What `KStream` can do to send its records on: split, repartition, to_table, print."""
