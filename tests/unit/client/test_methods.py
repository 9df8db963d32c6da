"""The query methods of custom stores, called by both clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.client.async_client import AsyncClient
from mustela.client.errors import RemoteRefusedError, RemoteUnavailableError
from mustela.processors import ContextualProcessor, Record
from mustela.stores import CustomStore, query_method
from tests.unit.admin.data.shown import QUERY, Served
from tests.unit.client.test_client import client


class Visits(CustomStore):
    """Pages by visitor."""

    def write(self, visitor: tuple[str, int], page: str) -> None:
        """Keep a page."""
        self.rows(visitor).put(page.encode(), b"")

    @query_method
    def pages(self, key: Any, most: int = 10) -> list[str]:
        """The first pages of a visitor."""
        return [page.decode() for page, _ in self.rows(key).range()][:most]


class Write(ContextualProcessor):
    """Keeps what comes."""

    def process(self, record: Record) -> None:
        """Keep a record."""
        self.context.state_store("visits").write(record.key, record.value)


@pytest.fixture
def served() -> Iterator[Served]:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=tuple[str, int], value=str)
    store = Visits().builder("visits", key=tuple[str, int])
    stream.process(Write, stores=[store], name="written")
    with TopologyTestDriver(builder, key_groups=4) as driver:
        topic = driver.create_input_topic("in")
        for page in ("cart", "home", "search"):
            topic.pipe_input(("ann", 7), page)
        yield Served(driver)


def test_a_method_is_called_by_its_name_with_its_parameters(served: Served) -> None:
    """The key is of the type that was given to the store; what is no method is refused."""
    key = ("ann", 7)
    with client(served) as remote:
        visits = remote.store("visits", key=tuple[str, int])
        assert visits.call("pages", key=key, most=2) == ["cart", "home"]
        assert visits.call("pages", key=("bob", 7)) == []
        newest = served.epoch
        assert visits.call("pages", key=key, most=1, min_epoch=newest) == ["cart"]
        with pytest.raises(RemoteUnavailableError, match=f"epoch {newest + 1} was not committed"):
            visits.call("pages", key=key, min_epoch=newest + 1)
        with pytest.raises(RemoteRefusedError, match="no such query method"):
            visits.call("write", key=key, page="x")
        with pytest.raises(RemoteRefusedError, match="most"):
            visits.call("pages", key=key, most="many")

    async def go() -> Any:
        transport = httpx.ASGITransport(served.client.app)
        remote = AsyncClient("http://localhost", token=QUERY.query, transport=transport)
        async with remote:
            return await remote.store("visits", key=tuple[str, int]).call("pages", key=key)

    assert asyncio.run(go()) == ["cart", "home", "search"]
