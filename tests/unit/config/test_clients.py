"""What reaches librdkafka, and what does not."""

from __future__ import annotations

import confluent_kafka
import pytest

from mustela.config.clients import client_properties, forced_properties
from mustela.config.errors import ForcedSettingError, SettingValueError, UnknownSettingError
from mustela.config.librdkafka import CONSUMER_ONLY, EVERY_CLIENT, PRODUCER_ONLY
from mustela.config.settings import Settings

ROLES = ("consumer", "producer", "admin")


def settings(**kafka: object) -> Settings:
    given = {name.replace("_", "."): value for name, value in kafka.items()}
    return Settings.load(application_id="app", bootstrap_servers="b:1", kafka=given, environ={})


@pytest.mark.parametrize("role", ROLES)
def test_security_reaches_every_client(role):
    """Who sets it once has set it for consumers, producers and the admin client."""
    given = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "joe",
        "sasl.password": "hunter2",
        "ssl.ca.location": "/ca.pem",
        "ssl.key.password": "hunter3",
    }
    properties = client_properties(settings(**given), role)
    assert properties.items() >= given.items()
    assert properties["bootstrap.servers"] == "b:1"
    assert properties["client.id"] == f"app-{role}"


def test_each_client_gets_what_it_knows():
    """A consumer's property given to all reaches consumers only; a prefix wins."""
    given = settings(
        **{
            "fetch.min.bytes": 5,
            "linger.ms": 6,
            "socket.timeout.ms": 1000,
            "consumer.socket.timeout.ms": 2000,
            "admin.client.id": "boss",
        }
    )
    consumer, producer, admin = (client_properties(given, role) for role in ROLES)
    assert "linger.ms" not in consumer
    assert "linger.ms" not in admin
    assert "fetch.min.bytes" not in producer
    assert "fetch.min.bytes" not in admin
    assert consumer["fetch.min.bytes"] == "5"
    assert producer["linger.ms"] == "6"
    assert (consumer["socket.timeout.ms"], producer["socket.timeout.ms"]) == ("2000", "1000")
    assert (admin["client.id"], consumer["client.id"]) == ("boss", "app-consumer")


def test_the_promises_rest_on_fixed_properties():
    """Read committed, no auto commit, idempotent, Java's partitioner."""
    consumer, producer = (client_properties(settings(), role) for role in ROLES[:2])
    assert consumer["isolation.level"] == "read_committed"
    assert consumer["enable.auto.commit"] == "false"
    assert consumer["enable.partition.eof"] == "true"
    assert consumer["group.id"] == "app"
    assert consumer["fetch.queue.backoff.ms"] == "5"
    assert producer["enable.idempotence"] == "true"
    assert producer["partitioner"] == "murmur2_random"
    assert (
        client_properties(settings(fetch_wait_max_ms=50), "consumer")["fetch.wait.max.ms"] == "50"
    )


@pytest.mark.parametrize("name", sorted(forced_properties()))
@pytest.mark.parametrize("prefix", ["", "consumer.", "producer."])
def test_what_is_fixed_cannot_be_overridden(name, prefix):
    """Not silently ignored: named."""
    with pytest.raises(ForcedSettingError) as caught:
        settings(**{f"{prefix}{name}": "x"})
    assert caught.value.fields["key"] == f"kafka.{prefix}{name}"
    assert caught.value.fix


JAVA = [
    ("fetch.max.wait.ms", "fetch.wait.max.ms"),
    ("ssl.truststore.location", "ssl.ca.location"),
    ("buffer.memory", "queue.buffering.max.kbytes"),
    ("max.request.size", "message.max.bytes"),
    ("key.deserializer", "stream(topic, key="),
    ("producer.max.block.ms", "commit_timeout"),
]


@pytest.mark.parametrize(("name", "fix"), JAVA)
def test_names_of_the_java_client_are_refused_with_the_fix(name, fix):
    """librdkafka would say only that there is no such property."""
    with pytest.raises(UnknownSettingError) as caught:
        settings(**{name: "x"})
    assert fix in str(caught.value.fix)


@pytest.mark.parametrize(
    "name", ["sasl.jaas.config", "plugin.library.paths", "ssl.engine.location"]
)
def test_what_can_run_foreign_code_is_refused(name):
    """Login modules and native plugins have been ways in; the value is not shown."""
    value = 'com.sun.security.auth.module.JndiLoginModule required password="hunter2";'
    with pytest.raises(SettingValueError) as caught:
        settings(**{name: value})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(SettingValueError):
        Settings.load({"application_id": "a", name: value}, environ={})
    assert caught.value.why


def test_a_property_of_another_kind_of_client_is_refused():
    """librdkafka would warn and ignore it."""
    with pytest.raises(SettingValueError, match="is a consumer's"):
        settings(**{"producer.fetch.min.bytes": 1})
    with pytest.raises(SettingValueError, match="is a producer's"):
        settings(**{"admin.linger.ms": 1})


def test_the_installed_library_knows_every_property():
    """The list is that of the library we run with."""
    unknown = []
    for name in sorted(EVERY_CLIENT | CONSUMER_ONLY | PRODUCER_ONLY):
        try:
            # The second name is never known, so nothing is ever started.
            confluent_kafka.Producer({name: "1", "zz.no.such.property": "1"})
        except confluent_kafka.KafkaException as error:
            text = str(error)
            if f'No such configuration property: "{name}"' in text:
                unknown.append(name)
        except (TypeError, ValueError):
            continue
    assert unknown == []


def test_the_three_lists_are_apart():
    """A property is of one kind."""
    assert not EVERY_CLIENT & CONSUMER_ONLY
    assert not EVERY_CLIENT & PRODUCER_ONLY
    assert not CONSUMER_ONLY & PRODUCER_ONLY


@pytest.mark.parametrize("role", ROLES)
def test_the_library_accepts_what_it_is_given(role):
    """A client of each kind can be made of its properties."""
    given = client_properties(settings(**{"linger.ms": 5, "fetch.min.bytes": 1}), role)
    known = EVERY_CLIENT | {"consumer": CONSUMER_ONLY, "producer": PRODUCER_ONLY}.get(
        role, frozenset()
    )
    assert set(given) <= known
