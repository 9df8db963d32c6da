"""Steps that handle one record at a time and keep nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.serdes.base import Serde
from mustela.topology.node import Node

__all__ = [
    "FilterNode",
    "FlatMapNode",
    "FlatMapValuesNode",
    "ForeachNode",
    "MapNode",
    "MapValuesNode",
    "MergeNode",
    "PeekNode",
    "SelectKeyNode",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapValuesNode(Node):
    """``mapper(value)``, or ``mapper(key, value)`` if ``with_key``; the key stays."""

    mapper: Callable[..., Any]
    with_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMapValuesNode(Node):
    """``mapper(value)``, or ``mapper(key, value)``, gives any number of values for the same key."""

    mapper: Callable[..., Any]
    with_key: bool = False

    @property
    def gives_several(self) -> bool:
        """One for each result."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode(Node):
    """``mapper(key, value)`` gives a new ``(key, value)`` pair."""

    mapper: Callable[[Any, Any], Any]

    @property
    def changes_keys(self) -> bool:
        """The mapper gives a new key."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMapNode(Node):
    """``mapper(key, value)`` gives any number of ``(key, value)`` pairs."""

    mapper: Callable[[Any, Any], Any]

    @property
    def changes_keys(self) -> bool:
        """The mapper gives a new key."""
        return True

    @property
    def gives_several(self) -> bool:
        """One for each result."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectKeyNode(Node):
    """``mapper(key, value)`` gives a new key; ``group_by`` is this step and a grouping."""

    mapper: Callable[[Any, Any], Any]

    @property
    def changes_keys(self) -> bool:
        """The mapper gives a new key."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterNode(Node):
    """Keep records for which ``predicate(key, value)`` is true, or false if ``negate``."""

    predicate: Callable[[Any, Any], Any]
    negate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekNode(Node):
    """``action(key, value)`` for its effect; the record goes on unchanged."""

    action: Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeachNode(Node):
    """``action(key, value)`` for its effect; the step has no output."""

    action: Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeNode(Node):
    """All records of its parents, in time order.

    Attributes:
        key: Serde of the keys, if it is known and the same for all parents. Parents of different
            stages meet in the lane of their key; None takes the typed default.
    """

    key: Serde[Any] | None = None
