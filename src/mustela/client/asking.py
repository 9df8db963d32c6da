"""Requests and answers of the client, without a connection: both clients share them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, cast
from urllib.parse import quote

import msgspec

from mustela.client.errors import RemoteRefusedError, RemoteUnavailableError
from mustela.serdes.documents import DocumentError, DocumentForm, form_of
from mustela.serdes.resolve import resolve_serde

__all__ = [
    "SILENCE_S",
    "Ask",
    "Events",
    "Following",
    "Forms",
    "RemoteChange",
    "RemoteResult",
    "RemoteRow",
    "decoded",
    "moment_ms",
    "query",
    "statement",
    "told_result",
    "unavailable",
]

K = TypeVar("K")
V = TypeVar("V")

_PLAIN_KEYS: Final = frozenset({"changes", "get", ".", ".."})
"""Keys whose path would mean something else."""
_PATH_MAX: Final = 1_000
SILENCE_S: Final = 40.0
"""A stream that sends nothing for so long is broken: a server says at least that it lives."""
_RETRIES: Final = 3
"""How often a stream of changes is begun again without an event in between."""


class RemoteRow(NamedTuple, Generic[K, V]):
    """A row of a store elsewhere.

    Attributes:
        key: The key.
        value: The value.
        timestamp: Its time in milliseconds since 1970, if the store keeps one.
        start: The start of its window or session, in milliseconds; None in other stores.
        end: The end of it.
        valid_to: Until when a version was valid; None for the newest, and in other stores.
    """

    key: K
    value: V
    timestamp: int | None = None
    start: int | None = None
    end: int | None = None
    valid_to: int | None = None


class RemoteChange(NamedTuple, Generic[K, V]):
    """A change of a store.

    Attributes:
        kind: ``snapshot`` for a row of the snapshot, ``change`` for one that an epoch wrote,
            ``deleted``, and ``ready`` once all rows of the snapshot were given.
        epoch: The epoch.
        row: The row; for one that was deleted, without a value. None with ``ready``.
    """

    kind: Literal["snapshot", "change", "deleted", "ready"]
    epoch: int
    row: RemoteRow[K, V] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteResult:
    """The rows that a statement of SQL gives.

    Iteration, ``len`` and ``[]`` are those of `rows`.

    Attributes:
        epoch: The committed epoch that it read.
        columns: The names of the columns.
        types: Their types, as Arrow names them.
        rows: The rows. Numbers, text, moments, dates, decimals and bytes are Python's own types;
            within lists and structs they are what JSON has for them.
    """

    epoch: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts; of columns with the same name the last counts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> tuple[Any, ...]:
        return self.rows[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request.

    Attributes:
        method: ``GET`` or ``POST``.
        path: The path, encoded.
        parameters: The query parameters.
        body: The document in the body.
        headers: Further headers.
    """

    method: str = "GET"
    path: str = "/"
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def sent(self) -> dict[str, Any]:
        """Return the arguments of a call of httpx."""
        found: dict[str, Any] = {"params": dict(self.parameters), "headers": dict(self.headers)}
        if self.body is not None:
            found["content"] = msgspec.json.encode(self.body)
            found["headers"]["content-type"] = "application/json"
        return found


