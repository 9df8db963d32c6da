"""The ways to ask a table of orders, each with how it is asked and how its answers are told.

What a way cannot do it has no method for: a way is asked the questions that it has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from itertools import count
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

import duckdb
import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.answers import Row, high_of, row_of, told, told_sums
from benchmarks.peers.base import Peer
from mustela.admin.access import Access

_TIMEOUT_S: Final = 600.0
_PAGE: Final = 10_000
_ARROW: Final = "application/vnd.apache.arrow.stream"
_SUMS: Final = "select city, count(*), sum(total) from orders group by city"
_RANGE: Final = "select key, city, total from orders where key >= '{}' and key <= '{}'"
_numbers = count()


@dataclass(frozen=True, slots=True)
class Asked:
    """What answers took, and what tells them from others."""

    seconds: list[float]
    told: list[str]


class Way(Protocol):
    """A way to ask."""

    name: str

    def knows(self, question: str) -> bool:
        """Return whether it can answer a question."""
        ...

    def ask(self, question: str, keys: list[str]) -> Asked:
        """Ask a question once for each key."""
        ...


class _Here:
    """A way that is asked by this process."""

    name = ""

    def knows(self, question: str) -> bool:
        return hasattr(self, question)

    def ask(self, question: str, keys: list[str]) -> Asked:
        what = getattr(self, question)
        seconds: list[float] = []
        answers: list[Any] = []
        for key in keys:
            began = time.perf_counter()
            answers.append(what(key))
            seconds.append(time.perf_counter() - began)
        tell = self.told_sums if question == "sums" else self.told
        return Asked(seconds, [tell(answer) for answer in answers])

    def told(self, answer: Any) -> str:
        return told(_rows_of(answer))

    def told_sums(self, answer: Any) -> str:
        return told_sums(_rows_of(answer))


def _rows_of(table: Any) -> Iterable[Any]:
    """Return the rows of an Arrow table of three columns, or rows."""
    if isinstance(table, pa.Table):
        return zip(*(column.to_pylist() for column in table.columns), strict=True)
    return table


@dataclass(slots=True)
class Inside:
    """Mustela, from inside of its process: by the store's methods, or by `app.sql`."""

    name: str
    way: str
    peer: Peer

    def knows(self, question: str) -> bool:
        del question
        return True

    def ask(self, question: str, keys: list[str]) -> Asked:
        number = next(_numbers)
        wish = {"number": number, "way": self.way, "question": question, "keys": keys}
        self.peer.tell(f"ask {json.dumps(wish)}")
        fields: dict[str, Any] = self.peer.wait_for(f"asked-{number}", _TIMEOUT_S).fields
        return Asked(fields["seconds"], fields["told"])


class Asker:
    """One connection to a server, which is kept."""

    def __init__(self, address: str, token: str = "") -> None:
        place = urlsplit(address)
        self._http = HTTPConnection(place.hostname or "", place.port, timeout=_TIMEOUT_S)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def __call__(self, path: str, body: bytes | None = None, accept: str = "*/*") -> bytes:
        answer = self._answer(path, body, accept)
        data = answer.read()
        assert answer.status == 200, (path, answer.status, data[:500])
        return data

    def stream(self, path: str, accept: str) -> pa.Table:
        """Return the Arrow table of an answer, read as it comes."""
        answer = self._answer(path, None, accept)
        assert answer.status == 200, (path, answer.status)
        with pa.ipc.open_stream(answer) as reader:
            table = reader.read_all()
        answer.read()
        return table

    def _answer(self, path: str, body: bytes | None, accept: str) -> HTTPResponse:
        method = "GET" if body is None else "POST"
        headers = {**self._headers, "accept": accept}
        try:
            self._http.request(method, path, body, headers)
            return self._http.getresponse()
        except ConnectionError:  # the server has closed it, because it was idle
            self._http.close()
            self._http.request(method, path, body, headers)
            return self._http.getresponse()


class Pages(_Here):
    """Mustela over HTTP: a key, and pages of rows, in JSON."""

    name = "http, json"

    def __init__(self, access: Access) -> None:
        self._ask = Asker(access.address, access.tokens.query)

    def get(self, key: str) -> Any:
        return [msgspec.json.decode(self._ask(f"/stores/orders/{quote(key)}"))]

    def range(self, low: str) -> Any:
        return self._pages({"from": low, "to": high_of(low)})

    def scan(self, _key: str) -> Any:
        return self._pages({})

    def _pages(self, wanted: dict[str, str]) -> Any:
        found: list[Any] = []
        while True:
            query = urlencode({**wanted, "limit": str(_PAGE)})
            page = msgspec.json.decode(self._ask(f"/stores/orders?{query}"))
            found += page["rows"]
            if "cursor" not in page:
                return found
            wanted = {**wanted, "cursor": page["cursor"]}

    def told(self, answer: Any) -> str:
        return told((row["key"], row["value"]["city"], row["value"]["total"]) for row in answer)


