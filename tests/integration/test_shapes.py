"""Indexes and custom stores from release to release, in a running application."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from mustela import Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.runtime.gate.errors import StoreLayoutChangedError
from mustela.stores import CountMin
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]


class Keep(ContextualProcessor[str, str, str, str]):
    """Keeps words and tells which keys have the same one, where there is an index."""

    def process(self, record: Record[str, str]) -> None:
        words: Any = self.context.state_store("words")
        seen: CountMin = self.context.state_store("seen")
        words.put(record.key, record.value)
        seen.add(record.key, record.value)
        same: list[str] = []
        if words.spec.indexes:
            same = [key for key, _ in words.by("word").get(record.value)]
        count = seen.estimate(record.key, record.value)
        self.context.forward(record.with_value(f"{same} {count}"))


def keeping(
    source: str, sink: str, *, width: int = 50, **index: Any
) -> Callable[[StreamsBuilder], None]:
    """A store of words, with an index or without, and a sketch."""

    def build(builder: StreamsBuilder) -> None:
        words = Stores.key_value_store_builder(
            Stores.persistent_key_value_store("words"), key=str, value=str
        ).with_index(**index)
        stores = [words, CountMin(width=width).builder("seen", key=str)]
        kept = builder.stream(source, key=str, value=str).process(Keep, stores=stores, name="keep")
        kept.to(sink, key=str, value=str)

    return build


def test_an_index_comes_with_a_release_and_a_sketch_keeps_its_width(world: World) -> None:
    """It may be dropped again; a lost disk changes nothing; another width stops the start."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    world.send(source, [("ann", "fig")])
    world.run(keeping(source, sink))
    world.send(source, [("ann", "pear"), ("ann", "fig")])
    world.run(keeping(source, sink, word=lambda word: word))
    shutil.rmtree(world.directory / "state")
    world.send(source, [("ann", "fig")])
    world.run(keeping(source, sink, word=lambda word: word))
    with pytest.raises(StoreLayoutChangedError, match="seen"):
        world.run(keeping(source, sink, width=60, word=lambda word: word))
    world.run(keeping(source, sink))
    told = [row.value for row in world.rows(sink)]
    assert told == [b"[] 1", b"['ann'] 1", b"['ann'] 2", b"['ann'] 3"]
