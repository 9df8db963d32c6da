"""Properties of the Kafka clients: what users may set, and what each client gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, get_args

from mustela.config.errors import ForcedSettingError, SettingValueError, UnknownSettingError
from mustela.config.librdkafka import CONSUMER_ONLY, EVERY_CLIENT, PRODUCER_ONLY
from mustela.config.problems import unknown_setting

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Role",
    "check_client_property",
    "client_properties",
    "forced_properties",
    "is_client_property",
    "split_role",
]

Role = Literal["consumer", "producer", "admin"]

_KNOWN = EVERY_CLIENT | CONSUMER_ONLY | PRODUCER_ONLY

_FORCED = {
    "bootstrap.servers": "set bootstrap_servers",
    "metadata.broker.list": "set bootstrap_servers",
    "group.id": "it is the application_id",
    "auto.offset.reset": "set auto_offset_reset",
    "enable.auto.commit": "offsets are committed in the epoch's transaction",
    "auto.commit.enable": "offsets are committed in the epoch's transaction",
    "auto.commit.interval.ms": "set commit_interval",
    "enable.auto.offset.store": "offsets are committed in the epoch's transaction",
    "isolation.level": "rows of aborted transactions must never be read",
    "enable.partition.eof": "it marks the end of a range",
    "group.instance.id": "partitions are assigned manually; there is no group membership",
    "group.protocol": "partitions are assigned manually; there is no group membership",
    "group.protocol.type": "partitions are assigned manually; there is no group membership",
    "group.remote.assignor": "partitions are assigned manually; there is no group membership",
    "partition.assignment.strategy": "partitions are assigned manually, by the driver",
    "offset.store.method": "offsets are committed in the epoch's transaction",
    "offset.store.path": "offsets are committed in the epoch's transaction",
    "transactional.id": "it is the application_id",
    "transaction.timeout.ms": "set commit_timeout",
    "enable.idempotence": "without it rows could be written twice",
    "enable.gapless.guarantee": "without it rows could be lost",
    "acks": "an acknowledged row must survive the loss of a broker",
    "request.required.acks": "an acknowledged row must survive the loss of a broker",
    "partitioner": "keys must go where Java's partitioner puts them",
    "delivery.report.only.error": "offsets of written rows come with the delivery reports",
    "produce.offset.report": "offsets of written rows come with the delivery reports",
}

_REFUSED = {
    "plugin.library.paths": "it loads native code into every process",
    "ssl.engine.location": "it loads native code into every process",
    "sasl.jaas.config": "login modules are Java classes: the client has none, and they have been "
    "used to run foreign code",
}

_JAVA = {
    "fetch.max.wait.ms": "use fetch.wait.max.ms",
    "max.poll.records": "use epoch.max_records",
    "buffer.memory": "use queue.buffering.max.kbytes",
    "max.request.size": "use message.max.bytes",
    "receive.buffer.bytes": "use socket.receive.buffer.bytes",
    "send.buffer.bytes": "use socket.send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "use socket.connection.setup.timeout.ms",
    "max.block.ms": "use commit_timeout",
    "default.api.timeout.ms": "use socket.timeout.ms",
    "partitioner.class": "keys go where Java's default partitioner puts them; to choose "
    "otherwise, pass a partitioner to `to`",
    "sasl.jaas.config": "use sasl.username and sasl.password, or sasl.oauthbearer.…",
    "sasl.login.class": "use sasl.mechanism with sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "use sasl.oauthbearer.method=oidc with "
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.client.callback.handler.class": "use sasl.oauthbearer.method=oidc",
    "ssl.truststore.location": "use ssl.ca.location, a file in PEM",
    "ssl.truststore.certificates": "use ssl.ca.pem",
    "ssl.truststore.password": "a PEM file for ssl.ca.location needs no password",
    "ssl.truststore.type": "use ssl.ca.location, a file in PEM",
    "ssl.keystore.key": "use ssl.key.pem",
    "ssl.keystore.certificate.chain": "use ssl.certificate.pem",
    "ssl.keystore.type": "ssl.keystore.location takes PKCS#12; for PEM use ssl.key.location and "
    "ssl.certificate.location",
    "ssl.protocol": "the client uses the best that both sides support; leave it out",
    "ssl.enabled.protocols": "the client uses the best that both sides support; leave it out",
    "ssl.provider": "use ssl.providers",
    "ssl.engine.factory.class": "use ssl.ca.location, ssl.certificate.location, ssl.key.location",
    "key.serializer": "declare a serde: to(topic, key=…)",
    "value.serializer": "declare a serde: to(topic, value=…)",
    "key.deserializer": "declare a serde: stream(topic, key=…)",
    "value.deserializer": "declare a serde: stream(topic, value=…)",
    "interceptor.classes": "Java classes cannot be loaded; use a step of the topology",
    "metric.reporters": "Java classes cannot be loaded; leave it out",
    "security.providers": "Java classes cannot be loaded; leave it out",
    "config.providers": "put the value into the environment: MUSTELA__KAFKA__…",
}

_DEFAULTS: dict[Role, dict[str, str]] = {
    # librdkafka's own back-offs of a second would stall every epoch. A fetch that may wait, be it
    # for 5 ms, holds up the next range of the same consumer by as much: 8.5 ms for each, not 2.5.
    "consumer": {
        "fetch.queue.backoff.ms": "5",
        "fetch.error.backoff.ms": "5",
        "fetch.wait.max.ms": "0",
    },
    # The default back-off makes adding offsets to a transaction slow.
    "producer": {"retry.backoff.ms": "10"},
    "admin": {},
}

_FIXED: dict[Role, dict[str, str]] = {
    "consumer": {
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "isolation.level": "read_committed",
        "enable.partition.eof": "true",
    },
    "producer": {
        "enable.idempotence": "true",
        "acks": "all",
        "partitioner": "murmur2_random",
    },
    "admin": {},
}


class _ClientSettings(Protocol):
    """What of the settings the clients need."""

    @property
    def application_id(self) -> str: ...
    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def kafka(self) -> Mapping[str, str]: ...


def is_client_property(name: str) -> bool:
    """Whether a name is a property of Kafka's clients, of librdkafka's or of Java's.

    Example:
        >>> is_client_property("security.protocol"), is_client_property("lanes")
        (True, False)
    """
    return name in _KNOWN or name in _JAVA or name in _REFUSED


def forced_properties() -> dict[str, str]:
    """Return the properties that Mustela sets by itself, with the reason."""
    return dict(_FORCED)


def split_role(name: str) -> tuple[Role | None, str]:
    """Split ``consumer.fetch.min.bytes`` into the kind of client and the property."""
    head, _, rest = name.partition(".")
    for role in get_args(Role):
        if head == role and rest:
            return role, rest
    return None, name


def check_client_property(name: str, source: str) -> None:
    """Check that a property may be set.

    Args:
        name: Its name, with ``consumer.``, ``producer.`` or ``admin.`` before it or without.
        source: Where it stands, for the error.

    Raises:
        ForcedSettingError: If Mustela sets it by itself.
        UnknownSettingError: If librdkafka has no such property.
        SettingValueError: If it is refused, or is not of that kind of client.
    """
    role, prop = split_role(name)
    evidence = {"source": source}
    fields = {"key": f"kafka.{name}", "source": source}
    if prop in _FORCED:
        what = f"the Kafka property {prop} cannot be set: Mustela sets it itself"
        why = fix = None
        if _FORCED[prop].startswith("set "):
            fix = f"{_FORCED[prop]} instead"
        else:
            why, fix = _FORCED[prop], "take it out"
        raise ForcedSettingError(what, evidence=evidence, why=why, fix=fix, fields=fields)
    if prop in _REFUSED:
        what = f"the Kafka property {prop} is refused"
        fix = _JAVA.get(prop, "take it out")
        raise SettingValueError(what, evidence=evidence, why=_REFUSED[prop], fix=fix, fields=fields)
    if prop in _JAVA:
        what = f"the Kafka property {prop} belongs to the Java client, which is not used here"
        raise UnknownSettingError(what, evidence=evidence, fix=_JAVA[prop], fields=fields)
    if prop not in _KNOWN:
        whole = f"kafka.{name}"
        known = (f"kafka.{role}.{p}" if role else f"kafka.{p}" for p in sorted(_KNOWN))
        why = "librdkafka, the Kafka client, has no such property"
        raise unknown_setting(whole, source, known, why=why)
    if role is not None and not _applies(prop, role):
        owner = "consumer" if prop in CONSUMER_ONLY else "producer"
        what = f"the Kafka property {prop} is a {owner}'s, not one of the {role}"
        fix = f"write kafka.{owner}.{prop}"
        raise SettingValueError(what, evidence=evidence, fix=fix, fields=fields)


def _applies(prop: str, role: Role) -> bool:
    if prop in EVERY_CLIENT:
        return True
    return prop in (CONSUMER_ONLY if role == "consumer" else PRODUCER_ONLY) and role != "admin"


def client_properties(settings: _ClientSettings, role: Role) -> dict[str, str]:
    """Return librdkafka's properties for one kind of client.

    What holds for every client (security above all) reaches all three; what only consumers or
    producers read reaches only them; ``kafka.consumer.…`` wins over ``kafka.…``. The transactional
    id and the transaction timeout are the connector's to add.

    Args:
        settings: The application's settings.
        role: The kind of client.

    Example:
        >>> from mustela.config.settings import Settings
        >>> settings = Settings.load(application_id="a", kafka={"security.protocol": "ssl"})
        >>> client_properties(settings, "admin")
        {'client.id': 'a-admin', 'security.protocol': 'ssl', 'bootstrap.servers': 'localhost:9092'}
    """
    result = {"client.id": f"{settings.application_id}-{role}", **_DEFAULTS[role]}
    own: dict[str, str] = {}
    for name, value in settings.kafka.items():
        check_client_property(name, "kafka")
        owner, prop = split_role(name)
        if owner == role:
            own[prop] = value
        elif owner is None and _applies(prop, role):
            result[prop] = value
    result |= own
    result |= _FIXED[role]
    result["bootstrap.servers"] = settings.bootstrap_servers
    if role == "consumer":
        result["group.id"] = settings.application_id
    return result
