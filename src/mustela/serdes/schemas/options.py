"""How a serde finds its registry, and what it is allowed to do there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from mustela.serdes.schemas.faults import RegistryOptionError
from mustela.serdes.schemas.subjects import STRATEGIES

__all__ = ["PROPERTIES", "OAuthOptions", "RegistryOptions", "refuse_mock"]

PROPERTIES: Final = (
    "url",
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "bearer.auth.credentials.source",
    "bearer.auth.token",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "request.timeout.ms",
    "max.retries",
    "retries.wait.ms",
    "auto.register.schemas",
    "use.latest.version",
    "normalize.schemas",
    "key.subject.name.strategy",
    "value.subject.name.strategy",
)
"""The properties of a registry by Confluent's names, without the prefix ``schema.registry.``."""

_TRUTHS: Final = {"true": True, "false": False}
_NUMBERS: Final = {"request.timeout.ms": 10_000, "max.retries": 3, "retries.wait.ms": 500}
_SOURCES: Final = {
    "basic.auth.credentials.source": ("USER_INFO", "URL"),
    "bearer.auth.credentials.source": ("STATIC_TOKEN", "OAUTHBEARER"),
}
_OAUTH_NEEDED: Final = (
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
)
_OAUTH: Final = (*_OAUTH_NEEDED, "bearer.auth.scope")
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthOptions:
    """An identity provider that gives tokens for client credentials (OAuth 2.0).

    Attributes:
        endpoint: Address that tokens are fetched from.
        client_id: Who asks.
        secret: The client's secret.
        scope: What the token is for; empty for the provider's default.
    """

    endpoint: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions:
    """A registry as a serde knows it; a plain value that travels to workers.

    Attributes:
        urls: Addresses, of which the first that answers is used; ``mock://scope`` is in this
            process.
        user_info: ``user:password`` for basic authentication, empty for none.
        token: Bearer token, empty for none.
        oauth: Where tokens come from, in place of ``token``.
        logical_cluster: Cluster that a registry in Confluent's cloud is asked for.
        identity_pool: Identity pools that it knows the application by, with commas between them.
        ca: PEM file of certificates to trust; empty for the system's own.
        certificate: PEM file of the client's certificate; empty for none.
        key: PEM file of its key; empty if the certificate's file contains it.
        key_password: Password of that key.
        check_host: Whether the registry's certificate must match its host.
        timeout_ms: How long a request may take.
        retries_max: How often a request is retried.
        retry_wait_ms: Wait before the first retry; it doubles.
        auto_register: Whether a schema that a subject lacks is registered.
        use_latest: Whether values are written with the subject's latest schema.
        normalize: Whether the registry normalizes schemas.
        key_strategy: How the subject of keys is named.
        value_strategy: How the subject of values is named.

    Example:
        >>> RegistryOptions.of({"url": "mock://tests", "use.latest.version": "true"}).use_latest
        True
    """

    urls: tuple[str, ...]
    user_info: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    oauth: OAuthOptions | None = None
    logical_cluster: str = ""
    identity_pool: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    check_host: bool = True
    timeout_ms: int = _NUMBERS["request.timeout.ms"]
    retries_max: int = _NUMBERS["max.retries"]
    retry_wait_ms: int = _NUMBERS["retries.wait.ms"]
    auto_register: bool = True
    use_latest: bool = False
    normalize: bool = False
    key_strategy: str = "TopicNameStrategy"
    value_strategy: str = "TopicNameStrategy"

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RegistryOptions | None:
        """Read properties by Confluent's names; None if they name no registry.

        Args:
            properties: With or without the prefix ``schema.registry.``.

        Raises:
            RegistryOptionError: If there is no such property, or its value is invalid.
        """
        given = {name.removeprefix("schema.registry."): text for name, text in properties.items()}
        unknown = sorted(given.keys() - set(PROPERTIES))
        if unknown:
            msg = f"a schema registry has no property {unknown[0]!r}"
            raise RegistryOptionError(
                msg, evidence={"known": ", ".join(PROPERTIES)}, fix="use one of these"
            )
        for name in _SOURCES:
            _source(given, name)
        urls, in_url = _addresses(given.get("url", ""))
        if not urls:
            return None
        strict = given.get("ssl.endpoint.identification.algorithm", "https").lower()
        return cls(
            urls=urls,
            user_info=given.get("basic.auth.user.info", "") or in_url,
            token=_token(given),
            oauth=_oauth(given),
            logical_cluster=given.get("bearer.auth.logical.cluster", ""),
            identity_pool=given.get("bearer.auth.identity.pool.id", ""),
            ca=given.get("ssl.ca.location", ""),
            certificate=given.get("ssl.certificate.location", ""),
            key=given.get("ssl.key.location", ""),
            key_password=given.get("ssl.key.password", ""),
            check_host=strict not in {"", "none"},
            timeout_ms=_number(given, "request.timeout.ms"),
            retries_max=_number(given, "max.retries"),
            retry_wait_ms=_number(given, "retries.wait.ms"),
            auto_register=_truth(given, "auto.register.schemas", default=True),
            use_latest=_truth(given, "use.latest.version", default=False),
            normalize=_truth(given, "normalize.schemas", default=False),
            key_strategy=_strategy(given, "key.subject.name.strategy"),
            value_strategy=_strategy(given, "value.subject.name.strategy"),
        )


