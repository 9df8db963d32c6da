"""Every way in which stores are read, as one table, `WAYS`: each gives the same rows.

A way is a function from a `Reader` to the rows of one store, as `Row`s in the order of the store.
To add one, such as a further format or a process elsewhere, write that function and give it one
entry in `WAYS`. `test_reading_ways.py` then compares it with all others, for every kind of store,
over one key group and over several; `tests/integration/test_reading_places.py` does so for an
application that runs, its replica, its directory and its changelogs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, NamedTuple

import httpx
import msgspec
import pyarrow as pa

from mustela import Materialized, StreamsBuilder, Windowed
from mustela.admin.data.encodings import ARROW
from mustela.admin.data.standing import StateAnswers
from mustela.client.client import Client
from mustela.processors import ContextualProcessor, Record
from mustela.sql.asking import SqlReadable
from mustela.stores import CustomStore, query_method
from tests.unit.admin.data.shown import Order, same, stores

__all__ = [
    "KINDS",
    "METHODS",
    "WAYS",
    "Reader",
    "Row",
    "all_stores",
    "check",
    "input_of",
    "of_table",
    "rows_of",
]

KINDS: Final[dict[str, tuple[Any, Any]]] = {
    "counts": (str, int),
    "orders": (int, None),
    "recent": (str, int),
    "unlogged": (str, int),
    "windowed": (str, int),
    "sessions": (str, int),
    "prices": (str, float),
    "shops": (str, dict),
    "towns": (str, str),
}
"""The types of keys and values by store; None for what has a column for each field."""

WORDS: Final = ("a", "b", "b/c", "changes", "..", "ü", "7", "")
_PAGE: Final = 3
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Row(NamedTuple):
    """A row, with the times of its window or session in milliseconds, if it has one."""

    key: Any
    value: Any
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """What a way is given; it gives None where there is not what it needs.

    Attributes:
        store: The name of the store.
        here: Has the stores in this process.
        http: Asks for them over HTTP, with the token that it takes.
        client: Makes a client of them.
        state: Has them as ``mustela state`` does.
    """

    store: str = ""
    here: SqlReadable | None = None
    http: httpx.Client | None = None
    client: Callable[[], Client] | None = None
    state: StateAnswers | None = None


# -- stores and what they hold ---------------------------------------------------------------------


class Notes(CustomStore):
    """Lines by key."""

    def write(self, key: str, line: str) -> None:
        """Keep a line."""
        self.rows(key).put(line.encode(), b"")

    @query_method
    def lines(self, key: str) -> list[str]:
        """The lines of a key."""
        return [line.decode() for line, _ in self.rows(key).range()]


class Write(ContextualProcessor):
    """Keeps what comes."""

    def process(self, record: Record) -> None:
        """Keep a record."""
        self.context.state_store("notes").write(record.key, record.value)


def all_stores(builder: StreamsBuilder, topic: Callable[[str], str] = same) -> None:
    """A store of every kind: documents with an index, one of its own kind and a global table too.

    Args:
        builder: Gets them.
        topic: Returns what a topic is called.
    """
    stores(builder, topic)
    kept = Materialized(store="shops", index={"city": "address.city"})
    builder.table(topic("shops"), key=str, value=dict, materialized=kept)
    towns = builder.global_table(topic("towns"), key=str, value=str, store="towns")
    noted = builder.stream(topic("notes"), key=str, value=str)
    noted.process(Write, stores=[Notes().builder("notes", key=str)], name="written")
    noted.join(
        towns, lambda line, town: line + town, foreign_key_with_key=lambda key, _line: key
    ).to(topic("lines"), key=str, value=str)


def input_of(choose: Callable[[Sequence[Any]], Any]) -> Iterator[tuple[str, Any, Any, int]]:
    """Yield what each source topic is sent, with times and deletions.

    Args:
        choose: Returns one of several things.
    """
    yield from (("towns", f"t{n}", None if n == 4 else f"town {n}", 5) for n in range(7))
    yield "towns", "t1", "town again", 6
    for n in range(30):
        yield "words", choose(WORDS), "x", 3_000 * n
    yield from (("orders", key - 3, Order(key, f"{key}@b"), key) for key in range(12))
    yield from (("orders", key - 3, None, 20 + key) for key in (2, 5, 9))
    for name in ("recent", "unlogged"):
        yield from ((name, word, choose((1, 2, 3, None)), 5) for word in WORDS)
        yield from ((name, f"z{n}", n, 5) for n in range(4))
    for at, word in enumerate(WORDS):
        yield "prices", word, at / 4, 1_000 * at
        yield "prices", word, at / 2, 1_000 * at + 500
    for at, word in enumerate(WORDS):
        city = choose(("Oslo", "Rome"))
        yield "shops", word, {"address": {"city": city}, "size": at, "tags": ["ü", None]}, at
    yield from (("notes", f"t{n % 3}", f"line {n}", n) for n in range(9))


# -- ways ------------------------------------------------------------------------------------------


def _handle(reader: Reader) -> list[Row] | None:
    if reader.here is None:
        return None
    return [_row(key, value) for key, value in reader.here.store(reader.store).all()]


def _one_by_one(reader: Reader) -> list[Row] | None:
    """Each key that iteration names, asked for alone."""
    if reader.here is None:
        return None
    handle = reader.here.store(reader.store)
    found: list[Row] = []
    for key in handle:
        if not isinstance(key, Windowed) or handle.kind.endswith("session"):
            found.append(_row(key, handle[key]))
        else:
            found.append(_row(key, handle[key.key, key.start]))
    return found


def _snapshot(reader: Reader) -> list[Row] | None:
    if reader.here is None:
        return None
    with reader.here.snapshot() as snapshot:
        return [_row(key, value) for key, value in snapshot.store(reader.store).all()]


def _by_index(reader: Reader) -> list[Row] | None:
    """The rows of an index, entry by entry, in the order of the store."""
    if reader.here is None or reader.store != "shops":
        return None
    by = reader.here.store("shops").by("city")
    found = [_row(key, value) for city in ("Oslo", "Rome") for key, value in by.get(city)]
    return sorted(found, key=lambda row: row.key.encode())


def _http(reader: Reader) -> list[Row] | None:
    """Pages of JSON."""
    return _pages(reader, "application/json", json.loads)


def _packed(reader: Reader) -> list[Row] | None:
    """Pages of MessagePack."""
    return _pages(reader, "application/msgpack", msgspec.msgpack.decode)


def _pages(reader: Reader, kind: str, decode: Callable[[bytes], Any]) -> list[Row] | None:
    if reader.http is None:
        return None
    found: list[Row] = []
    cursor = ""
    while True:
        target = f"/stores/{reader.store}?limit={_PAGE}{cursor}"
        page = decode(_answer(reader.http.get(target, headers={"accept": kind})))
        found += map(_of_document, page["rows"])
        if page.get("cursor") is None:
            return found
        cursor = f"&cursor={page['cursor']}"


def _stream(reader: Reader) -> list[Row] | None:
    """One stream of Arrow's."""
    if reader.http is None:
        return None
    answer = _answer(reader.http.get(f"/stores/{reader.store}", headers={"accept": ARROW}))
    return of_table(pa.ipc.open_stream(answer).read_all())