class Forms(Generic[K, V]):
    """What keys and values of a store are in documents.

    Args:
        store: The store.
        key: The type of keys, or their serde; None for JSON as it comes.
        value: The type of values, likewise.
    """

    def __init__(self, store: str, key: Any, value: Any) -> None:
        self.store = store
        self._key = None if key is None else form_of(resolve_serde(key, key=True))
        self._value = None if value is None else form_of(resolve_serde(value))

    # -- requests ---------------------------------------------------------------------------------

    def get(self, key: K, **more: Any) -> Ask:
        """Return the request for the row of a key."""
        text = self._text(key)
        if text in _PLAIN_KEYS or len(text.encode("utf-8", "surrogatepass")) > _PATH_MAX:
            return self.get_many([key], **more)
        return Ask(path=f"{self._path}/{quote(text, safe='')}", parameters=_parameters(more))

    def get_many(self, keys: Iterable[K], **more: Any) -> Ask:
        """Return the request for the rows of keys."""
        body = {"keys": [self._document(key) for key in keys]}
        return Ask(method="POST", path=f"{self._path}/get", body=body, parameters=_parameters(more))

    def of_key(self, what: str, key: K, **more: Any) -> Ask:
        """Return the request for windows, sessions or versions of a key."""
        path = f"{self._path}/{quote(self._text(key), safe='')}/{what}"
        return Ask(path=path, parameters=_parameters(more))

    def page(self, bounds: Mapping[str, Any], **more: Any) -> Ask:
        """Return the request for a page of rows."""
        keys = {
            name: self._text(bounds[name])
            for name in ("from", "to", "prefix")
            if bounds.get(name) is not None
        }
        rest = {name: value for name, value in bounds.items() if name not in keys}
        return Ask(path=self._path, parameters={**_parameters({**rest, **more}), **keys})

    def call(self, method: str, parameters: Mapping[str, Any], min_epoch: int | None) -> Ask:
        """Return the request for what a query method gives."""
        body = dict(parameters)
        if "key" in body:
            body["key"] = self._document(body["key"])
        path = f"{self._path}/methods/{quote(method, safe='')}"
        given = _parameters({"min_epoch": min_epoch})
        return Ask(method="POST", path=path, body=body, parameters=given)

    def changes(self, prefix: K | None, since: int | None) -> Ask:
        """Return the request for a stream of changes."""
        given = {} if prefix is None else {"prefix": self._text(prefix)}
        headers = {"accept": "text/event-stream"}
        if since is not None:
            headers["last-event-id"] = str(since)
        return Ask(path=f"{self._path}/changes", parameters=given, headers=headers)

    # -- answers ----------------------------------------------------------------------------------

    def row(self, document: Mapping[str, Any]) -> RemoteRow[K, V]:
        """Return the row of a document."""
        return RemoteRow(
            key=self._of(self._key, document["key"]),
            value=self._of(self._value, document.get("value")),
            timestamp=document.get("timestamp"),
            start=document.get("start"),
            end=document.get("end"),
            valid_to=document.get("valid_to"),
        )

    def one(self, document: Mapping[str, Any]) -> RemoteRow[K, V] | None:
        """Return the row of an answer to `get`."""
        if "rows" in document:
            first = document["rows"][0]
            return None if first is None else self.row(first)
        return self.row(document) if "key" in document else None

    def changed(self, name: str, data: Any) -> list[RemoteChange[K, V]]:
        """Return the changes of an event."""
        epoch = int(data.get("epoch", 0))
        if name == "ready":
            return [RemoteChange("ready", epoch, None)]
        kind: Literal["snapshot", "change"] = "snapshot" if name == "snapshot" else "change"
        found: list[RemoteChange[K, V]] = []
        for row in data["rows"]:
            if "sessions" in row:
                found += [RemoteChange(kind, epoch, self.row(each)) for each in row["sessions"]]
                if row["sessions"]:
                    continue
            gone = "deleted" in row or "sessions" in row
            found.append(RemoteChange("deleted" if gone else kind, epoch, self.row(row)))
        return found

    @property
    def _path(self) -> str:
        return f"/stores/{quote(self.store, safe='')}"

    def _text(self, key: Any) -> str:
        if self._key is not None:
            return self._key.to_text(key)
        return key if isinstance(key, str) else msgspec.json.encode(key).decode()

    def _document(self, key: Any) -> Any:
        return key if self._key is None else self._key.to_document(key)

    def _of(self, form: DocumentForm | None, document: Any) -> Any:
        if form is None or document is None:
            return document
        try:
            return form.from_document(document)
        except DocumentError as error:
            msg = f"a row of store {self.store!r} is not of the types of this handle: {error.what}"
            raise DocumentError(
                msg,
                why="the handle was made with other types, or a release has changed the store's",
                fix="make another one: client.store(…); /openapi.json has the types",
                fields=error.fields,
            ) from error


