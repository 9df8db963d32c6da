"""The example of an order desk with a live page."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from mustela import TopologyTestDriver
from mustela.admin.data.changes import StreamLimits
from mustela.testing import assert_topology_safe
from tests.chromium import chromium, in_chromium
from tests.patience import PATIENCE_S
from tests.unit.admin.data.shown import QUERY, Served
from tests.unit.examples.programs import load

program = load("e28_order_desk")


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(program.app, key_groups=4) as driver:
        yield driver


def order(driver: TopologyTestDriver, number: str, *words: Any) -> None:
    value = program.Order(*words) if words else None
    driver.create_input_topic("desk-orders").pipe_input(number, value)


def pay(driver: TopologyTestDriver, number: str, amount: int) -> None:
    driver.create_input_topic("desk-payments").pipe_input(number, amount)


def by_status(driver: TopologyTestDriver) -> dict[str, tuple[int, int]]:
    rows = driver.store("by-status").items()
    return {status: (row.orders, row.total) for status, row in rows if row.orders}


def feed(driver: TopologyTestDriver) -> None:
    order(driver, "1", "ann", "tea", 30)
    order(driver, "2", "bob", "cup", 8)
    pay(driver, "1", 10)
    pay(driver, "2", 8)


def test_an_order_is_open_until_all_of_it_is_paid(driver: TopologyTestDriver) -> None:
    """Each is counted with its status; one that is deleted counts no more."""
    order(driver, "1", "ann", "tea", 30)
    order(driver, "2", "bob", "cup", 8)
    assert by_status(driver) == {"open": (2, 38)}
    pay(driver, "1", 10)
    pay(driver, "2", 8)
    assert by_status(driver) == {"part-paid": (1, 30), "paid": (1, 8)}
    pay(driver, "1", 20)
    assert driver.store("desk")["1"] == program.DeskRow("ann", "tea", 30, 30, "paid")
    order(driver, "2")
    assert by_status(driver) == {"paid": (1, 30)}


def test_it_is_safe() -> None:
    """Fewer epochs are left out: there, a status that an order only passes through has no row."""
    assert_topology_safe(program.app, feed, but_not=["epochs"])


def ask(path: str) -> httpx.Response:
    async def asked() -> httpx.Response:
        transport: Any = httpx.ASGITransport(program.service)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path)

    return asyncio.run(asked())


class Desk(Served):
    """The stores of the driver, and what its epochs change, in the place of an application."""

    def __init__(self, driver: TopologyTestDriver, patch: pytest.MonkeyPatch, **more: Any) -> None:
        super().__init__(driver, **more)
        patch.setattr(program, "app", SimpleNamespace(asgi=self.client.app))
        patch.setattr(program, "TOKEN", QUERY.query)
        self._logged: dict[tuple[str, int], int] = {}
        self._told = self.epoch
        self._rows()

    def tells(self) -> None:
        """Tell those who follow what the driver has committed since."""
        while self._told < self.epoch:
            self._told += 1
            self.ring.committed(self._told, self._rows() if self._told == self.epoch else [])

    def forgets(self) -> None:
        """Lose what was committed since, as after another instance took over for a while."""
        self._told = self.epoch + 1
        self.ring.committed(self._told, [])

    def _rows(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for (store, group), log in self.driver._cluster.changelogs.items():
            new = log[self._logged.get((store, group), 0) :]
            self._logged[store, group] = len(log)
            keys, values = [key for key, _ in new], [value for _, value in new]
            found.append((store, SimpleNamespace(keys=keys, values=values, partitions=group)))
        return found


def test_the_service_adds_the_token_that_a_page_cannot_send(
    driver: TopologyTestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the two stores of the page; there is no way to the others."""
    assert ask("/changes/desk").status_code == 503, "let in, by an application that has not started"
    feed(driver)
    Desk(driver, monkeypatch, streams=StreamLimits(stream_s=0))
    answer = ask("/changes/desk")
    assert answer.headers["content-type"].startswith("text/event-stream")
    snapshot, ready = (part for part in answer.text.split("\n\n") if "event:" in part)
    rows = json.loads(snapshot.split("data: ")[1])["rows"]
    assert {row["key"]: row["value"]["status"] for row in rows} == {"1": "part-paid", "2": "paid"}
    assert "event: ready" in ready
    assert "event: snapshot" in ask("/changes/by-status").text
    assert ask("/changes/desk-orders").status_code == 404
    assert "EventSource" in ask("/").text


