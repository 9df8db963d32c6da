"""The example of an application inside a web service."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from mustela import TopologyTestDriver
from mustela.events import AppState, EpochDone, StateChanged
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e24_web_service")

STARTING = StateChanged(
    state=AppState.STARTING, before=AppState.CREATED, at=datetime(2026, 1, 1, tzinfo=UTC)
)
EPOCH = EpochDone(
    epoch=1,
    records=2,
    lag=3,
    seconds=0.1,
    job_seconds=0.1,
    watermark=0,
    counters={},
    reports=(),
)


def feed(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("web-orders").pipe_key_value_list([("ann", "tea"), ("ann", "cup")])


def test_orders_are_counted() -> None:
    """However it is run."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        assert driver.create_output_topic("orders-of").read_key_values_to_map() == {"ann": 2}
    assert_topology_safe(program.app, feed)


def ask(path: str) -> httpx.Response:
    async def asked() -> httpx.Response:
        transport: Any = httpx.ASGITransport(program.service)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.get(path)

    return asyncio.run(asked())


def test_the_service_tells_what_its_application_is_at() -> None:
    """Lines for states and epochs, and its health; the rest asks for a token."""
    for event in (STARTING, EPOCH):
        program.news.on_event(event)
    assert ask("/news").json() == ["starting", "epoch 1: 2 records, lag 3"]
    assert ask("/admin/health/ready").status_code == 503
    assert ask("/admin/offsets").status_code == 401


def test_the_application_lives_as_long_as_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started before the first request, closed after the last."""
    calls: list[str] = []

    class Started:
        def start(self) -> None:
            calls.append("start")

        def close(self) -> None:
            calls.append("close")

    async def live() -> None:
        async with program.lifespan(program.service):
            calls.append("requests")

    monkeypatch.setattr(program, "app", Started())
    asyncio.run(live())
    assert calls == ["start", "requests", "close"]
