"""Properties of the schema registry, by the names that Confluent's serdes have for them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mustela.config.problems import unknown_setting

__all__ = ["REGISTRY", "check_registry_property", "registry_name", "registry_properties"]

REGISTRY: Final = "schema_registry"
"""The section that holds them."""

_PROPERTIES: Final = MappingProxyType(
    {
        "url": "Addresses, with commas between them; `mock://scope` is one inside the process.",
        "basic.auth.user.info": "`user:password` for basic authentication.",
        "basic.auth.credentials.source": "`USER_INFO` or `URL`, for other clients' sake: "
        "what is there is taken.",
        "bearer.auth.token": "Token for bearer authentication; it goes before user and password.",
        "bearer.auth.credentials.source": "`STATIC_TOKEN` (the default), or `OAUTHBEARER` for "
        "tokens that an identity provider gives for client credentials.",
        "bearer.auth.issuer.endpoint.url": "With `OAUTHBEARER`: where tokens are fetched; `https`, "
        "or this machine.",
        "bearer.auth.client.id": "With `OAUTHBEARER`: the client.",
        "bearer.auth.client.secret": "With `OAUTHBEARER`: its secret.",
        "bearer.auth.scope": "With `OAUTHBEARER`: the scope of the tokens, if the provider wants "
        "one.",
        "bearer.auth.logical.cluster": "The cluster, for a registry in Confluent's cloud.",
        "bearer.auth.identity.pool.id": "The identity pools there, with commas between them.",
        "ssl.ca.location": "PEM file of certificates to trust; default: the system's own.",
        "ssl.certificate.location": "PEM file of the client's certificate.",
        "ssl.key.location": "PEM file of its key, if the certificate's file does not have it.",
        "ssl.key.password": "Password of that key.",
        "ssl.endpoint.identification.algorithm": "`https`; `none` takes a certificate of any host.",
        "request.timeout.ms": "Time that a request may take; default 10000.",
        "max.retries": "How often a request that failed is made again; default 3.",
        "retries.wait.ms": "Pause before the first of these, doubled each time; default 500.",
        "auto.register.schemas": "Whether a schema that a subject lacks is registered; default "
        "`true`.",
        "use.latest.version": "Whether sinks write with the latest schema of the subject; default "
        "`false`.",
        "normalize.schemas": "Whether the registry brings schemas to a normal form; default "
        "`false`.",
        "key.subject.name.strategy": "`TopicNameStrategy` (the default), `RecordNameStrategy` or "
        "`TopicRecordNameStrategy`, for the subjects of keys.",
        "value.subject.name.strategy": "The same, for those of values.",
    }
)
_WHOLE: Final = "schema.registry."
_BARE: Final = frozenset(
    {
        "basic.auth.user.info",
        "basic.auth.credentials.source",
        "bearer.auth.token",
        "bearer.auth.credentials.source",
        "bearer.auth.issuer.endpoint.url",
        "bearer.auth.client.id",
        "bearer.auth.client.secret",
        "bearer.auth.scope",
        "bearer.auth.logical.cluster",
        "bearer.auth.identity.pool.id",
        "auto.register.schemas",
        "use.latest.version",
        "normalize.schemas",
        "key.subject.name.strategy",
        "value.subject.name.strategy",
    }
)


def registry_properties() -> dict[str, str]:
    """Return every property with what it means."""
    return dict(_PROPERTIES)


def registry_name(key: str) -> str | None:
    """Return the property that a name of Confluent's means, None if it is none.

    Example:
        >>> registry_name("schema.registry.url"), registry_name("auto.register.schemas")
        ('url', 'auto.register.schemas')
        >>> registry_name("ssl.ca.location") is None
        True
    """
    dotted = key.replace("_", ".").lower()
    if dotted.startswith(_WHOLE):
        return dotted.removeprefix(_WHOLE)
    return dotted if dotted in _BARE else None


def check_registry_property(name: str, source: str) -> None:
    """Check that there is a property of this name.

    Raises:
        UnknownSettingError: If there is none.
    """
    if name not in _PROPERTIES:
        known = (f"{REGISTRY}.{one}" for one in _PROPERTIES)
        whole = f"{REGISTRY}.{name}"
        raise unknown_setting(whole, source, known)
