"""The client of stores elsewhere, against the server itself."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.data.changes import BEAT_S
from mustela.client.asking import RemoteChange
from mustela.client.async_client import AsyncClient
from mustela.client.client import Client
from mustela.client.errors import ClientLibraryError, RemoteRefusedError, RemoteUnavailableError
from tests.unit.admin.data.shown import QUERY, Order, Served, stores

AT = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000


@pytest.fixture
def served() -> Iterator[Served]:
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder.build(), key_groups=2) as driver:
        words = driver.create_input_topic("words", key=str, value=str)
        for place, word in enumerate(("a", "b/c", "a", "changes", "..", "")):
            words.pipe_input(word, "x", timestamp=AT + 4_000 * place)
        orders = driver.create_input_topic("orders", key=int, value=Order)
        for number in range(25):
            orders.pipe_input(number, Order(number * 10, "a@b"))
        prices = driver.create_input_topic("prices", key=str, value=float)
        for place, price in enumerate((1.5, 2.5)):
            prices.pipe_input("p", price, timestamp=AT + 1_000 * place)
        yield Served(driver)


def client(served: Served, token: str = QUERY.query) -> Client:
    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        headers = dict(request.headers)
        if path.endswith("/changes") or "/changes?" in path:
            served.clock.advance(1)
        headers["host"] = "localhost"
        found = served.client.ask(
            request.method, path, headers=headers, content=request.content or b""
        )
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    return Client("http://localhost", token=token, transport=httpx.MockTransport(answer))


def test_rows_come_back_as_the_types_that_were_asked_for(served: Served) -> None:
    """Keys and values are those of the store's serdes, or JSON where no type is given."""
    with client(served) as remote:
        orders = remote.store("orders", key=int, value=Order)
        assert orders[7] == Order(70, "a@b")
        assert orders.get(99) is None
        assert orders.get(99, "none") == "none"
        assert 7 in orders
        assert 99 not in orders
        assert orders.get_many([3, 99]) == [Order(30, "a@b"), None]
        assert remote.store("orders").get("7") == {"total": 70, "email": "a@b"}
        with pytest.raises(KeyError):
            orders[99]


@pytest.mark.parametrize(("key", "count"), [("b/c", 1), ("changes", 1), ("..", 1), ("", 1)])
def test_any_key_can_be_asked_for(served: Served, key: str, count: int) -> None:
    """Also one whose path would mean something else."""
    assert client(served).store("counts", key=str, value=int)[key] == count


def test_a_range_goes_through_all_pages(served: Served) -> None:
    """Forwards, backwards, between bounds; nothing twice, nothing left out."""
    orders = client(served).store("orders", key=int, value=Order)

    assert [each.key for each in orders.range(page=4)] == list(range(25))
    assert [each.key for each in orders.range(3, 5, reverse=True, page=2)] == [5, 4, 3]
    assert list(orders) == list(range(25))
    assert (len(orders), orders.count(20)) == (25, 5)
    words = client(served).store("counts", key=str, value=int)
    assert [each.key for each in words.prefix_scan("b")] == ["b/c"]


def test_windows_sessions_and_versions_of_a_key(served: Served) -> None:
    """Each row has the start and the end of its window, or until when it was valid."""
    remote = client(served)
    (window,) = remote.store("windowed", key=str, value=int).windows("a")
    assert (window.start, window.end, window.value) == (AT, AT + 10_000, 2)
    sessions = remote.store("sessions", key=str, value=int).sessions("a")
    assert [(each.start, each.value) for each in sessions] == [(AT, 1), (AT + 8_000, 1)]
    prices = remote.store("prices", key=str, value=float)
    assert [each.value for each in prices.versions("p")] == [1.5, 2.5]
    assert prices.get("p", as_of=datetime(2026, 1, 1, tzinfo=UTC)) == 1.5


def test_a_refused_question_names_the_servers_code(served: Served) -> None:
    """And what to do about it; a wrong token is told as such."""
    with pytest.raises(RemoteRefusedError) as caught:
        list(client(served).store("none").range())
    assert caught.value.fields["code"] == "QUERY_NO_STORE"
    with pytest.raises(RemoteRefusedError, match="token") as caught:
        client(served, token="w" * 32).stores()
    assert "argument token" in (caught.value.fix or "")
    assert client(served).stores()[0]["store"] == "counts"


