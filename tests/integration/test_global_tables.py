"""A global table whose topic is deleted and made again, on a real broker with Spark."""

from __future__ import annotations

import pytest

from mustela import App, StreamsBuilder
from tests.integration.app_world import Watcher, World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


class Program:
    """Joins calls with towns by their prefix; where there is no town the result says so."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.towns, self.calls = world.topic("towns", 2), world.topic("calls")
        self.sink = world.topic("out")

    def build(self, builder: StreamsBuilder) -> None:
        towns = builder.global_table(self.towns, key=str, value=str)
        calls = builder.stream(self.calls, key=str, value=str)
        named = calls.left_join(
            towns, lambda call, town: f"{call} {town}", foreign_key_with_key=lambda _key, call: call
        )
        named.to(self.sink, key=str, value=str)

    def call(self, *prefixes: str) -> None:
        self.world.send(self.calls, [("k", prefix) for prefix in prefixes])

    def make_towns_again(self, **rows: str) -> None:
        self.world.admin.delete([self.towns])
        assert self.world.topic("towns", 2) == self.towns
        self.world.send(self.towns, rows.items())


def said_anew(watcher: Watcher) -> list[str]:
    return [text for text in watcher.said if "was deleted and recreated" in text]


@pytest.mark.parametrize("is_running", [True, False])
def test_a_global_table_whose_topic_is_made_again_is_read_anew(
    world: World, is_running: bool
) -> None:
    """It has the rows of the new topic and none of the deleted one, and that is said once."""
    program = Program(world)
    world.send(program.towns, [("030", "Berlin"), ("040", "Hamburg")])
    program.call("030", "040")
    app, watcher = world.app(program.build)
    with app:
        world.drain(app)
        if is_running:
            again(program, app)
            assert len(said_anew(watcher)) == 1
    if not is_running:
        app, watcher = world.app(program.build)
        program.make_towns_again(**{"030": "Bern", "050": "Hannover"})
        with app:
            program.call("030", "040", "050")
            world.drain(app)
        assert len(said_anew(watcher)) == 1
    wanted = ["030 Berlin", "040 Hamburg", "030 Bern", "040 None", "050 Hannover"]
    assert world.values(program.sink) == wanted


def again(program: Program, app: App) -> None:
    program.make_towns_again(**{"030": "Bern", "050": "Hannover"})
    program.call("030", "040", "050")
    program.world.drain(app)
