"""What happens in a seed: events, each at a step. To shrink a seed is to leave some out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Event", "Script"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens when so many calls of ports were made.

    Attributes:
        at: The step.
        kind: What.
        args: With what.
    """

    at: int
    kind: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}{self.args!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A seed, spelt out.

    Attributes:
        seed: The seed; what is not in the script is drawn from it.
        program: Name of the program.
        options: What the world is like.
        events: What happens, in order.
    """

    seed: int
    program: str
    options: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
