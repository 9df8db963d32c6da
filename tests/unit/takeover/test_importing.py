"""Exported rows back into stores: what is written is what was there, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    Materialized,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.admin.data.standing import StandingState
from mustela.clock import ManualClock
from mustela.plan.plan import Plan
from mustela.planner.planner import plan
from mustela.runtime.takeover.importing import (
    ImportedRowError,
    Importing,
    ImportRefusedError,
    is_row,
)

GROUPS = 4
HOUR = timedelta(hours=1)
STORES = ("counts", "tens", "sessions", "plain", "prices", "recent", "headed")


def build(builder: StreamsBuilder) -> None:
    """A store of each kind that rows can be imported into, and two of others."""
    words = builder.stream("words", key=str, value=str).group_by_key()
    words.count(store="counts")
    tens = words.windowed_by(TimeWindows(size=timedelta(seconds=10), grace=HOUR))
    tens.count(store="tens")
    gap = SessionWindows(inactivity_gap=timedelta(seconds=5), grace=HOUR)
    words.windowed_by(gap).count(store="sessions")
    supplier: Any = Stores.persistent_key_value_store("plain")
    builder.table("plain", key=str, value=int, materialized=Materialized(supplier=supplier))
    supplier = Stores.persistent_versioned_key_value_store("prices", timedelta(days=1))
    builder.table("prices", key=str, value=float, materialized=Materialized(supplier=supplier))
    kept: Any = Materialized(store="recent", ttl=timedelta(days=1))
    builder.table("recent", key=str, value=dict, materialized=kept)
    kept = Materialized(store="headed", with_headers=True)
    builder.table("headed", key=str, value=str, materialized=kept)


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    build(builder)
    with TopologyTestDriver(builder, key_groups=GROUPS) as made:
        words = made.create_input_topic("words", key=str, value=str)
        for at in range(40):
            words.pipe_input(f"k{at % 7}", "x", timestamp=at * 3_000)
        for topic in ("plain", "prices"):
            pipe = made.create_input_topic(topic, key=str, value=int if topic == "plain" else float)
            for at in range(9):
                pipe.pipe_input(f"p{at % 3}", at, timestamp=at * 1_000)
        made.create_input_topic("prices", key=str, value=float).pipe_input(
            "p1", None, timestamp=60_000
        )
        recent = made.create_input_topic("recent", key=str, value=dict)
        recent.pipe_input("r", {"a": [1, "é"]}, timestamp=7)
        headed = made.create_input_topic("headed", key=str, value=str)
        headed.pipe_input("h", "v", timestamp=7, headers=(("one", b"\x00"), ("two", None)))
        yield made


@pytest.fixture(scope="module")
def program() -> Plan:
    builder = StreamsBuilder()
    build(builder)
    return plan(builder.build())


def exported(driver: TopologyTestDriver, store: str) -> list[dict[str, Any]]:
    """Return the rows of a store as an export has them."""
    state = StandingState(driver.queries.source, ManualClock(0))
    more = {"versions": "true"} if store == "prices" else {}
    rows = [row for page in state.pages((store,), more) for row in page["rows"]]
    state.close()
    return rows


@pytest.mark.parametrize("store", STORES)
def test_what_is_written_is_what_was_there(
    driver: TopologyTestDriver, program: Plan, store: str
) -> None:
    """Key group by key group, of every kind; nothing else is deleted."""
    edition = driver.queries.source.newest()
    place = edition.stores[store]
    rows = exported(driver, store)
    assert rows
    importing = Importing(program, store, GROUPS, now_ms=99)
    importing.add(rows)
    written = dict(importing.written(edition, place, merge=False))
    importing.close()
    for group in range(GROUPS):
        with closing(edition.open(place.stage, group)) as view:
            there = {k: row for k, row in view.range(store, None, None) if is_row(place.spec, k)}
        found = {k: row for k, row in written.get(group, []) if is_row(place.spec, k)}
        assert found == there
        assert all(row is not None for _, row in written.get(group, []))


def test_rows_are_merged_into_those_that_are_there(
    driver: TopologyTestDriver, program: Plan
) -> None:
    """Only what is new or other is written; without that the others are deleted."""
    edition = driver.queries.source.newest()
    place = edition.stores["counts"]
    for merge, deleted in ((True, 0), (False, 6)):
        importing = Importing(program, "counts", GROUPS, now_ms=99)
        importing.add([{"key": "k0", "value": 70, "timestamp": 5}])
        rows = [row for _, some in importing.written(edition, place, merge=merge) for row in some]
        importing.close()
        assert len([row for _, row in rows if row is None]) == deleted
        assert [key for key, row in rows if row is not None] == [b"k0"]


@pytest.mark.parametrize(
    "row",
    [
        {"key": "a", "value": "no number", "timestamp": 1},
        {"key": 7, "value": 1, "timestamp": 1},
        {"key": "a", "value": None, "timestamp": 1},
        {"key": "a", "value": 1},
        {"key": "a", "value": True, "timestamp": 1},
        {"key": "a", "value": 1, "timestamp": 1, "headers": [["n", "*"]]},
    ],
)
def test_a_row_of_another_store_is_named(program: Plan, row: dict[str, Any]) -> None:
    """By its number; changed as the fix says, it is taken."""
    importing = Importing(program, "counts", GROUPS, now_ms=99)
    good = {"key": "a", "value": 1, "timestamp": 1}
    with pytest.raises(ImportedRowError, match="row 2"):
        importing.add([good, row])
    importing.close()
    again = Importing(program, "counts", GROUPS, now_ms=99)
    again.add([good, good])
    again.close()


def test_a_store_that_holds_more_than_it_shows_is_refused(program: Plan) -> None:
    """As one that is not there; the fix leads to stores that are, or to the input."""
    with pytest.raises(ImportRefusedError) as found:
        Importing(program, "count", GROUPS, now_ms=99)
    assert "counts" in str(found.value)
    Importing(program, "counts", GROUPS, now_ms=99).close()
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    words.count(materialized=Materialized(store="here", logged=False))
    with pytest.raises(ImportRefusedError, match="no changelog"):
        Importing(plan(builder.build()), "here", GROUPS, now_ms=99)