def _frames(reader: Reader) -> list[Row] | None:
    """What Spark asks for, without Spark: a frame, and the pages of its only part."""
    if reader.http is None:
        return None
    frame = json.loads(_answer(reader.http.post("/frames", json={})))["frame"]
    tables: list[Any] = []
    for page in count():
        part = {"reader": "r", "page": page}
        answer = reader.http.post(f"/frames/{frame}/{reader.store}/rows", json=part)
        tables.append(pa.ipc.open_stream(_answer(answer)).read_all())
        if answer.headers["mustela-more"] == "false":
            break
    _answer(reader.http.post(f"/frames/{frame}"))
    return of_table(pa.concat_tables(tables))


def _client(reader: Reader) -> list[Row] | None:
    if reader.client is None:
        return None
    key, value = KINDS[reader.store]
    with reader.client() as client:
        rows = client.store(reader.store, key=key, value=value).range(page=_PAGE)
        return [Row(row.key, _plain(row.value), row.start, row.end) for row in rows]


def _sql(reader: Reader) -> list[Row] | None:
    if reader.here is None:
        return None
    found = reader.here.sql(f"select * from {reader.store}")
    return _of_columns(dict(zip(found.columns, row, strict=True)) for row in found.rows)


def _sql_elsewhere(reader: Reader) -> list[Row] | None:
    if reader.client is None:
        return None
    with reader.client() as client:
        found = client.sql(f"select * from {reader.store}")
    return _of_columns(dict(zip(found.columns, row, strict=True)) for row in found.rows)