class Events:
    """Puts the lines of a stream of events together."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}
        self.mark: int | None = None

    def take(self, line: str) -> tuple[str, Any] | None:
        """Take a line; return name and data of the event that it ends.

        Args:
            line: The line, without its end.
        """
        if line:
            name, _, value = line.partition(":")
            if name:
                self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        if "id" in fields:
            self.mark = int(fields["id"])
        return fields.get("event", "message"), msgspec.json.decode(fields["data"])


class Following(Generic[K, V]):
    """The changes of a store over any number of connections, each of which may end or fail.

    A client makes a connection for `ask`, gives its events to `take` until that returns None, and
    an error to `bear`; then it makes the next one, without end.

    Args:
        forms: The store.
        prefix: Only keys that begin with it.
        since: Only what was committed after this epoch, without a snapshot.
    """

    def __init__(self, forms: Forms[K, V], prefix: K | None, since: int | None) -> None:
        self._forms = forms
        self._prefix = prefix
        self._mark = since
        self._failed = 0
        self.events = Events()

    def ask(self) -> Ask:
        """Return the request for the next connection, which goes on where the last one ended."""
        self.events = Events()
        return self._forms.changes(self._prefix, self._mark)

    def take(self, name: str, data: Any) -> list[RemoteChange[K, V]] | None:
        """Return the changes of an event; None if the connection ends with it."""
        self._failed = 0
        if name == "end":
            return None
        return self._forms.changed(name, data)

    def passed(self) -> None:
        """All changes of an event were given out: a new connection goes on after them."""
        if self.events.mark is not None:
            self._mark = self.events.mark

    def bear(self, error: RemoteUnavailableError | RemoteRefusedError) -> None:
        """Return if another connection may be made after an error, otherwise raise it.

        Raises:
            RemoteRefusedError: If the store's changes are not known.
            RemoteUnavailableError: If the server did not answer three times in a row.
        """
        is_refused = isinstance(error, RemoteRefusedError)
        is_forgotten = is_refused and error.fields.get("status") == 410
        self._failed += 1
        if (is_refused and not is_forgotten) or self._failed >= _RETRIES:
            raise error
        if is_forgotten:
            self._mark = None  # begin again, with a snapshot


def decoded(status: int, body: bytes) -> dict[str, Any]:
    """Return the document of an answer.

    Raises:
        RemoteRefusedError: If the question was refused.
        RemoteUnavailableError: If there is no answer now.
    """
    try:
        found: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict):
        said = f"it answered {status}, and not as a server of stores does"
        raise unavailable(said)
    document = cast("dict[str, Any]", found)
    if status == 200 or document.get("code") == "QUERY_NO_ROW":
        return document
    what = str(document.get("error", f"it answered {status}"))
    fields = {"status": status, "code": document.get("code"), **document}
    if status in (429, 503):
        raise RemoteUnavailableError(what, fix="ask again later", fields=fields)
    fix = str(document.get("fix") or "change the question")
    if status in (401, 403):
        fix = (
            "give a token of the scope query: to Client as its argument token, to commands in "
            "MUSTELA__ADMIN__QUERY_TOKEN"
        )
    raise RemoteRefusedError(what, evidence={"status": status}, fix=fix, fields=fields)


def query(name: str, parameters: Mapping[str, Any], min_epoch: int | None) -> Ask:
    """Return the request for the result of one of the application's own queries."""
    given = _parameters({"min_epoch": min_epoch})
    path = f"/queries/{quote(name, safe='')}"
    return Ask(method="POST", path=path, body=parameters, parameters=given)


def statement(sql: str, min_epoch: int | None) -> Ask:
    """Return the request for what a statement gives."""
    given = _parameters({"min_epoch": min_epoch})
    return Ask(method="POST", path="/sql", body={"sql": sql}, parameters=given)


def told_result(document: Mapping[str, Any]) -> RemoteResult:
    """Return the result of an answer to a statement.

    Example:
        >>> columns = [{"name": "day", "type": "date32[day]"}, {"name": "n", "type": "int64"}]
        >>> told_result({"epoch": 7, "columns": columns, "rows": [["2026-01-31", 3]]}).rows
        [(datetime.date(2026, 1, 31), 3)]
    """
    columns = document["columns"]
    reads = [_reader(str(column["type"])) for column in columns]
    return RemoteResult(
        epoch=int(document["epoch"]),
        columns=tuple(column["name"] for column in columns),
        types=tuple(column["type"] for column in columns),
        rows=[
            tuple(
                None if value is None else read(value)
                for value, read in zip(row, reads, strict=True)
            )
            for row in document["rows"]
        ],
    )


def _reader(kind: str) -> Callable[[Any], Any]:
    if kind.startswith("decimal") and kind.endswith(", 0)"):
        return int
    return next((read for name, read in _READERS.items() if kind.startswith(name)), _as_it_is)


def _as_it_is(value: Any) -> Any:
    return value


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "decimal": Decimal,
    "binary": b64decode,
    "double": float,
    "float": float,
}


def unavailable(said: str) -> RemoteUnavailableError:
    """Return the error for a server that does not answer."""
    what = "the server of the stores does not answer"
    fix = "see whether the application runs with admin.enabled, and where it listens"
    return RemoteUnavailableError(what, evidence={"said": said}, fix=fix)


def moment_ms(moment: int | datetime | None) -> int | None:
    """Return milliseconds since 1970.

    Example:
        >>> moment_ms(datetime(1970, 1, 1, 0, 1, tzinfo=UTC)), moment_ms(7)
        (60000, 7)
    """
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        msg = "a moment has no time zone"
        raise RemoteRefusedError(msg, fix="pass datetime(..., tzinfo=UTC), or milliseconds")
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _parameters(given: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in given.items():
        if value is None or value is False:
            continue
        found[name] = "true" if value is True else str(value)
    return found
