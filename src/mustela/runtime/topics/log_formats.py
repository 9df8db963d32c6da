"""Which logs have leader epochs: those of message format 2, the only one since Kafka 3.0."""

from __future__ import annotations

from collections.abc import Mapping

from mustela.model import TopicPartition
from mustela.runtime.ports import Cluster

__all__ = ["askable_leaders"]

_FORMAT = "message.format.version"
_WITHOUT = ("0.8", "0.9", "0.10")


def askable_leaders(
    cluster: Cluster, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the leader epochs that can be looked up in their logs later.

    A broker that writes an older format knows the leader, but not where a leader epoch's records
    end, so they would seem lost.

    Args:
        cluster: Returns the settings of topics.
        leaders: The leader epochs of partitions.
    """
    topics = {place.topic for place in leaders}
    told = cluster.configs(sorted(topics)) if topics else {}
    old = {topic for topic in topics if told.get(topic, {}).get(_FORMAT, "").startswith(_WITHOUT)}
    return {place: leader for place, leader in leaders.items() if place.topic not in old}
