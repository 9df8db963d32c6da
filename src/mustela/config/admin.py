"""The settings of the admin server."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from mustela.config.section import Count, Duration, Section, comma_joined

__all__ = ["ENDPOINT_GROUPS", "AdminSettings", "host_and_port"]

ENDPOINT_GROUPS = (
    *("health", "info", "config", "topology", "state", "metrics", "debug", "query"),
    "operate",
)
"""The groups of endpoints, each with a switch of its own."""

_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")
_TOKEN_LEAST = 24


class AdminSettings(Section):
    """What an application shows of itself over HTTP, where, and to whom."""

    enabled: bool = Field(
        default=False,
        description="Start the admin server with the application; see its guide.",
    )
    listen: str = Field(
        default="127.0.0.1:0",
        description="Where it listens, `host:port`; port 0 picks a free one. An address that is "
        "not loopback needs TLS and a token from these settings, or the application does not "
        "start.",
    )
    probe_listen: str = Field(
        default="",
        description="A second address, `host:port`, that serves only `/health/live` and "
        "`/health/ready`, each with one word: it needs no token, whatever the address. Empty for "
        "none.",
    )
    tls_certificate: Path | None = Field(
        default=None, description="File with the server's certificate chain, PEM."
    )
    tls_key: Path | None = Field(
        default=None, description="File with the certificate's key, PEM, not encrypted."
    )
    read_token: str = Field(
        default="",
        description="Token for clients that may look; at least 24 characters. A token that is not "
        "set is generated at each start and stored, with the address, in a file in `state_dir` "
        "that only this user can read.",
    )
    query_token: str = Field(
        default="",
        description="Token for clients that may also see data: rows of stores, keys of records, "
        "and where in the program workers are.",
    )
    operate_token: str = Field(
        default="",
        description="Token for clients that may also pause, resume and stop the application.",
    )
    kafka_streams_names: Literal["none", "jmx", "micrometer"] = Field(
        default="none",
        description="Show metrics under the names of Kafka Streams too, for dashboards that were "
        "made for it: as Prometheus' JMX exporter (`jmx`) or Micrometer (`micrometer`) writes "
        "them.",
    )
    endpoints_off: Annotated[str, BeforeValidator(comma_joined)] = Field(
        default="",
        description="Groups of endpoints that are switched off, separated by commas: `health`, "
        "`info`, `config`, `topology`, `state`, `metrics`, `debug`, `query`, `operate`.",
    )
    hidden_stores: Annotated[str, BeforeValidator(comma_joined)] = Field(
        default="",
        description="Stores that `/stores` and `/sql` do not show, separated by commas; `*` for "
        "all.",
    )
    hidden_fields: Annotated[str, BeforeValidator(comma_joined)] = Field(
        default="",
        description="Fields of values that `/stores` replaces by `[hidden]` and `/sql` leaves out, "
        "as `store:field` or `store:field.inner`, separated by commas; `*:field` for every store.",
    )
    log_queries: bool = Field(
        default=False,
        description="Say of each request for data who asked for what, without keys: as an event, "
        "and in the logger `mustela.admin.audit`.",
    )
    allowed_hosts: Annotated[str, BeforeValidator(comma_joined)] = Field(
        default="",
        description="Host names that requests may use, without ports and separated by commas, in "
        "addition to the host of `admin.listen` and, if that is loopback, `localhost`. `*` for "
        "any.",
    )
    max_requests: Count = Field(
        default=16,
        ge=1,
        le=1000,
        description="Requests that are answered at the same time; further ones get 503.",
    )
    request_timeout: Duration = Field(
        default=timedelta(seconds=5),
        gt=timedelta(0),
        description="Time in which a request must arrive, and again in which it is answered.",
    )

    sql_timeout: Duration = Field(
        default=timedelta(seconds=30),
        gt=timedelta(0),
        le=timedelta(minutes=4),
        description="Time that a statement of `POST /sql` may run, in addition to "
        "`request_timeout`. The store's disk space of its epoch is held for so long.",
    )

    @property
    def off(self) -> frozenset[str]:
        """The groups that are switched off."""
        return _names(self.endpoints_off)

    @property
    def hidden_store_names(self) -> frozenset[str]:
        """The names of ``hidden_stores``."""
        return _names(self.hidden_stores)

    @property
    def hidden_field_names(self) -> frozenset[str]:
        """The fields of ``hidden_fields``."""
        return _names(self.hidden_fields)

    @property
    def hosts(self) -> frozenset[str]:
        """The names of ``allowed_hosts``."""
        return frozenset(name.lower() for name in _names(self.allowed_hosts))

    @field_validator("listen", "probe_listen")
    @classmethod
    def _check_address(cls, value: str) -> str:
        if value and host_and_port(value) is None:
            msg = "a host and a port, as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8443"
            raise ValueError(msg)
        return value

    @field_validator("endpoints_off")
    @classmethod
    def _check_groups(cls, value: str) -> str:
        unknown = _names(value) - set(ENDPOINT_GROUPS)
        if unknown:
            msg = f"groups of endpoints: {', '.join(ENDPOINT_GROUPS)}"
            raise ValueError(msg)
        return value

    @field_validator("hidden_fields")
    @classmethod
    def _check_fields(cls, value: str) -> str:
        for name in _names(value):
            store, colon, path = name.partition(":")
            if not (store and colon and all(path.split("."))):
                msg = "fields as store:field or store:field.inner"
                raise ValueError(msg)
        return value

    @field_validator("read_token", "query_token", "operate_token")
    @classmethod
    def _check_token(cls, value: str) -> str:
        if value and (len(value) < _TOKEN_LEAST or not value.isascii() or not value.isprintable()):
            msg = f"at least {_TOKEN_LEAST} printable ASCII characters"
            raise ValueError(msg)
        return value


def host_and_port(text: str) -> tuple[str, int] | None:
    """Read ``host:port``; None if it is none.

    Example:
        >>> host_and_port("127.0.0.1:0"), host_and_port("[::1]:80"), host_and_port("8080")
        (('127.0.0.1', 0), ('::1', 80), None)
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[3]) > 65_535:
        return None
    return found[1] or found[2], int(found[3])


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())
