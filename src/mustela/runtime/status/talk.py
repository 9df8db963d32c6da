"""Kafka clients that tell of themselves, where the settings ask them to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

__all__ = ["Talkative", "statistics_of"]


@runtime_checkable
class Talkative(Protocol):
    """Something with Kafka clients that tell of themselves."""

    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Return what each client has told since this was last asked, by its name."""
        ...


def statistics_of(clients: object) -> Mapping[str, Mapping[str, float]]:
    """Return what clients tell of themselves; of those that cannot, nothing."""
    return clients.statistics() if isinstance(clients, Talkative) else {}
