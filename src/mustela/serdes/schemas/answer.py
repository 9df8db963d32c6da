"""The answer of a registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a registry.

    Attributes:
        status: The HTTP status.
        body: Its JSON, None if it is not JSON.
    """

    status: int
    body: Any

    @property
    def told_of(self) -> dict[str, Any]:
        """The JSON object in the answer; empty if there is none."""
        body: Any = self.body
        return cast("dict[str, Any]", body) if isinstance(body, dict) else {}

    @property
    def told(self) -> str:
        """The registry's message."""
        return str(self.told_of.get("message") or self.told_of.get("title") or "")
