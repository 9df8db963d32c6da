"""Stores of every kind are the same, whichever way they are read."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from tests.conformance.reading_ways import KINDS, WAYS, Reader
from tests.unit.admin.data.shown import Order, Served, stores
from tests.unit.sql.inside import statements_run_here

WORDS = ("a", "b", "b/c", "changes", "..", "ü", "7", "")


def fill(driver: TopologyTestDriver, rng: random.Random) -> None:
    """Send something to each source, deletions too."""
    words = driver.create_input_topic("words", start=0, auto_advance=timedelta(seconds=3))
    for _ in range(30):
        words.pipe_input(rng.choice(WORDS), "x")
    orders = driver.create_input_topic("orders")
    for key in range(12):
        orders.pipe_input(key - 3, Order(key, f"{key}@b"))
    for key in rng.sample(range(12), 3):
        orders.pipe_input(key - 3, None)
    for name in ("recent", "unlogged"):
        topic = driver.create_input_topic(name)
        for word in WORDS:
            topic.pipe_input(word, rng.choice((1, 2, 3, None)))
    prices = driver.create_input_topic("prices")
    for at, word in enumerate(WORDS):
        prices.pipe_input(word, at / 4, timestamp=1_000 * at)
        prices.pipe_input(word, at / 2, timestamp=1_000 * at + 500)


@pytest.mark.parametrize("key_groups", [1, 8])
def test_every_way_shows_the_same_rows(key_groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, values and times in the same order, for each kind of store."""
    statements_run_here(monkeypatch)
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder, key_groups=key_groups) as driver:
        fill(driver, random.Random(key_groups))
        served = Served(driver)
        for store in KINDS:
            shown = {name: way(Reader(served, store)) for name, way in WAYS.items()}
            wanted = shown.pop("handle")
            assert len(wanted) > 3, store
            for name, rows in shown.items():
                assert rows == wanted, (store, name)