def test_the_application_lives_as_long_as_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started before the first request, closed after the last."""
    calls: list[str] = []
    started = SimpleNamespace(
        start=lambda: calls.append("start"), close=lambda: calls.append("close")
    )

    async def live() -> None:
        async with program.lifespan(program.service):
            calls.append("requests")

    monkeypatch.setattr(program, "app", started)
    asyncio.run(live())
    assert calls == ["start", "requests", "close"]


class Web:
    """The service of the example on a port of 127.0.0.1."""

    def __init__(self) -> None:
        from uvicorn import Config, Server

        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        options: Any = {"lifespan": "off", "log_config": None, "timeout_graceful_shutdown": 1}
        self._server = Server(Config(program.service, **options))
        run = self._server.serve([self._socket])
        self._thread = threading.Thread(target=lambda: asyncio.run(run), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        self._socket.close()


ROWS = "[...document.querySelectorAll('#STORE tr')].map(line => line.innerText.split('\\t'))"


class Page:
    """The page in a browser, and the desk that it shows."""

    def __init__(self, browser: Any, address: str, desk: Desk) -> None:
        self._browser = browser
        self._desk = desk
        browser.get(address)
        self.shows("[...document.querySelectorAll('tbody')].every(body => body.dataset.live)")

    def rows(self, store: str) -> list[list[str]]:
        return self._browser.execute_script(f"return {ROWS.replace('STORE', store)}")

    def shows(self, condition: str) -> None:
        """Tell the page what is committed, and wait until something is so in it."""
        from selenium.webdriver.support.ui import WebDriverWait

        self._desk.tells()
        WebDriverWait(self._browser, PATIENCE_S).until(
            lambda browser: browser.execute_script(f"return {condition}")
        )

    def shows_rows(self, store: str, *rows: str) -> None:
        wanted = json.dumps([row.split() for row in rows])
        self.shows(f"JSON.stringify({ROWS.replace('STORE', store)}) === JSON.stringify({wanted})")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture
def web(browser: Any) -> Iterator[Web]:
    web = Web()
    yield web
    browser.get("about:blank")  # so that nobody follows any more
    web.close()


@in_chromium
def test_the_page_shows_orders_and_their_changes_as_they_are_committed(
    browser: Any, driver: TopologyTestDriver, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without being loaded again: new orders, payments, and orders that are deleted."""
    feed(driver)
    desk = Desk(driver, monkeypatch)
    page = Page(browser, web.address, desk)
    page.shows_rows("desk", "1 ann tea 30 10 part-paid", "2 bob cup 8 8 paid")
    order(driver, "11", "eve", "<b>pot</b>", 5)
    pay(driver, "1", 20)
    page.shows_rows(
        "desk", "1 ann tea 30 30 paid", "11 eve <b>pot</b> 5 0 open", "2 bob cup 8 8 paid"
    )
    order(driver, "1")
    page.shows_rows("desk", "11 eve <b>pot</b> 5 0 open", "2 bob cup 8 8 paid")
    page.shows_rows("by-status", "open 1 5", "paid 1 8", "part-paid 0 0")
    assert browser.get_log("browser") == []


@in_chromium
def test_the_page_comes_back_after_what_it_missed_is_no_longer_kept(
    browser: Any, driver: TopologyTestDriver, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins again with a snapshot: an order that was deleted in between is gone."""
    feed(driver)
    desk = Desk(driver, monkeypatch)
    page = Page(browser, web.address, desk)
    order(driver, "2")
    desk.forgets()
    page.shows_rows("desk", "1 ann tea 30 10 part-paid")
