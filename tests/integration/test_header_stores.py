"""Stores with headers in a running application: begun on rows without them, and restored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import Materialized, Record, Stores, StreamsBuilder, Windowed
from mustela.processors import ContextualProcessor
from mustela.stores import StoreBuilder
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]

HOUR, SIZE = timedelta(hours=1), timedelta(milliseconds=10)
KEYS = [f"k{number}" for number in range(12)]


def stores(*, with_headers: bool) -> list[StoreBuilder]:
    """A store of each kind, by the same names with headers and without."""
    if not with_headers:
        rows = Stores.persistent_timestamped_key_value_store("rows")
        windows = Stores.persistent_timestamped_window_store("windows", HOUR, SIZE)
        sessions = Stores.persistent_session_store("sessions", HOUR)
        return [
            Stores.timestamped_key_value_store_builder(rows, key=str, value=str),
            Stores.timestamped_window_store_builder(windows, key=str, value=str),
            Stores.session_store_builder(sessions, key=str, value=str),
        ]
    rows = Stores.persistent_timestamped_key_value_store_with_headers("rows")
    windows = Stores.persistent_timestamped_window_store_with_headers("windows", HOUR, SIZE)
    sessions = Stores.persistent_session_store_with_headers("sessions", HOUR)
    return [
        Stores.timestamped_key_value_store_with_headers_builder(rows, key=str, value=str),
        Stores.timestamped_window_store_with_headers_builder(windows, key=str, value=str),
        Stores.session_store_with_headers_builder(sessions, key=str, value=str),
    ]


class Keep(ContextualProcessor[str, str, str, str]):
    """Keeps the last record of a key in each store, and tells of those before it."""

    def process(self, record: Record[str, str]) -> None:
        state, key = self.context.state_store, record.key
        session = Windowed(key, 0, 5)
        row, window = state("rows").get(key), state("windows").get(key, 0)
        visit = state("sessions").fetch_session(key, 0, 5)
        known = self.context.any_key_store("table").get(key)
        told: list[Any] = [row, window, visit, known]
        if row is not None and hasattr(row, "headers"):
            told = [row.value, *(dict(each.headers).get("n") for each in (row, window, visit))]
            told += [known.value, dict(known.headers).get("n")]
            told.append(dict(state("whole").get("all").headers))
        self.context.forward(record.with_value(repr(told)))
        more: dict[str, Any] = {"headers": record.headers} if hasattr(row, "headers") else {}
        state("rows").put(key, record.value, timestamp=1, **more)
        state("windows").put(key, record.value, 0, timestamp=1, **more)
        state("sessions").put(session, record.value, **more)


def keeping(
    source: str, facts: str, sink: str, *, with_headers: bool
) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        made = stores(with_headers=with_headers)
        for store in made:
            builder.add_state_store(store)
        kept = Materialized[Any, Any](store="whole", with_headers=with_headers)
        builder.global_table(facts, key=str, value=str, materialized=kept)
        stream = builder.stream(source, key=str, value=str)
        stream.to_table(materialized=Materialized(store="table", with_headers=with_headers))
        names = [store.name for store in made]
        told = stream.process(Keep, stores=names, reads=["table"], name="keep")
        told.to(sink, key=str, value=str)

    return build


def test_a_store_begins_to_keep_headers_and_is_restored_with_them(world: World) -> None:
    """Rows of a run without headers have none; those of the runs after it have them for good.

    The copy of a global table is made anew: its topic has what it lacks.
    """
    source, facts, sink = world.topic("in", partitions=2), world.topic("facts"), world.topic("out")
    world.send_with_headers(facts, "all", "x", [("fact", b"1")])
    for run in range(4):
        if run == 3:
            shutil.rmtree(world.directory / "state")
        for key in KEYS:
            world.send_with_headers(source, key, f"v{run}", [("n", b"%d" % run)])
        world.run(keeping(source, facts, sink, with_headers=run > 0), lanes=2 + run % 2)
    told: dict[str, list[str]] = {key: [] for key in KEYS}
    for row in world.rows(sink):
        told[(row.key or b"").decode()].append((row.value or b"").decode())
    fact = {"fact": b"1"}
    assert told == {
        key: [
            repr([None] * 4),
            repr(["v0", None, None, None, "v0", None, fact]),
            repr(["v1", b"1", b"1", b"1", "v1", b"1", fact]),
            repr(["v2", b"2", b"2", b"2", "v2", b"2", fact]),
        ]
        for key in KEYS
    }


def test_a_store_that_keeps_headers_does_not_stop_to(world: World) -> None:
    """A program that cannot read its rows says so at its start."""
    source, facts, sink = world.topic("in"), world.topic("facts"), world.topic("out")
    world.send_with_headers(source, "a", "v", [("n", b"1")])
    world.run(keeping(source, facts, sink, with_headers=True))
    error = world.fail(keeping(source, facts, sink, with_headers=False))
    assert error.code == "STORE_LAYOUT_CHANGED"
    assert ", headers" in str(error)
