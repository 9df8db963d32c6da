"""An application that reads nothing while as many records are parked as may be."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest

from mustela import StreamsBuilder
from mustela.calls import AsyncOptions
from mustela.runtime.events import AppState
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

MOST, PER_EPOCH, ALL = 6, 3, 60


def test_records_wait_in_their_topic_until_calls_have_ended(world: World, tmp_path: Path) -> None:
    """No more than the bound and one epoch's records are parked; then each has its result."""
    source, sink, gate = world.topic("in", partitions=2), world.topic("out"), tmp_path / "open"
    rules = AsyncOptions(max_parked=MOST, wait=timedelta(0), timeout=timedelta(minutes=5))
    path = str(gate)

    async def answer(word: str) -> str:
        while not Path(path).exists():
            await asyncio.sleep(0.05)
        return word.upper()

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream(source, key=str, value=str)
        words.map_values_async(answer, rules, value=str, name="answer").to(sink, key=str)

    app, watcher = world.app(build, epoch={"max_records": PER_EPOCH})

    def parked() -> int:
        return sum(epoch.counters.get("parked:answer", 0) for epoch in watcher.epochs)

    sent = [(f"k{number}", f"w{number}") for number in range(ALL)]
    with app:
        world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        world.send(source, sent)
        world.until(lambda: parked() >= MOST, "as many are parked as may be", app)
        rested = time.monotonic() + 3.0  # as long as a hundred epochs might take
        world.until(lambda: time.monotonic() > rested, "it has had time to read on", app)
        assert MOST <= parked() < MOST + 2 * PER_EPOCH
        assert not world.rows(sink)
        gate.touch()
        world.until(lambda: len(world.rows(sink)) == ALL, "all is answered", app)
    found = sorted(
        ((row.key or b"").decode(), (row.value or b"").decode()) for row in world.rows(sink)
    )
    assert found == sorted((key, value.upper()) for key, value in sent)
