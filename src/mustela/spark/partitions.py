"""How many partitions a sink's topic has, in a worker: told by the driver, or asked for once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mustela.connectors.kafka.admin import KafkaAdmin

__all__ = ["KnownPartitions"]


class KnownPartitions(dict[str, int]):
    """Partition counts by topic; one that is not known, since a function named it, is asked for.

    Args:
        told: What the driver knew when the program was sent.
        properties: Client properties.
    """

    def __init__(self, told: Mapping[str, int], properties: Mapping[str, Any]) -> None:
        super().__init__(told)
        self._properties = properties

    def __missing__(self, topic: str) -> int:
        """Ask for a topic.

        Raises:
            MissingTopicError: If there is no such topic.
        """
        admin = KafkaAdmin(self._properties)
        try:
            self[topic] = admin.partitions(topic)
        finally:
            admin.close()
        return self[topic]
