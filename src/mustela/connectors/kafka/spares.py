"""Producers that are connected before they are needed."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaException, Producer

from mustela.connectors.kafka.calls import StuckError, discard, within

__all__ = ["SpareProducers", "init_transactions", "let_go"]

SPARES = 3
"""A claim may need several: see `TransactionalSink.open`."""
_ASK_TIMEOUT_S = 5.0


class SpareProducers:
    """Producers that have met a broker, and have not claimed anything.

    Args:
        make: Makes a producer.
    """

    def __init__(self, make: Callable[[], Producer]) -> None:
        self._make = make
        self._spares: list[Producer] = []

    def warm(self) -> None:
        """Fill up the stock, and let each ask a broker, so that it stays connected.

        A broker that does not answer is no fault here: whoever takes one will meet it.
        """
        while len(self._spares) < SPARES:
            self._spares.append(self._make())
        for spare in self._spares:
            try:
                spare.list_topics(topic="", timeout=_ASK_TIMEOUT_S)
            except KafkaException:
                return

    def take(self) -> Producer:
        """Return one, or a new one."""
        return self._spares.pop(0) if self._spares else self._make()

    def close(self) -> None:
        """Let all of them go."""
        while self._spares:
            discard(self._spares.pop())


def init_transactions(producer: Producer, seconds: float) -> None:
    """Claim the transactional id, in so many seconds."""
    within(producer, lambda: producer.init_transactions(seconds), seconds)


def let_go(producer: Producer, raised: KafkaException | None) -> None:
    """Close a producer, unless a call is still inside it: that one keeps it."""
    if not isinstance(raised, StuckError):
        discard(producer)
