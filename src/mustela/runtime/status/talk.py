"""Statistics of Kafka clients, if the settings ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

__all__ = ["Talkative", "statistics_of"]


@runtime_checkable
class Talkative(Protocol):
    """Something with Kafka clients that report statistics."""

    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Return the statistics of each client since the last call, by client name."""
        ...


def statistics_of(clients: object) -> Mapping[str, Mapping[str, float]]:
    """Return the statistics of clients, or nothing if they have none."""
    return clients.statistics() if isinstance(clients, Talkative) else {}
