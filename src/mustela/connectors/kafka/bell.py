"""Being told of the first new record of many logs, instead of asking for their ends."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaException,
    TopicPartition as ClientPartition,
)

from mustela.connectors.kafka.calls import close_aside
from mustela.connectors.kafka.client import ClientErrors, consumer_client, servers_of
from mustela.connectors.kafka.errors import fault
from mustela.model import TopicPartition

__all__ = ["RecordBell"]

_FETCHING = {
    # A fetch waits at the broker, and is answered as soon as there is something. What it brings is
    # not used, so it is to bring little: a batch, whatever its size, comes all the same.
    "fetch.wait.max.ms": 500,
    "fetch.min.bytes": 1,
    "max.partition.fetch.bytes": 1,
    "queued.min.messages": 1,
    "enable.partition.eof": False,
}


class RecordBell:
    """Rings when a log holds a committed record behind a known end.

    A question for ends takes a request, an answer and the work of both sides each time; a fetch
    that waits at the broker takes that twice a second, and says at once what it was waiting for. It
    has a client of its own, as a broker answers the next request of a connection only after it.
    Used by one thread.

    Args:
        properties: Client properties.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = dict(properties)
        self._consumer: Consumer | None = None
        self._ends: Mapping[TopicPartition, int] = {}

    def wait(self, ends: Mapping[TopicPartition, int], seconds: float) -> bool:
        """Wait for a record; after one `hush`, or the next ones are fetched too.

        Args:
            ends: Of each log the offset from which on a record is new.
            seconds: How long to wait.

        Returns:
            Whether it is worth a look: there is a record, or a log cannot be read. Records that
            were aborted do not ring.

        Raises:
            EnvironmentFault: If the client cannot follow the logs.
            ClientSettingsError: If the client does not accept a property.
        """
        try:
            if self._consumer is None:
                errors = ClientErrors()
                self._consumer = consumer_client(self._properties, _FETCHING, errors)
            if ends != self._ends:
                self._consumer.assign([ClientPartition(*place, end) for place, end in ends.items()])
                self._ends = dict(ends)
            return self._consumer.poll(seconds) is not None
        except KafkaException as raised:
            self.close()
            servers = servers_of(self._properties)
            raise fault(raised, "wait for records", servers=servers) from raised

    def hush(self) -> None:
        """Fetch nothing until the next `wait`."""
        if self._consumer is not None and self._ends:
            self._ends = {}
            with suppress(KafkaException):
                self._consumer.unassign()

    def close(self) -> None:
        """Close the client, without waiting for that."""
        consumer, self._consumer = self._consumer, None
        self._ends = {}
        if consumer is not None:
            close_aside(consumer)
