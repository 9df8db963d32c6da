"""Stores of every kind are the same, whichever way they are read."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.data.standing import StandingState, StateAnswers
from mustela.client.client import Client
from mustela.clock import ManualClock
from mustela.queries.queries import Queries
from mustela.queries.source import StateSource
from mustela.sql.asking import SqlReadable
from tests.conformance.reading_ways import Reader, all_stores, check, input_of, rows_of
from tests.conformance.standing_places import Brokers
from tests.unit.admin.data.shown import QUERY, Served
from tests.unit.sql.inside import statements_run_here


class Asked(StateAnswers):
    """Asks over HTTP what ``mustela state`` asks."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def asked(self, path: Sequence[str], parameters: Mapping[str, str]) -> tuple[int, bytes]:
        answer = self._http.get(f"/stores/{'/'.join(path)}?{urlencode(parameters)}")
        return answer.status_code, answer.content


class Place(SqlReadable):
    """Where stores are read in this process.

    Args:
        queries: What reads them.
    """

    def __init__(self, queries: Queries) -> None:
        self._given = queries

    @property
    def queries(self) -> Queries:
        return self._given


def place(here: TopologyTestDriver | Place) -> Reader:
    """The stores in this process, and served from it."""
    served = Served(here)

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

    return Reader(here=here, http=http, client=client, state=Asked(http))


def standing(source: StateSource, stack: ExitStack) -> Reader:
    """The stores as a process that comes once has them."""
    state = StandingState(source, ManualClock(1_000_000))
    stack.callback(state.close)
    return Reader(here=Place(state.queries), state=state)


def pipe(driver: TopologyTestDriver, given: Iterable[tuple[str, Any, Any, int]]) -> None:
    """Let a driver have some input."""
    for topic, key, value, at in given:
        driver.create_input_topic(topic).pipe_input(key, value, timestamp=at)


def parts_of(given: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield parts of a list."""
    return (given[at : at + size] for at in range(0, len(given), size))


ELSEWHERE = {"unlogged", "towns"}
"""Stores that changelogs do not have."""
NOTES = ["line 1", "line 4", "line 7"]


@pytest.mark.parametrize("key_groups", [1, 8])
def test_every_way_shows_the_same_rows(
    key_groups: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Keys, values and times in the same order, for each kind of store, wherever it is: in the
    driver, in a replica that follows it, in the directory that it leaves, and in the changelogs."""
    statements_run_here(monkeypatch)
    builder = StreamsBuilder()
    all_stores(builder)
    with TopologyTestDriver(builder, key_groups=key_groups) as driver, ExitStack() as stack:
        given = list(input_of(random.Random(key_groups).choice))
        brokers = Brokers(driver, tmp_path, monkeypatch)
        pipe(driver, given[: len(given) // 2])
        brokers.commit()
        replicas = stack.enter_context(ExitStack())
        replica = brokers.replica(replicas)
        for part in parts_of(given[len(given) // 2 :], 20):
            pipe(driver, part)
            brokers.commit()
            assert replica.step()
        running = place(driver)
        wanted = rows_of(running)
        check({"driver": running, "once": standing(driver.queries.source, stack)}, wanted, NOTES)
        logged = {store: rows for store, rows in wanted.items() if store not in ELSEWHERE}
        check({"replica": place(Place(Queries(replica)))}, logged, NOTES)
        replicas.close()
        for left in ("directory", "changelogs"):
            check({left: standing(brokers.left(stack, left), stack)}, logged, NOTES)
