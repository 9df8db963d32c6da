"""The registry: what it is asked, what is remembered, and how its refusals are reported.

There is one client and one cache per process and registry: `registry_of`. The registry's answer for
an id never changes, so it is asked once.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from mustela.serdes.schemas.answer import Answer
from mustela.serdes.schemas.faults import (
    IncompatibleSchemaError,
    RegistryRefusedError,
    SubjectMissingError,
)
from mustela.serdes.schemas.mock import mock_transport
from mustela.serdes.schemas.options import RegistryOptions

__all__ = ["Reference", "Registry", "RegistrySchema", "UnknownSchemaIdError", "registry_of"]

CLIENTS_MAX: Final = 16
UNKNOWN_KEPT_MAX: Final = 1_000
UNKNOWN_ANSWERS: Final = 1_000
"""How often an unknown id is answered from memory before the registry is asked again: a topic full
of such records costs one request per thousand."""

_ERRORS: Final = 300
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_INVALID: Final = 422
_SHOWN_MAX: Final = 4_000

T = TypeVar("T")


class UnknownSchemaIdError(LookupError):
    """The registry has no schema with an id: the record that names it is bad."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses.

    Attributes:
        name: Its name there: a record's name, or the path of a file.
        subject: The subject that contains it.
        version: Its version in the subject.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """A schema in the form in which a registry has it.

    Attributes:
        text: The schema.
        kind: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        references: The schemas that it uses.
    """

    text: str
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()

    def body(self) -> dict[str, Any]:
        """Return it in the form of a request."""
        body: dict[str, Any] = {"schema": self.text}
        if self.kind != "AVRO":
            body["schemaType"] = self.kind
        if self.references:
            body["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version}
                for one in self.references
            ]
        return body

    @classmethod
    def read(cls, body: dict[str, Any]) -> RegistrySchema:
        """Read an answer of the registry."""
        references = tuple(
            Reference(one["name"], one["subject"], one["version"])
            for one in body.get("references") or ()
        )
        return cls(body["schema"], body.get("schemaType") or "AVRO", references)


class Transport(Protocol):
    """Sends requests to a registry."""

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer: ...


