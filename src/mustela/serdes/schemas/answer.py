"""What a registry answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a registry answers.

    Attributes:
        status: HTTP's own.
        body: The JSON of it, None where it was none.
    """

    status: int
    body: Any

    @property
    def told_of(self) -> dict[str, Any]:
        """The object that it is; empty where it is none."""
        body: Any = self.body
        return cast("dict[str, Any]", body) if isinstance(body, dict) else {}

    @property
    def told(self) -> str:
        """What the registry says in words."""
        return str(self.told_of.get("message") or self.told_of.get("title") or "")
