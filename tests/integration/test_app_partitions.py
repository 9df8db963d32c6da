"""Partitions that a running application's source topic gets."""

from __future__ import annotations

import pytest

from mustela import StreamsBuilder
from mustela.connectors.kafka.tools import send
from tests.integration.app_world import World
from tests.integration.kafka_rows import add_partitions

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


def test_partitions_that_are_added_to_a_running_source_are_read(world: World) -> None:
    """Driver, workers and their clients learn of them at different times: nobody takes it ill."""
    source, sink = world.topic("in"), world.topic("out")

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=str).to(sink, key=str, value=str)

    app, watcher = world.app(build, topics={"refresh": "50ms"})
    world.send(source, [("k", "old")])
    with app:
        world.until(lambda: world.values(sink) == ["old"], app=app)
        for count in (2, 5):
            add_partitions(world.properties, source, count)
            rows = [(b"k", f"{count}-{n}".encode()) for n in range(50)]
            send(world.properties, source, rows, partition=count - 1)
            last = f"{count}-49"
            world.until(lambda last=last: last in world.values(sink), app=app)
    assert len(world.values(sink)) == 101
    assert not watcher.errors
