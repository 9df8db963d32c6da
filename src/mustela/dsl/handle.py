"""What the handles of streams and tables have in common: the step that they stand for."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from mustela.dsl.registry import Registry
from mustela.serdes.base import Serde

__all__ = ["Handle"]

K = TypeVar("K")
V = TypeVar("V")


class Handle(Generic[K, V]):
    """A step of the topology, with the serdes of what comes out of it.

    Args:
        registry: The topology while it is being written.
        name: The step's name.
        key: Serde of the keys, where it is known.
        value: Serde of the values, where it is known.
    """

    def __init__(
        self, registry: Registry, name: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> None:
        self._registry = registry
        self._name = name
        self._key = key
        self._value = value

    @property
    def name(self) -> str:
        """The name of the step that makes this."""
        return self._name
