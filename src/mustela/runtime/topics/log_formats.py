"""Which logs know leader epochs: those of message format 2, the only one since Kafka 3.0."""

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
    """Return those of the leader epochs that a log can be asked for later.

    A broker that writes an older format knows who leads, and not where an epoch's records end: it
    would be taken for one that lost them.

    Args:
        cluster: Tells the settings of topics.
        leaders: The leader epochs of partitions.
    """
    topics = {place.topic for place in leaders}
    told = cluster.configs(sorted(topics)) if topics else {}
    old = {topic for topic in topics if told.get(topic, {}).get(_FORMAT, "").startswith(_WITHOUT)}
    return {place: leader for place, leader in leaders.items() if place.topic not in old}
