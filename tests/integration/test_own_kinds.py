"""Kinds of stores that the library does not know, in a running application."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from mustela import Materialized, Record, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.state.interfaces import StoreSpec
from tests.conformance.own_kinds import CARTS, INDEXED, Bags, Indexed
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]


class Fill(ContextualProcessor[str, str, str, str]):
    """Puts values into a bag, and tells what is in it and who has as many records as its key."""

    def process(self, record: Record[str, str]) -> None:
        carts: Bags = self.context.state_store("carts")
        counts: Indexed = self.context.any_key_store("counts")
        carts.add(record.key, record.value)
        self.context.forward(record.with_value(f"{carts.bag(record.key)} {counts.keys_of(1)}"))


def keeping(source: str, sink: str) -> Callable[[StreamsBuilder], None]:
    """A bag for each key, and a count with an index by its numbers."""

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        supplier = StoreSpec(name="counts", own_kind=INDEXED)
        stream.group_by_key().count(materialized=Materialized[Any, Any](supplier=supplier))
        told = stream.process(Fill, stores=[CARTS], reads=["counts"], name="fill")
        told.to(sink, key=str, value=str)

    return build


def test_stores_of_ones_own_kinds_are_read_back_from_their_changelogs(world: World) -> None:
    """Bags and the lines of the index too: both are rows as all others are."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    for run in range(3):
        world.send(source, [("ann", f"v{run}"), *([("bob", "v")] if run == 0 else [])])
        world.run(keeping(source, sink), lanes=1 + run)
        shutil.rmtree(world.directory / "state")
    assert [row.value for row in world.rows(sink) if row.key == b"ann"] == [
        b"{'v0': 1} []",
        b"{'v0': 1, 'v1': 1} ['ann', 'bob']",
        b"{'v0': 1, 'v1': 1, 'v2': 1} ['bob']",
    ]
