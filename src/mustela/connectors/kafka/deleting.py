"""Deleting the oldest records of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from mustela.connectors.kafka.client import ClientErrors, admin_client
from mustela.connectors.kafka.errors import fault

__all__ = ["delete_records"]

_TIMEOUT_S = 15.0


def delete_records(properties: Mapping[str, Any], topic: str, before: Mapping[int, int]) -> None:
    """Delete the records of a topic before an offset, partition by partition.

    Args:
        properties: Client properties.
        topic: The topic.
        before: By partition, the first offset that stays.

    Raises:
        EnvironmentFault: If the broker does not do it.
    """
    admin: Any = admin_client(properties, ClientErrors())
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(places, request_timeout=_TIMEOUT_S).values():
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as error:
            raise fault(error, f"delete records of {topic}") from error
