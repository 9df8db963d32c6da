"""Writers that log in, by TLS and by each way to prove who they are, on real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,  # pyright: ignore[reportPrivateImportUsage]
    ScramMechanism,  # pyright: ignore[reportPrivateImportUsage]
    UserScramCredentialUpsertion,  # pyright: ignore[reportPrivateImportUsage]
)

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.errors import AuthenticationRefused
from mustela.connectors.kafka.writers.cluster import Cluster
from mustela.connectors.kafka.writers.coordinator import TransactionCoordinator
from mustela.connectors.kafka.writers.features import lacking
from mustela.connectors.kafka.writers.writer import TransactionWriter, Written
from mustela_dev import BrokerOptions, DevelopmentBroker
from mustela_dev.broker.security import find_security
from tests.broker_fixture import HEAP_MB
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.slow]

USER, PASSWORD = "joe=a,b", "pencil"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The properties of a client of a broker that wants TLS and a login."""
    ways = ("PLAIN", *SCRAM)
    properties = {
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": ",".join(ways),
        **{f"listener.name.sasl_ssl.{way.lower()}.sasl.jaas.config": LOGIN for way in SCRAM},
    }
    directory = tmp_path_factory.mktemp("secure")
    options = BrokerOptions(fast_start=True, secure=True)
    with DevelopmentBroker(directory, heap_mb=HEAP_MB, properties=properties, options=options) as b:
        security = find_security(directory)
        assert security is not None
        found: dict[str, Any] = {
            "bootstrap.servers": b.bootstrap_servers,
            **security.client_properties(),
        }
        admin = KafkaAdmin(found, timeout=PATIENCE_S)
        admin.create([TopicSpec(name="out", partitions=1)])
        admin.close()
        users = AdminClient(found)
        for way in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(way, 4_096)
            change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            for future in users.alter_user_scram_credentials([change]).values():
                future.result(PATIENCE_S)
        yield found


def named(secure: dict[str, Any], way: str) -> dict[str, Any]:
    if way == "PLAIN":
        return secure
    login = {"sasl.mechanism": way, "sasl.username": USER, "sasl.password": PASSWORD}
    return {**secure, **login}


@pytest.mark.parametrize("way", ["PLAIN", *SCRAM])
def test_a_transaction_is_written_by_who_has_logged_in(secure: dict[str, Any], way: str) -> None:
    """Coordinator and writer alike, by the properties that librdkafka has."""
    properties = named(secure, way)
    cluster = Cluster(properties)
    assert lacking(cluster.any(), properties) == []
    cluster.forget()
    coordinator = TransactionCoordinator(properties, way, open_timeout=PATIENCE_S)
    coordinator.open()
    writer = TransactionWriter(properties, coordinator.begin())
    writer.write("out", 0, [b"k"], [way.encode()])
    ((_, written),) = writer.finish().items()
    assert written == Written(written.end - 1, written.end)
    writer.close()
    coordinator.commit()
    coordinator.close()


@pytest.mark.parametrize("way", ["PLAIN", *SCRAM])
def test_a_wrong_password_is_told_as_such(secure: dict[str, Any], way: str) -> None:
    """At once, and without the password."""
    properties = {**named(secure, way), "sasl.password": "hunter3"}
    coordinator = TransactionCoordinator(properties, way, open_timeout=PATIENCE_S)
    with pytest.raises(AuthenticationRefused) as caught:
        coordinator.open()
    coordinator.close()
    assert "hunter3" not in str(caught.value)


def test_an_authority_that_is_not_known_is_refused(secure: dict[str, Any]) -> None:
    """Nobody sends a password to a stranger."""
    properties = {**secure, "ssl.ca.location": None}
    with pytest.raises(KafkaException, match="certificate verify failed"):
        Cluster(properties).any()
