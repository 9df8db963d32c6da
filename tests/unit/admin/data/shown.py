"""Stores of every kind with rows in them, and the application that serves them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from mustela import (
    Materialized,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
)
from mustela.admin.access import Scope, Tokens
from mustela.admin.data.application import DataApplication, is_stream
from mustela.admin.data.changes import ChangeStreams, StreamLimits
from mustela.admin.data.cursors import Cursors
from mustela.admin.data.frames import FrameService
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.row_streams import RowStreams
from mustela.admin.data.service import DataService, Limits
from mustela.admin.data.statements import SqlService
from mustela.admin.endpoints import Endpoint
from mustela.admin.guard import Guard, Policy
from mustela.clock import ManualClock
from mustela.runtime.status.change_ring import ChangeRing
from mustela.sql.process import SqlLimits
from tests.unit.admin.fakes import Client

QUERY = Tokens(read="r" * 32, query="q" * 32, operate="o" * 32)


@dataclasses.dataclass(frozen=True)
class Order:
    total: int
    email: str


def same(name: str) -> str:
    """Return the name of a topic as it is."""
    return name


def stores(builder: StreamsBuilder, topic: Callable[[str], str] = same) -> None:
    """A store of each kind.

    Args:
        builder: Gets them.
        topic: Returns what a topic is called.
    """
    words = builder.stream(topic("words"), key=str, value=str).group_by_key()
    words.count(store="counts")
    words.windowed_by(TimeWindows(size=timedelta(seconds=10), grace=timedelta(hours=1))).count(
        store="windowed"
    )
    words.windowed_by(
        SessionWindows(inactivity_gap=timedelta(seconds=5), grace=timedelta(hours=1))
    ).count(store="sessions")
    builder.table(topic("orders"), key=int, value=Order, store="orders")
    builder.table(
        topic("recent"),
        key=str,
        value=int,
        materialized=Materialized(store="recent", ttl=timedelta(days=1)),
    )
    unlogged = Materialized(store="unlogged", logged=False)
    builder.table(topic("unlogged"), key=str, value=int, materialized=unlogged)
    builder.table(topic("ticks"), key=str, value=int, store="ticks")
    supplier = Stores.persistent_versioned_key_value_store("prices", timedelta(days=1))
    prices = Materialized(supplier=supplier)
    builder.table(topic("prices"), key=str, value=float, materialized=prices)


def columns(rows: Mapping[bytes, bytes | None]) -> Any:
    """Changelog rows as an engine gives them."""
    return SimpleNamespace(keys=list(rows), values=list(rows.values()), partitions=0)


class Served:
    """The stores, served over HTTP."""

    def __init__(
        self,
        driver: Any,
        *,
        hidden: Hidden | None = None,
        limits: Limits | None = None,
        streams: StreamLimits | None = None,
    ) -> None:
        self.driver = driver
        self.queries = driver.queries
        self.base = self.epoch - 1
        self.clock = ManualClock(1_000_000)
        self.said: list[str] = []
        self.ring = ChangeRing(self.clock)
        self.service = DataService(
            self.queries,
            cursors=Cursors(b"k" * 32),
            hidden=hidden or Hidden(),
            limits=limits or Limits(),
            now=self.clock.monotonic,
            sizes=lambda: {"counts": (3, 4096)},
        )
        self.streams = ChangeStreams(self.service, self.ring, self.clock.monotonic, streams)
        statements = SqlService(
            self.queries, hidden=self.service.hidden, limits=SqlLimits(rows=1_000, size=1 << 20)
        )
        frames = FrameService(
            self.queries,
            hidden=self.service.hidden,
            limits=limits or Limits(),
            now=self.clock.monotonic,
        )
        self.service.frame = frames.shown
        answers = {
            "stores": self.service.answer,
            "sql": statements.answer,
            "frames": frames.answer,
        }
        app = DataApplication(
            answers,
            self.streams,
            requests_max=4,
            say=self.said.append,
            rows=RowStreams(self.service, self.clock.monotonic),
        )
        policy = Policy(tokens=QUERY, hosts=frozenset({"localhost", "127.0.0.1"}))
        known = [
            Endpoint(path=path, group="query", scope=Scope.QUERY, app=app, streams=is_stream)
            for path in ("/stores", "/sql", "/frames")
        ]
        self.client = Client(Guard(app, known, policy))

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(path, QUERY.query, **more)

    def json(self, path: str, status: int = 200, **more: Any) -> Any:
        answer = self.get(path, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    @property
    def epoch(self) -> int:
        """The newest epoch of the driver."""
        return self.queries.source.newest().epoch

    @property
    def open(self) -> list[int]:
        """The epochs of open snapshots, counted from 1 for the first one served here."""
        return sorted(each.epoch - self.base for each in self.queries._keeper._open.values())

    def tick(self) -> None:
        """Commit an epoch that changes nothing which the tests look at."""
        self.driver.create_input_topic("ticks", key=str, value=int).pipe_input("t", 1)

    def commits(self, epoch: int, **rows: Mapping[bytes, bytes | None]) -> None:
        """Note an epoch with changelog rows, counted from 1 for the first one served here."""
        rows_of = [(store, columns(given)) for store, given in rows.items()]
        self.ring.committed(self.base + epoch, rows_of)
