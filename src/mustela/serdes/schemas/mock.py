"""A registry inside the process, for tests: ``mock://scope``, as in Confluent's clients.

It answers like a registry and keeps ids and versions; it does not check compatibility.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import unquote

from mustela.serdes.schemas.answer import Answer

__all__ = ["MockTransport", "mock_transport"]

SCOPES_MAX: Final = 1_000
_ID: Final = re.compile(r"/schemas/ids/(\d+)")
_SUBJECT: Final = re.compile(r"/subjects/([^/?]+)(?:/versions(?:/(\w+))?)?")


class MockTransport:
    """Answers requests from memory.

    Example:
        >>> registry = MockTransport()
        >>> registry.ask("POST", "/subjects/a-value/versions", {"schema": '"string"'}).body
        {'id': 1}
        >>> registry.ask("GET", "/schemas/ids/1").body
        {'schema': '"string"'}
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, int] = {}
        self._bodies: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """Answer a request."""
        path = path.partition("?")[0]
        with self._lock:
            if found := _ID.fullmatch(path):
                return self._schema(int(found[1]))
            found = _SUBJECT.fullmatch(path)
            if found is None:
                return Answer(404, {"error_code": 404, "message": f"no resource {path}"})
            subject = unquote(found[1])
            if method == "GET":
                return self._version(subject, found[2])
            if path.endswith("/versions"):
                return self._register(subject, body or {})
            return self._look_up(subject, body or {})

    def registered(self) -> list[tuple[str, dict[str, Any]]]:
        """Return each subject with each of its schemas, in the form of a request."""
        with self._lock:
            return [
                (subject, dict(self._bodies[schema_id - 1]))
                for subject, versions in self._subjects.items()
                for schema_id in versions
            ]

    def _schema(self, schema_id: int) -> Answer:
        if not 0 < schema_id <= len(self._bodies):
            return Answer(404, {"error_code": 40403, "message": f"Schema {schema_id} not found"})
        return Answer(200, dict(self._bodies[schema_id - 1]))

    def _register(self, subject: str, body: dict[str, Any]) -> Answer:
        text = _identity(body)
        schema_id = self._ids.setdefault(text, len(self._ids) + 1)
        if schema_id > len(self._bodies):
            self._bodies.append(body)
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return Answer(200, {"id": schema_id})

    def _look_up(self, subject: str, body: dict[str, Any]) -> Answer:
        schema_id = self._ids.get(_identity(body), 0)
        versions = self._subjects.get(subject, [])
        if schema_id not in versions:
            return Answer(404, {"error_code": 40403, "message": "Schema not found"})
        return self._at(subject, versions.index(schema_id))

    def _version(self, subject: str, version: str | None) -> Answer:
        versions = self._subjects.get(subject, [])
        if version is None:
            return Answer(200, list(range(1, len(versions) + 1)))
        at = len(versions) - 1 if version == "latest" else int(version) - 1
        if not 0 <= at < len(versions):
            return Answer(404, {"error_code": 40401, "message": f"Subject '{subject}' not found."})
        return self._at(subject, at)

    def _at(self, subject: str, at: int) -> Answer:
        schema_id = self._subjects[subject][at]
        told = {"subject": subject, "version": at + 1, "id": schema_id}
        return Answer(200, {**self._bodies[schema_id - 1], **told})


def _identity(body: dict[str, Any]) -> str:
    """Return what schemas share that differ only in white space, or in wrapping a type."""
    with suppress(ValueError):
        schema: Any = json.loads(body["schema"])
        if isinstance(schema, dict) and list(cast("dict[str, Any]", schema)) == ["type"]:
            schema = cast("dict[str, Any]", schema)["type"]
        body = {**body, "schema": json.dumps(schema)}
    return json.dumps(body, sort_keys=True)


@lru_cache(maxsize=SCOPES_MAX)
def mock_transport(scope: str) -> MockTransport:
    """Return this process's registry for a scope, the same one each time."""
    del scope  # the cache distinguishes them
    return MockTransport()