def _state(reader: Reader) -> list[Row] | None:
    """As ``mustela state range`` does."""
    if reader.state is None:
        return None
    pages = reader.state.pages((reader.store,), {}, whole=True)
    return [_of_document(row) for page in pages for row in page["rows"]]


WAYS: Final[dict[str, Callable[[Reader], list[Row] | None]]] = {
    "handle": _handle,
    "one by one": _one_by_one,
    "snapshot": _snapshot,
    "by index": _by_index,
    "http": _http,
    "MessagePack": _packed,
    "Arrow stream": _stream,
    "frames": _frames,
    "client": _client,
    "sql": _sql,
    "sql of a client": _sql_elsewhere,
    "state": _state,
}
"""Every way by name; the first is what the others are compared with."""


def _method_of_handle(reader: Reader) -> list[str] | None:
    return None if reader.here is None else reader.here.store("notes").lines("t1")


def _method_over_http(reader: Reader) -> list[str] | None:
    if reader.http is None:
        return None
    found: list[str] = json.loads(
        _answer(reader.http.get("/stores/notes/methods/lines", params={"key": "t1"}))
    )["result"]
    return found


def _method_of_client(reader: Reader) -> list[str] | None:
    if reader.client is None:
        return None
    with reader.client() as client:
        return client.store("notes", key=str).call("lines", key="t1")


METHODS: Final[dict[str, Callable[[Reader], list[str] | None]]] = {
    "handle": _method_of_handle,
    "http": _method_over_http,
    "client": _method_of_client,
}
"""The ways to a store of a kind of its own, which has methods in place of rows."""


def check(
    places: Mapping[str, Reader], wanted: Mapping[str, list[Row]], notes: Sequence[str]
) -> None:
    """Compare what all ways to every store show in some places.

    Args:
        places: What each place has.
        wanted: The rows, by store.
        notes: The lines of ``t1`` in the store of a kind of its own.
    """
    for store, rows in wanted.items():
        assert len(rows) > 3, store
        for place, reader in places.items():
            for name, way in WAYS.items():
                found = way(replace(reader, store=store))
                assert found is None or found == rows, (store, place, name)
    for place, reader in places.items():
        for name, method in METHODS.items():
            lines = method(reader)
            assert lines is None or lines == notes, (place, name)


def rows_of(reader: Reader) -> dict[str, list[Row]]:
    """Return the rows of all stores by their handles."""
    found = {store: WAYS["handle"](replace(reader, store=store)) for store in KINDS}
    return {store: rows for store, rows in found.items() if rows is not None}


def _answer(answer: httpx.Response) -> bytes:
    assert answer.status_code == 200, answer.text
    return answer.content


def _row(key: Any, value: Any) -> Row:
    value = getattr(value, "value", value)  # a version
    if isinstance(key, Windowed):
        return Row(key.key, _plain(value), key.start, key.end)
    return Row(key, _plain(value))


def _of_document(row: Mapping[str, Any]) -> Row:
    return Row(row["key"], row["value"], row.get("start"), row.get("end"))


def of_table(table: Any) -> list[Row]:
    """Return the rows of a table of Arrow's."""
    return _of_columns(table.to_pylist())


def _of_columns(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Columns of a table; values with fields have a column for each of them."""
    found: list[Row] = []
    for row in rows:
        apart = {name: row[name] for name in ("total", "email") if name in row}
        value = apart or row["value"]
        if isinstance(value, str) and value.startswith("{"):
            value = json.loads(value)
        times = [_ms(row[name]) for name in ("window_start", "window_end") if name in row]
        found.append(Row(row["key"], value, *times))
    return found


def _plain(value: Any) -> Any:
    if hasattr(value, "total"):
        return {"total": value.total, "email": value.email}
    return value


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