class Registry:
    """A schema registry, with all that is known about it.

    Args:
        transport: Sends requests to it.
        options: What is allowed there.
    """

    def __init__(self, transport: Transport, options: RegistryOptions) -> None:
        self._transport = transport
        self._options = options
        self._lock = threading.RLock()
        self._by_id: dict[tuple[int, str], RegistrySchema] = {}
        self._ids: dict[tuple[str, RegistrySchema], int] = {}
        self._versions: dict[tuple[str, int, str], RegistrySchema] = {}
        self._latest: dict[str, tuple[int, RegistrySchema]] = {}
        self._unknown: dict[tuple[int, str], int] = {}

    def schema(self, schema_id: int, *, form: str = "") -> RegistrySchema:
        """Return the schema with an id.

        Args:
            schema_id: The id.
            form: ``serialized`` for Protobuf's own bytes in base64.

        Raises:
            UnknownSchemaIdError: If the registry has no such schema.
            RegistryUnreachableError: If it does not answer.
        """
        asked = schema_id, form
        known = self._by_id.get(asked)
        if known is not None:
            return known
        with self._lock:
            if self._unknown.get(asked, 0) > 0:
                self._unknown[asked] -= 1
                raise UnknownSchemaIdError(schema_id)
            path = f"/schemas/ids/{schema_id}" + (f"?format={form}" if form else "")
            answer = self._transport.ask("GET", path)
            if answer.status == _NOT_FOUND:
                if len(self._unknown) >= UNKNOWN_KEPT_MAX:
                    self._unknown.clear()
                self._unknown[asked] = UNKNOWN_ANSWERS
                raise UnknownSchemaIdError(schema_id)
            found = RegistrySchema.read(self._good(answer, f"schema {schema_id}"))
            self._by_id[asked] = found
            return found

    def id_of(self, subject: str, schema: RegistrySchema) -> int:
        """Return the id of a schema in a subject, registering it if that is allowed.

        Raises:
            IncompatibleSchemaError: If it is not compatible with earlier versions.
            SubjectMissingError: If the subject does not contain it, and it may not be registered.
            RegistryRefusedError: If the registry refuses for another reason.
            RegistryUnreachableError: If it does not answer.
        """
        return self._once(self._ids, (subject, schema), lambda: self._find_id(subject, schema))

    def version_of(self, subject: str, schema: RegistrySchema) -> int:
        """Return the version of a schema in a subject, for those that refer to it.

        Raises:
            EnvironmentFault: As `id_of`.
        """
        self.id_of(subject, schema)
        answer = self._transport.ask("POST", _subject(subject), schema.body())
        return int(self._good(answer, f"subject {subject!r}")["version"])

    def latest(self, subject: str) -> tuple[int, RegistrySchema]:
        """Return id and schema of a subject's latest version at the time of the first request.

        Raises:
            SubjectMissingError: If the registry has no such subject.
            RegistryUnreachableError: If it does not answer.
        """
        return self._once(self._latest, subject, lambda: self._find_latest(subject))

    def referred(self, reference: Reference, *, form: str = "") -> RegistrySchema:
        """Return the schema that another one uses, in a form as for `schema`.

        Raises:
            SubjectMissingError: If the registry does not have it.
            RegistryUnreachableError: If it does not answer.
        """

        def find() -> RegistrySchema:
            path = f"{_subject(reference.subject)}/versions/{reference.version}"
            path += f"?format={form}" if form else ""
            answer = self._transport.ask("GET", path)
            if answer.status == _NOT_FOUND:
                raise self._missing(reference.subject, f"version {reference.version}")
            return RegistrySchema.read(self._good(answer, f"subject {reference.subject!r}"))

        return self._once(self._versions, (reference.subject, reference.version, form), find)

    def _once(self, cache: dict[Any, T], key: Any, find: Callable[[], T]) -> T:
        known = cache.get(key)
        if known is None:
            with self._lock:
                known = cache.get(key)
                if known is None:
                    known = cache[key] = find()
        return known

    def _find_id(self, subject: str, schema: RegistrySchema) -> int:
        normal = "?normalize=true" if self._options.normalize else ""
        if not self._options.auto_register:
            answer = self._transport.ask("POST", _subject(subject) + normal, schema.body())
            if answer.status == _NOT_FOUND:
                raise self._missing(subject, "the schema of the program", schema)
        else:
            path = f"{_subject(subject)}/versions{normal}"
            answer = self._transport.ask("POST", path, schema.body())
            if answer.status == _CONFLICT:
                raise self._incompatible(subject, schema, answer)
        return int(self._good(answer, f"subject {subject!r}", schema)["id"])

    def _find_latest(self, subject: str) -> tuple[int, RegistrySchema]:
        answer = self._transport.ask("GET", f"{_subject(subject)}/versions/latest")
        if answer.status == _NOT_FOUND:
            raise self._missing(subject, "any schema")
        body = self._good(answer, f"subject {subject!r}")
        return int(body["id"]), RegistrySchema.read(body)

    def _good(
        self, answer: Answer, what: str, schema: RegistrySchema | None = None
    ) -> dict[str, Any]:
        if answer.status < _ERRORS and answer.told_of:
            return answer.told_of
        login = "set schema.registry.basic.auth.user.info or schema.registry.bearer.auth.token"
        if self._options.oauth is not None:
            login = "correct schema.registry.bearer.auth.scope, or let the client in there"
        fix = {
            401: login,
            403: "give the application's user the right to do this in the registry",
            _INVALID: "correct the schema, or the reference in it",
        }.get(answer.status, "see the registry's own log")
        evidence: dict[str, object] = {"answer": f"{answer.status} {answer.told}"}
        if schema is not None:
            evidence["schema"] = _shown(schema.text)
        msg = f"the schema registry refused a request for {what}"
        raise RegistryRefusedError(
            msg,
            evidence=evidence,
            fix=fix,
            fields={"status": answer.status},
        )

    def _missing(
        self, subject: str, what: str, schema: RegistrySchema | None = None
    ) -> SubjectMissingError:
        fix = (
            "register it (`mustela schemas register MODULE:APP` does so for all that an "
            "application writes), or set schema.registry.auto.register.schemas=true"
        )
        if schema is None:
            fix = "register a schema there, or write values whose class or schema is declared"
        return SubjectMissingError(
            f"subject {subject!r} of the schema registry does not have {what}",
            evidence=None if schema is None else {"schema": _shown(schema.text)},
            fix=fix,
            fields={"subject": subject},
        )

    def _incompatible(
        self, subject: str, schema: RegistrySchema, answer: Answer
    ) -> IncompatibleSchemaError:
        latest = self._transport.ask("GET", f"{_subject(subject)}/versions/latest")
        known = str(latest.told_of.get("schema", ""))
        return IncompatibleSchemaError(
            f"the schema of the program is not compatible with those of subject {subject!r}",
            evidence={
                "answer": answer.told,
                "new": _shown(schema.text),
                "registry": _shown(known),
            },
            why="the subject's compatibility rule protects those who read the topic",
            fix="give new fields a default and keep the others, or write to another topic",
            fields={"subject": subject, "schema": schema.text, "latest": known},
        )


def registry_of(options: RegistryOptions) -> Registry:
    """Return this process's client of a registry.

    Example:
        >>> options = RegistryOptions(urls=("mock://doctest",))
        >>> registry_of(options) is registry_of(options)
        True
    """
    return _client(options, os.getpid())


@lru_cache(maxsize=CLIENTS_MAX)
def _client(options: RegistryOptions, _pid: int) -> Registry:
    # By process: a forked worker begins without its parent's open connections.
    parts = urlsplit(options.urls[0])
    if parts.scheme == "mock":
        return Registry(mock_transport(parts.netloc or parts.path), options)
    # Not at the top of the file: workers without a registry never load HTTP and TLS.
    from mustela.serdes.schemas.http import HttpTransport

    return Registry(HttpTransport(options), options)


def _subject(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _shown(text: str) -> str:
    """Return a schema in a readable form."""
    with suppress(ValueError):
        text = json.dumps(json.loads(text), indent=2)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
