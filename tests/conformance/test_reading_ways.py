"""Stores of every kind are the same, whichever way they are read."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.data.standing import StandingState, StateAnswers
from mustela.client.client import Client
from tests.conformance.reading_ways import Reader, all_stores, check, input_of, rows_of
from tests.unit.admin.data.shown import QUERY, Served
from tests.unit.sql.inside import statements_run_here


class Asked(StateAnswers):
    """Asks over HTTP what ``mustela state`` asks."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def asked(self, path: Sequence[str], parameters: Mapping[str, str]) -> tuple[int, bytes]:
        answer = self._http.get(f"/stores/{'/'.join(path)}?{urlencode(parameters)}")
        return answer.status_code, answer.content


def places(driver: TopologyTestDriver) -> dict[str, Reader]:
    """The stores in this process and served from it, and as a process that comes once has them."""
    served = Served(driver)

    def answer(request: httpx.Request) -> httpx.Response:
        target = request.url.raw_path.decode()
        headers = {**request.headers, "host": "localhost"}
        body = request.content or b""
        found = served.client.ask(request.method, target, headers=headers, content=body)
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    transport = httpx.MockTransport(answer)
    known: dict[str, Any] = {"base_url": "http://localhost", "transport": transport}
    http = httpx.Client(headers={"authorization": f"Bearer {QUERY.query}"}, **known)

    def client() -> Client:
        return Client("http://localhost", token=QUERY.query, transport=transport)

    standing = StandingState(driver.queries.source, served.clock)
    return {
        "driver": Reader(here=driver, http=http, client=client, state=Asked(http)),
        "standing": Reader(state=standing),
    }


@pytest.mark.parametrize("key_groups", [1, 8])
def test_every_way_shows_the_same_rows(key_groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, values and times in the same order, for each kind of store."""
    statements_run_here(monkeypatch)
    builder = StreamsBuilder()
    all_stores(builder)
    with TopologyTestDriver(builder, key_groups=key_groups) as driver:
        for topic, key, value, at in input_of(random.Random(key_groups).choice):
            driver.create_input_topic(topic).pipe_input(key, value, timestamp=at)
        given = places(driver)
        check(given, rows_of(given["driver"]), ["line 1", "line 4", "line 7"])