def refuse_mock(registry: Mapping[str, str]) -> None:
    """Check that all processes of an application would talk to the same registry.

    Raises:
        RegistryOptionError: If it is ``mock://``: each process would have one of its own.

    Example:
        >>> refuse_mock({"url": "http://registry:8081"})
    """
    options = RegistryOptions.of(registry)
    if options is not None and any(url.startswith("mock:") for url in options.urls):
        msg = "schema.registry.url is a registry inside the process"
        raise RegistryOptionError(
            msg,
            why="Spark's workers are processes of their own: none would find another's schemas",
            fix="set schema.registry.url to a registry; mock:// is for the test driver",
        )


def _addresses(text: str) -> tuple[tuple[str, ...], str]:
    """Return the addresses without a user in them, and the user with the password."""
    found: list[str] = []
    user_info = ""
    for one in filter(None, (part.strip() for part in text.split(","))):
        parts = urlsplit(one)
        if parts.scheme not in {"http", "https", "mock"} or not (parts.netloc or parts.path):
            msg = "schema.registry.url is not the address of a registry"
            raise RegistryOptionError(msg, fix="write http://host:port, https://… or mock://scope")
        if parts.username is not None:
            user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        found.append(urlunsplit(bare).rstrip("/"))
    return tuple(found), user_info


def _source(given: Mapping[str, str], name: str) -> str:
    """Return where credentials are, or nothing: what is there is then taken."""
    text = given.get(name, "").upper()
    if text and text not in _SOURCES[name]:
        raise _not_allowed(name, given[name], ", ".join(_SOURCES[name]))
    return text


def _token(given: Mapping[str, str]) -> str:
    source = _source(given, "bearer.auth.credentials.source")
    token = given.get("bearer.auth.token", "")
    if source == "STATIC_TOKEN" and not token:
        raise _lacking(source, "bearer.auth.token")
    return "" if source == "OAUTHBEARER" else token


def _oauth(given: Mapping[str, str]) -> OAuthOptions | None:
    named = [name for name in _OAUTH if given.get(name)]
    source = _source(given, "bearer.auth.credentials.source")
    if source != "OAUTHBEARER":
        if named:
            msg = f"schema.registry.{named[0]} is set, and nothing says that it is to be used"
            raise RegistryOptionError(
                msg,
                fix="set schema.registry.bearer.auth.credentials.source=OAUTHBEARER",
            )
        return None
    for name in _OAUTH_NEEDED:
        if name not in named:
            raise _lacking(source, name)
    return OAuthOptions(
        endpoint=_endpoint(given["bearer.auth.issuer.endpoint.url"]),
        client_id=given["bearer.auth.client.id"],
        secret=given["bearer.auth.client.secret"],
        scope=given.get("bearer.auth.scope", ""),
    )


def _endpoint(text: str) -> str:
    """Check the address to which the client's secret is sent."""
    parts = urlsplit(text)
    safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)
    if not safe or not parts.hostname or "@" in parts.netloc:
        msg = "schema.registry.bearer.auth.issuer.endpoint.url is not an address for secrets"
        raise RegistryOptionError(
            msg,
            why="the client's secret is sent there: nobody on the way may read it",
            fix="write https://host/path, without a user in it; http:// is taken for this machine",
        )
    return text


def _lacking(source: str, name: str) -> RegistryOptionError:
    return RegistryOptionError(
        f"schema.registry.bearer.auth.credentials.source={source} needs {name}",
        fix="give that property as well, or choose another source",
    )


def _truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name)
    if text is None:
        return default
    if text.lower() not in _TRUTHS:
        raise _not_allowed(name, text, "true or false")
    return _TRUTHS[text.lower()]


def _number(given: Mapping[str, str], name: str) -> int:
    text = given.get(name, str(_NUMBERS[name]))
    if not text.isdecimal():
        raise _not_allowed(name, text, "a whole number, 0 or more")
    return int(text)


def _strategy(given: Mapping[str, str], name: str) -> str:
    text = given.get(name, "TopicNameStrategy").rpartition(".")[2]
    if text not in STRATEGIES:
        raise _not_allowed(name, text, ", ".join(STRATEGIES))
    return text


def _not_allowed(name: str, text: str, allowed: str) -> RegistryOptionError:
    return RegistryOptionError(
        f"schema.registry.{name} cannot be {text!r:.80}",
        evidence={"allowed": allowed},
        fix="use what is allowed",
    )
