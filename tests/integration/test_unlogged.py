"""A store without a changelog whose local copy is lost, on Spark: it is said, with its name."""

from __future__ import annotations

import shutil

import pytest

from mustela import StreamsBuilder
from mustela.api.options import Materialized
from tests.integration.app_world import Watcher, World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


class Program:
    """Counts keys without a changelog; a later release counts with another store beside it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.source, self.sink = world.topic("in"), world.topic("out")

    def build(self, builder: StreamsBuilder) -> None:
        grouped = builder.stream(self.source, key=str, value=str).group_by_key()
        counted = grouped.count(materialized=Materialized(store="counts", logged=False))
        counted.to_stream().to(self.sink, key=str, value=int)

    def run(self, keys: str) -> Watcher:
        self.world.send(self.source, [(key, "x") for key in keys])
        return self.world.run(self.build)


def lost(watcher: Watcher) -> list[str]:
    return [text for text in watcher.said if "rows of store 'counts' are lost" in text]


def test_a_lost_disk_is_said_once_for_a_store_without_a_changelog(world: World) -> None:
    """Not at a first start, and not while its rows are there; it begins empty, as it must."""
    program = Program(world)
    assert not lost(program.run("aab"))
    assert not lost(program.run("a"))
    assert world.numbers(program.sink) == {"a": 3, "b": 1}
    shutil.rmtree(world.directory / "state")
    assert len(lost(program.run("a"))) == 1
    assert not lost(program.run("a"))
    assert world.numbers(program.sink) == {"a": 2, "b": 1}


def test_a_disk_that_is_lost_while_it_runs_is_said_too(world: World) -> None:
    """The epoch that finds it runs again over what is left."""
    program = Program(world)
    world.send(program.source, [("a", "x")])
    app, watcher = world.app(program.build)
    with app:
        world.drain(app)
        shutil.rmtree(world.directory / "state")
        world.send(program.source, [("a", "x")])
        world.drain(app)
        world.until(lambda: lost(watcher), "it is said", app)
    assert world.numbers(program.sink) == {"a": 1}
