"""What the brokers have to know, so that several processes may write into one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException

from mustela.connectors.kafka.client import servers_of
from mustela.connectors.kafka.compression import codec_of
from mustela.connectors.kafka.errors import fault
from mustela.connectors.kafka.writers.batches import has_codec
from mustela.connectors.kafka.writers.cluster import Cluster
from mustela.connectors.kafka.writers.connection import Connection
from mustela.connectors.kafka.writers.security import unsupported
from mustela.connectors.kafka.writers.wire import Api

__all__ = ["bumps_at_end", "lacking", "lacking_anywhere"]

_TRANSACTION_VERSION = "transaction.version"
_BUMPING = 2
_NEEDED = (
    Api(0, 9, "Produce"),
    Api(3, 9, "Metadata"),
    Api(10, 3, "FindCoordinator"),
    Api(22, 4, "InitProducerId"),
    Api(24, 3, "AddPartitionsToTxn"),
    Api(25, 3, "AddOffsetsToTxn"),
    Api(26, 3, "EndTxn"),
    Api(28, 3, "TxnOffsetCommit"),
)
# Brokers that know it ask the coordinator whether a partition belongs to the transaction, before
# they append to it (KIP-890): so a late row cannot begin a transaction that nobody ends.
_VERIFIES = Api(24, 4, "AddPartitionsToTxn")
_BUMPS = (Api(0, 12, "Produce"), Api(26, 5, "EndTxn"), Api(28, 5, "TxnOffsetCommit"))


def bumps_at_end(broker: Connection) -> bool:
    """Whether an end gives the next transaction its epoch: Kafka's transactions version 2."""
    agreed = broker.features.get(_TRANSACTION_VERSION, 0) >= _BUMPING
    return agreed and all(broker.knows(api) for api in _BUMPS)


def lacking(broker: Connection | None, properties: Mapping[str, Any]) -> list[str]:
    """Say what is missing for several writers; with nothing missing they may be used.

    Args:
        broker: A connection to one of the brokers; None to look at the properties alone.
        properties: Client properties.
    """
    found: list[str] = []
    if broker is not None:
        lacks = (api for api in _NEEDED if not broker.knows(api))
        found += [f"the broker's {api.name} {api.version}" for api in lacks]
        if not broker.knows(_VERIFIES):
            found.append("the broker's verification of partitions (Kafka 3.6)")
    found += [f"kafka.{name}, which the writers do not know" for name in unsupported(properties)]
    if not has_codec(codec_of(properties)):
        found.append(f"kafka.compression.type={codec_of(properties)} in the writers")
    return found


def lacking_anywhere(properties: Mapping[str, Any]) -> list[str]:
    """Say what is missing in the properties or in any of the brokers.

    Raises:
        EnvironmentFault: If a broker does not answer.
    """
    unknown = lacking(None, properties)
    if unknown:
        return unknown
    cluster = Cluster(properties)
    try:
        found = {text for broker in cluster.each() for text in lacking(broker, properties)}
    except KafkaException as raised:
        doing = "ask the brokers whether lanes may write"
        raise fault(raised, doing, servers=servers_of(properties)) from raised
    finally:
        cluster.forget()
    return sorted(found)
