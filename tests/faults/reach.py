"""How clients of the campaigns reach a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Servers", "reaching"]

Servers = str | Mapping[str, str]
"""Its bootstrap servers alone, or with what else its clients must know."""


def reaching(servers: Servers) -> dict[str, Any]:
    """Return the client properties that reach a broker."""
    return {"bootstrap.servers": servers} if isinstance(servers, str) else dict(servers)
