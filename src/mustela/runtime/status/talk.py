"""Statistics of Kafka clients, if the settings ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["statistics_of"]


def statistics_of(clients: object) -> Mapping[str, Mapping[str, float]]:
    """Return the statistics of clients since the last call, by client name.

    Args:
        clients: What has the clients; nothing comes of it if it has no method ``statistics``. That
            is asked for each turn of the loop, where `isinstance` with a protocol would be most of
            a turn in which there is nothing to do.
    """
    ask: Callable[[], Mapping[str, Mapping[str, float]]] | None
    ask = getattr(clients, "statistics", None)
    return {} if ask is None else ask()
