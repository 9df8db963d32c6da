"""Where Mustela differs from Kafka Streams on purpose; docs/compat/divergences.md gives reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tests.differential.draw import Example

__all__ = ["DIVERGENCES", "divergence_of"]

Shows = Callable[[Example, Any, Any, int], bool]
"""Whether an example shows a divergence at an input: the example, their rows, ours, the input."""

DIVERGENCES: Mapping[str, Shows] = MappingProxyType({})
"""The known divergences by id."""


def divergence_of(example: Example, theirs: Any, ours: Any, number: int) -> str | None:
    """Return the id of the divergence that explains a difference at an input, if one does."""
    for name, shows in DIVERGENCES.items():
        if shows(example, theirs, ours, number):
            return name
    return None
