"""Rows in Arrow's format over HTTP: one epoch, and as much memory as one batch needs."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.access import Scope
from mustela.admin.data.application import DataApplication, is_stream
from mustela.admin.data.asked import Asked
from mustela.admin.data.encodings import ARROW
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.row_streams import RowStreams, StreamLimits
from mustela.admin.endpoints import Endpoint
from mustela.admin.guard import Guard, Policy
from mustela.queries import snapshot
from mustela.sql import tables
from tests.unit.admin.data.shown import QUERY, Order, Served, stores
from tests.unit.admin.fakes import Client

pa = pytest.importorskip("pyarrow")
ROWS, ROW_BYTES = 400, 20_000


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder, key_groups=4) as made:
        words = made.create_input_topic("words", key=str, value=str)
        for at, word in enumerate(["a", "b", "a", "c"]):
            words.pipe_input(word, "x", timestamp=at * 6_000)
        prices = made.create_input_topic("prices", key=str, value=float)
        for at in range(3):
            prices.pipe_input("pen", at / 2, timestamp=at * 1_000)
        orders = made.create_input_topic("orders", key=int, value=Order)
        for number in range(ROWS):
            orders.pipe_input(number, Order(number, "m" * ROW_BYTES))
        yield made


class Streams:
    """The stores of the driver, with streams."""

    def __init__(self, driver: TopologyTestDriver, **more: Any) -> None:
        self.served = Served(driver, **more)
        self.streams = RowStreams(self.served.service, self.served.clock.monotonic)
        service = self.served.service
        app = DataApplication({"stores": service.answer}, None, requests_max=4, rows=self.streams)
        endpoint = Endpoint(
            path="/stores", group="query", scope=Scope.QUERY, app=app, streams=is_stream
        )
        policy = Policy(tokens=QUERY, hosts=frozenset({"localhost"}))
        self.client = Client(Guard(app, [endpoint], policy))

    def get(self, path: str) -> Any:
        return self.client.get(path, QUERY.query, headers={"accept": ARROW})

    def rows(self, path: str) -> list[dict[str, Any]]:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == ARROW
        assert int(answer.headers["mustela-epoch"]) == self.served.epoch
        found: list[dict[str, Any]] = pa.ipc.open_stream(answer.content).read_all().to_pylist()
        return found


def test_rows_have_typed_columns(driver: TopologyTestDriver) -> None:
    """Of each kind, within the same bounds as pages; what is refused is an answer."""
    streams = Streams(driver)
    rows = streams.rows("/stores/counts?from=b")
    assert [(row["key"], row["value"]) for row in rows] == [("b", 1), ("c", 1)]
    rows = streams.rows("/stores/windowed?time_from=10000")
    assert [(row["key"], row["value"]) for row in rows] == [("a", 1), ("c", 1)]
    assert len(streams.rows("/stores/sessions?reverse=true")) == 4
    assert [row["value"] for row in streams.rows("/stores/prices?versions=true")] == [0, 0.5, 1]
    assert streams.rows("/stores/orders?from=7&limit=1")[0]["total"] == 7
    for path, status in (("none", 404), ("counts?from=1&prefix=2", 400), ("counts?cursor=x", 400)):
        assert streams.get(f"/stores/{path}").status_code == status
    assert streams.served.open == []


def test_hidden_fields_are_no_columns(driver: TopologyTestDriver) -> None:
    """As in pages, and in SQL."""
    streams = Streams(driver, hidden=Hidden(stores=["prices"], fields=["orders:email"]))
    assert set(streams.rows("/stores/orders?limit=1")[0]) == {"key", "total", "timestamp"}
    assert streams.get("/stores/prices").status_code == 404


def asked(path: str) -> Asked:
    return Asked(path=("stores", path), headers={"accept": ARROW})


def test_a_stream_of_all_rows_takes_the_memory_of_a_batch(
    driver: TopologyTestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows there are, and however large they are."""
    monkeypatch.setattr(tables, "_BATCH_BYTES", 200_000)
    monkeypatch.setattr(tables, "_FIRST", 8)
    monkeypatch.setattr(snapshot, "_BATCH_MAX", 8)
    streams = Streams(driver).streams
    sizes: list[int] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sizes.append(len(message.get("body", b"")))

    asyncio.run(streams.serve(asked("counts"), receive, send))  # what is imported once
    sizes.clear()
    tracemalloc.start()
    asyncio.run(streams.serve(asked("orders"), receive, send))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sizes) > ROWS * ROW_BYTES
    assert max(sizes) < 500_000
    assert peak < sum(sizes) / 3


def test_a_client_that_takes_nothing_is_dropped(driver: TopologyTestDriver) -> None:
    """Nothing is read ahead for it: one chunk waits, however many rows there are."""
    served = Served(driver)
    streams = RowStreams(served.service, served.clock.monotonic, StreamLimits(send_s=0.01))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) > 2:
            await asyncio.Event().wait()

    asyncio.run(streams.serve(asked("orders"), receive, send))
    assert len(sent) == 3
    assert sent[-1]["more_body"], "it is cut off, so that the client knows"
    assert served.open == []
