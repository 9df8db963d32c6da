"""Every way in which stores are read, as one table, `WAYS`: each gives the same rows.

A way is a function from a `Reader` to the rows of one store, as `Row`s in the order of the store.
To add one, such as a further format or a process elsewhere, write that function and give it one
entry in `WAYS`: `test_reading_ways.py` then compares it with all others, for every kind of store,
over one key group and over several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import httpx

from mustela import Windowed
from mustela.client.client import Client
from tests.unit.admin.data.shown import QUERY, Served

__all__ = ["KINDS", "WAYS", "Reader", "Row"]

KINDS: Final[dict[str, tuple[Any, Any]]] = {
    "counts": (str, int),
    "orders": (int, None),
    "recent": (str, int),
    "unlogged": (str, int),
    "windowed": (str, int),
    "sessions": (str, int),
    "prices": (str, float),
}
"""The types of keys and values by store; None for documents, which differ from way to way."""

_PAGE: Final = 3
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Row(NamedTuple):
    """A row, with the times of its window or session in milliseconds, if it has one."""

    key: Any
    value: Any
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """What a way is given.

    Attributes:
        served: The stores: ``served.driver`` has them in this process, ``served.client`` over HTTP.
        store: The name of the store.
    """

    served: Served
    store: str

    @property
    def types(self) -> tuple[Any, Any]:
        """The types of keys and values."""
        return KINDS[self.store]


def _handle(reader: Reader) -> list[Row]:
    return [_row(key, value) for key, value in reader.served.driver.store(reader.store).all()]


def _one_by_one(reader: Reader) -> list[Row]:
    """Each key that iteration names, asked for alone."""
    handle = reader.served.driver.store(reader.store)
    found: list[Row] = []
    for key in handle:
        if not isinstance(key, Windowed) or handle.kind.endswith("session"):
            found.append(_row(key, handle[key]))
        else:
            found.append(_row(key, handle[key.key, key.start]))
    return found


def _snapshot(reader: Reader) -> list[Row]:
    with reader.served.driver.snapshot() as snapshot:
        return [_row(key, value) for key, value in snapshot.store(reader.store).all()]


def _http(reader: Reader) -> list[Row]:
    """Pages of JSON."""
    found: list[Row] = []
    cursor = ""
    while True:
        page = reader.served.json(f"/stores/{reader.store}?limit={_PAGE}{cursor}")
        found += [
            Row(row["key"], row["value"], row.get("start"), row.get("end")) for row in page["rows"]
        ]
        if page.get("cursor") is None:
            return found
        cursor = f"&cursor={page['cursor']}"


def _client(reader: Reader) -> list[Row]:
    def answer(request: httpx.Request) -> httpx.Response:
        headers = {**request.headers, "host": "localhost"}
        found = reader.served.client.ask(
            request.method,
            request.url.raw_path.decode(),
            headers=headers,
            content=request.content or b"",
        )
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    key, value = reader.types
    transport = httpx.MockTransport(answer)
    with Client("http://localhost", token=QUERY.query, transport=transport) as client:
        rows = client.store(reader.store, key=key, value=value).range(page=_PAGE)
        return [Row(row.key, _plain(row.value), row.start, row.end) for row in rows]


def _sql(reader: Reader) -> list[Row]:
    """Columns of a SELECT; values that are documents have a column for each field."""
    found = reader.served.driver.sql(f"select * from {reader.store}")
    at = {name: place for place, name in enumerate(found.columns)}
    apart = [name for name in found.columns if name in {"total", "email"}]
    rows: list[Row] = []
    for row in found.rows:
        value = {name: row[at[name]] for name in apart} if apart else row[at["value"]]
        times = [_ms(row[at[name]]) for name in ("window_start", "window_end") if name in at]
        rows.append(Row(row[at["key"]], value, *times))
    return rows


WAYS: Final[dict[str, Callable[[Reader], list[Row]]]] = {
    "handle": _handle,
    "one by one": _one_by_one,
    "snapshot": _snapshot,
    "http": _http,
    "client": _client,
    "sql": _sql,
}
"""Every way by name; the first is what the others are compared with."""


def _row(key: Any, value: Any) -> Row:
    value = getattr(value, "value", value)  # a version
    if isinstance(key, Windowed):
        return Row(key.key, _plain(value), key.start, key.end)
    return Row(key, _plain(value))


def _plain(value: Any) -> Any:
    if hasattr(value, "total"):
        return {"total": value.total, "email": value.email}
    return value


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