def test_an_address_without_a_scheme_is_refused_and_its_fix_helps(served: Served) -> None:
    """Before anything is asked."""
    with pytest.raises(RemoteRefusedError) as caught:
        Client("127.0.0.1:8080")
    assert "write http://127.0.0.1:8080" in (caught.value.fix or "")
    Client("http://127.0.0.1:8080").close()
    assert client(served).stores()


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    """The error says what to look at."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody is there")

    with pytest.raises(RemoteUnavailableError, match="does not answer"):
        Client("http://localhost:1", transport=httpx.MockTransport(answer)).stores()


Answer = Callable[[httpx.Request], httpx.Response]


def blocking_changes(answer: Answer, count: int, since: int | None) -> list[RemoteChange[str, int]]:
    with Client("http://localhost", transport=httpx.MockTransport(answer)) as remote:
        changes = remote.store("counts", key=str, value=int).changes(since=since)
        return [next(changes) for _ in range(count)]


def awaited_changes(answer: Answer, count: int, since: int | None) -> list[RemoteChange[str, int]]:
    async def go() -> list[RemoteChange[str, int]]:
        async with AsyncClient("http://localhost", transport=httpx.MockTransport(answer)) as remote:
            changes = remote.store("counts", key=str, value=int).changes(since=since)
            return [await anext(changes) for _ in range(count)]

    return asyncio.run(go())


BOTH = pytest.mark.parametrize("changes_of", [blocking_changes, awaited_changes])


@BOTH
def test_changes_go_on_over_connections(changes_of: Callable[..., Any]) -> None:
    """A stream that ends, or says so, is asked for again, after the last event that it had."""
    bodies = [
        b'event: snapshot\ndata: {"epoch":4,"rows":[{"key":"a","value":1}]}\n\n'
        b'id: 4\nevent: ready\ndata: {"epoch":4}\n\n',
        b"event: end\ndata: {}\n\n",
        b'id: 5\nevent: change\ndata: {"epoch":5,"rows":[{"key":"a","deleted":true}]}\n\n',
    ]
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("last-event-id"))
        return httpx.Response(200, content=bodies.pop(0))

    assert [(each.kind, each.epoch) for each in changes_of(answer, 3, None)] == [
        ("snapshot", 4),
        ("ready", 4),
        ("deleted", 5),
    ]
    assert asked == [None, "4", "4"]


@BOTH
def test_changes_begin_again_where_the_server_has_forgotten(changes_of: Callable[..., Any]) -> None:
    """After 410 the next request has no epoch, and the snapshot comes again."""
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("last-event-id"))
        if len(asked) == 1:
            return httpx.Response(410, json={"code": "QUERY_EPOCH_GONE", "error": "gone"})
        return httpx.Response(200, content=b'id: 9\nevent: ready\ndata: {"epoch":9}\n\n')

    assert changes_of(answer, 1, 3)[0].epoch == 9
    assert asked == ["3", None]


@BOTH
def test_changes_bear_two_failures_in_a_row_and_not_three(changes_of: Callable[..., Any]) -> None:
    """An event in between begins the count again; what is refused is not asked again."""
    script = [None, None, b'id: 2\nevent: ready\ndata: {"epoch":2}\n\n', None, None, None, b""]

    def answer(request: httpx.Request) -> httpx.Response:
        found = script.pop(0)
        if found is None:
            raise httpx.ConnectError("nobody is there")
        return httpx.Response(200, content=found)

    with pytest.raises(RemoteUnavailableError, match="does not answer"):
        changes_of(answer, 2, None)
    assert script == [b""]
    refusals: list[str] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        refusals.append(request.url.path)
        return httpx.Response(404, json={"code": "QUERY_NO_STORE", "error": "there is none"})

    with pytest.raises(RemoteRefusedError):
        changes_of(refuse, 1, None)
    assert refusals == ["/stores/counts/changes"]


@BOTH
def test_a_store_that_does_not_change_is_followed_on(changes_of: Callable[..., Any]) -> None:
    """A server without changes to send says every now and then that it lives: it is waited for."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"]["read"] > 2 * BEAT_S
        assert request.extensions["timeout"]["connect"] == 10.0
        return httpx.Response(200, content=b': \n\nid: 9\nevent: ready\ndata: {"epoch":9}\n\n')

    assert changes_of(answer, 1, None)[0].epoch == 9


def test_the_asynchronous_client_is_the_same(served: Served) -> None:
    """Gets, pages, counts and refusals."""

    async def go() -> Any:
        transport = httpx.ASGITransport(served.client.app)
        async with AsyncClient(
            "http://localhost", token=QUERY.query, transport=transport
        ) as remote:
            orders = remote.store("orders", key=int, value=Order)
            assert await orders.get(7) == Order(70, "a@b")
            assert await orders.get_many([1, 99]) == [Order(10, "a@b"), None]
            assert [each.key async for each in orders.range(page=10)] == list(range(25))
            assert [key async for key in orders] == list(range(25))
            assert await orders.count() == 25
            prices = remote.store("prices", key=str, value=float)
            assert [each.value for each in await prices.versions("p")] == [1.5, 2.5]
            with pytest.raises(RemoteRefusedError):
                await remote.store("none").get("x")
            return await remote.stores()

    assert asyncio.run(go())


def test_the_fix_of_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """CLIENT_LIBRARY: the extra that it names is one of the distribution, and brings httpx."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ClientLibraryError) as caught:
        Client("http://localhost")
    assert "mustela[client]" in (caught.value.fix or "")
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["client"][0].startswith("httpx")


def test_the_fixes_of_refused_and_unanswered_questions_help(served: Served) -> None:
    """REMOTE_REFUSED: with a token it is answered. REMOTE_UNAVAILABLE: where a server listens."""
    with pytest.raises(RemoteRefusedError):
        client(served, token="w" * 32).stores()
    assert client(served).stores()
