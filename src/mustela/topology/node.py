"""The base of every node of the logical graph."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.errors import Origin
from mustela.state.interfaces import StoreSpec

__all__ = ["Node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step as the user wrote it.

    Attributes:
        name: Unique in the topology; comes from the path or from ``name=``, never from a counter.
        parents: Names of the nodes whose output this node reads, in the order of its inputs.
        origin: The user's line.
        explicit_name: Whether the user gave the name.
    """

    name: str
    parents: tuple[str, ...] = ()
    origin: Origin | None = None
    explicit_name: bool = False

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores that this node reads or writes; nodes that share one stay together."""
        return ()
