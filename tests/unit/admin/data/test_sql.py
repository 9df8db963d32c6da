"""SQL over HTTP: the same access, limits and hidden fields as the other endpoints for data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.data.hidden import Hidden
from mustela.client.async_client import AsyncClient
from mustela.client.client import Client
from mustela.client.errors import RemoteRefusedError
from tests.unit.admin.data.shown import QUERY, Order, Served, stores
from tests.unit.sql.inside import statements_run_here

HIDDEN = Hidden(stores=["counts"], fields=["orders:email"])


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    statements_run_here(monkeypatch)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder.build(), key_groups=2) as driver:
        driver.create_input_topic("words", key=str, value=str).pipe_input("a", "x", timestamp=7)
        orders = driver.create_input_topic("orders", key=int, value=Order)
        for number in range(25):
            orders.pipe_input(number, Order(number * 10, "secret@example.org"), timestamp=1_000)
        yield Served(driver, hidden=HIDDEN)


def post(served: Served, sql: Any, *, token: str = QUERY.query, **headers: str) -> Any:
    return served.client.ask(
        "POST",
        "/sql",
        headers={"authorization": f"Bearer {token}", "host": "localhost", **headers},
        content=msgspec.json.encode({"sql": sql} if isinstance(sql, str) else sql),
    )


def transport(served: Served) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        headers = {**dict(request.headers), "host": "localhost"}
        path = request.url.raw_path.decode()
        found = served.client.ask(request.method, path, headers=headers, content=request.content)
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    return httpx.MockTransport(answer)


def test_a_statement_is_answered_as_json_and_as_an_arrow_stream(served: Served) -> None:
    """Columns with their types, rows, and the epoch in a header."""
    sql = "select key, total, timestamp from orders where key in (3, 4) order by key"
    answer = post(served, sql)
    assert answer.status_code == 200, answer.text
    assert answer.headers["mustela-epoch"] == str(served.epoch)
    assert answer.json() == {
        "epoch": served.epoch,
        "columns": [
            {"name": "key", "type": "int64"},
            {"name": "total", "type": "int64"},
            {"name": "timestamp", "type": "timestamp[us, tz=UTC]"},
        ],
        "rows": [[3, 30, "1970-01-01T00:00:01Z"], [4, 40, "1970-01-01T00:00:01Z"]],
    }
    stream = post(served, sql, accept="application/vnd.apache.arrow.stream")
    assert pa.ipc.open_stream(stream.content).read_all()["total"].to_pylist() == [30, 40]


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("selec 1", 400, "SQL_STATEMENT"),
        ("select * from read_text('/etc/passwd')", 400, "SQL_STATEMENT"),
        ("select email from orders", 400, "SQL_STATEMENT"),
        ("select * from counts", 400, "SQL_STATEMENT"),
        ("select * from range(1001)", 400, "SQL_LIMIT"),
        ({"sql": 7}, 400, "QUERY_BODY"),
        ({"sql": "select 1", "more": 1}, 400, "QUERY_BODY"),
        ([], 400, "QUERY_BODY"),
    ],
)
def test_what_is_wrong_with_a_statement_is_a_clear_400(
    served: Served, sql: Any, status: int, code: str
) -> None:
    """With a code, and nothing of what is hidden."""
    answer = post(served, sql)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "secret@" not in answer.text


def test_a_syntax_error_has_its_place(served: Served) -> None:
    """Line and column, from 1 on."""
    found = post(served, "select key\nfrm orders").json()
    assert (found["line"], found["column"]) == (2, 5)


def test_only_a_token_for_data_may_ask(served: Served) -> None:
    """As for the rows of stores; and only by POST."""
    assert post(served, "select 1", token=QUERY.read).status_code == 403
    assert post(served, "select 1", token="w" * 32).status_code == 401
    assert served.get("/sql").status_code == 405
    assert served.client.ask("POST", "/sql/x", headers={
        "authorization": f"Bearer {QUERY.query}", "host": "localhost"
    }).status_code == 404  # fmt: skip
    assert served.said[-1].startswith("query: POST /sql/x from ")


def test_the_clients_give_rows_with_pythons_types(served: Served) -> None:
    """Both clients; a refused statement names its place."""
    sql = (
        "select key, timestamp, 1.50::decimal(4,2) as price, date '2026-01-31' as day,"
        " 'ab'::blob as raw, 'nan'::double as odd, sum(total) over () as sums"
        " from orders where key = 7"
    )
    with Client("http://localhost", token=QUERY.query, transport=transport(served)) as remote:
        found = remote.sql(sql)
        with pytest.raises(RemoteRefusedError) as refused:
            remote.sql("select\nnokey from orders")
    [row] = found.rows
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert row[:5] == (7, moment, Decimal("1.50"), date(2026, 1, 31), b"ab")
    assert row[5] != row[5]
    assert row[6] == 70
    assert found.epoch == served.epoch
    assert found.dicts()[0]["key"] == found[0][0] == 7
    assert (refused.value.fields["line"], refused.value.fields["column"]) == (2, 1)

    async def answer(request: httpx.Request) -> httpx.Response:
        return await asyncio.to_thread(transport(served).handler, request)  # type: ignore[arg-type]

    async def asked() -> Any:
        through = httpx.MockTransport(answer)
        async with AsyncClient("http://localhost", token=QUERY.query, transport=through) as client:
            return await client.sql("select count(*) from orders")

    assert asyncio.run(asked()).rows == [(25,)]