class Arrow(_Here):
    """Mustela over HTTP: a stream of Arrow."""

    name = "http, arrow"

    def __init__(self, access: Access) -> None:
        self._ask = Asker(access.address, access.tokens.query)

    def range(self, low: str) -> Any:
        query = urlencode({"from": low, "to": high_of(low)})
        return self._ask.stream(f"/stores/orders?{query}", _ARROW)

    def scan(self, _key: str) -> Any:
        return self._ask.stream("/stores/orders", _ARROW)

    def sums(self, _key: str) -> Any:
        table = self._ask.stream("/stores/orders", _ARROW)
        return table.group_by("city").aggregate([("total", "count"), ("total", "sum")])

    def told(self, answer: Any) -> str:
        return told(_rows_of(answer.select(["key", "city", "total"])))


class PostedSql(_Here):
    """Mustela: ``POST /sql``."""

    name = "http, sql"

    def __init__(self, access: Access) -> None:
        self._ask = Asker(access.address, access.tokens.query)

    def get(self, key: str) -> Any:
        return self._sql(f"select key, city, total from orders where key = '{key}'")

    def range(self, low: str) -> Any:
        return self._sql(_RANGE.format(low, high_of(low)))

    def sums(self, _key: str) -> Any:
        return self._sql(_SUMS)

    def _sql(self, statement: str) -> Any:
        data = self._ask("/sql", msgspec.json.encode({"sql": statement}), _ARROW)
        return pa.ipc.open_stream(data).read_all()


class Frames(_Here):
    """Mustela as a Spark data frame; each question is a data frame of its own."""

    name = "data frame"

    def __init__(self, spark: SparkSession, app: str, state_dir: str) -> None:
        self._spark = spark
        self._options = {"app": app, "stateDir": state_dir, "store": "orders", "partitions": "2"}

    def get(self, key: str) -> Any:
        return self._rows(keyFrom=key, keyTo=key)

    def range(self, low: str) -> Any:
        return self._rows(keyFrom=low, keyTo=high_of(low))

    def scan(self, _key: str) -> Any:
        return self._rows()

    def sums(self, _key: str) -> Any:
        frame = self._frame(columns="city, total")
        return frame.groupBy("city").agg({"*": "count", "total": "sum"}).toArrow()

    def told_sums(self, answer: Any) -> str:
        return told_sums(_rows_of(answer.select(["city", "count(1)", "sum(total)"])))

    def _rows(self, **options: str) -> Any:
        return self._frame(columns="key, city, total", **options).toArrow()

    def _frame(self, **options: str) -> Any:
        return self._spark.read.format("mustela").options(**{**self._options, **options}).load()


class Instances(_Here):
    """Kafka Streams: interactive queries over HTTP, of two instances, asked of the first."""

    name = "kafka streams"

    def __init__(self, port: int) -> None:
        self._ask = Asker(f"http://127.0.0.1:{port}")
        self._lines = msgspec.json.Decoder()

    def instances(self) -> int:
        """Return how many instances have a part of the store."""
        return int(self._ask("/instances"))

    def get(self, key: str) -> Any:
        return [msgspec.json.decode(self._ask(f"/get?{urlencode({'key': key})}"))]

    def range(self, low: str) -> Any:
        query = urlencode({"from": low, "to": high_of(low)})
        return self._lines.decode_lines(self._ask(f"/range?{query}"))

    def scan(self, _key: str) -> Any:
        return self._lines.decode_lines(self._ask("/scan"))

    def sums(self, _key: str) -> Any:
        return msgspec.json.decode(self._ask("/sums"))

    def told(self, answer: Any) -> str:
        return told((row["key"], row["city"], row["total"]) for row in answer)

    def told_sums(self, answer: Any) -> str:
        return told_sums((city, *both) for city, both in answer.items())


class Plain(_Here):
    """The limit: DuckDB in this process, the same rows in a table of its own, with an index."""

    name = "duckdb"

    def __init__(self, rows: int) -> None:
        self._duckdb = duckdb.connect(config={"threads": 2})
        columns: list[tuple[Any, ...]] = list(zip(*_numbered(rows), strict=True))
        table = pa.table(dict(zip(("key", "city", "total"), columns, strict=True)))
        self._duckdb.register("given", table)
        self._duckdb.execute("create table orders as select * from given")
        self._duckdb.execute("create unique index by_key on orders(key)")
        self._duckdb.unregister("given")

    def get(self, key: str) -> Any:
        wanted = "select key, city, total from orders where key = ?"
        return self._duckdb.execute(wanted, [key]).fetchall()

    def range(self, low: str) -> Any:
        return self._duckdb.sql(_RANGE.format(low, high_of(low))).to_arrow_table()

    def scan(self, _key: str) -> Any:
        return self._duckdb.sql("select key, city, total from orders").to_arrow_table()

    def sums(self, _key: str) -> Any:
        return self._duckdb.execute(_SUMS).fetchall()


def _numbered(rows: int) -> Iterable[Row]:
    return (row_of(number) for number in range(rows))
