"""An application inside another program: its topics, and when it has caught up."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.events import AppState
from tests.integration.app_world import World
from tests.patience import PATIENCE_S, SOON

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


def counting(source: str, sink: str, mapper: Any = None) -> Any:
    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, key=str, value=str)
        lines = lines if mapper is None else lines.map_values(mapper, name="mapped")
        lines.group_by_key().count(store="counts").to_stream().to(sink)

    return build


def test_what_was_sent_before_is_committed_when_it_has_caught_up(world: World) -> None:
    """Before the start, while it runs, and with nothing to read."""
    source, sink = world.topic("in", partitions=3), world.topic("out")
    app, _ = world.app(counting(source, sink))
    world.send(source, [(f"k{n}", "x") for n in range(100)])
    with app:
        assert app.wait_until_caught_up(SOON)
        assert app.state is AppState.RUNNING
        assert len(world.rows(sink)) == 100
        for count in (1, 2, 3):
            world.send(source, [("again", "x")])
            assert app.wait_until_caught_up(SOON)
            assert len(world.rows(sink)) == 100 + count
        assert app.wait_until_caught_up(SOON)
    assert not app.wait_until_caught_up(SOON)


def test_it_has_not_caught_up_while_an_epoch_is_at_work(world: World, tmp_path: Path) -> None:
    """The time that is given passes first; other threads may wait as well."""
    source, sink = world.topic("in"), world.topic("out")
    go = str(tmp_path / "go")

    def wait(value: str) -> str:
        import time
        from pathlib import Path

        deadline = time.monotonic() + 300
        while not Path(go).exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return value

    app, _ = world.app(counting(source, sink, wait))
    world.send(source, [("k", "v")])
    found: list[bool] = []
    with app:
        assert app.wait_until(AppState.RUNNING, SOON)
        other = threading.Thread(target=lambda: found.append(app.wait_until_caught_up(SOON)))
        other.start()
        assert not app.wait_until_caught_up(timedelta(milliseconds=200))
        assert not found
        Path(go).touch()
        assert app.wait_until_caught_up(SOON)
        other.join(PATIENCE_S)
        assert found == [True]


def test_it_does_not_catch_up_once_it_has_failed(world: World) -> None:
    """Who waits is told so at once."""
    source, sink = world.topic("in"), world.topic("out")

    def fail(_value: str) -> str:
        msg = "no"
        raise ValueError(msg)

    app, _ = world.app(counting(source, sink, fail))
    world.send(source, [("k", "v")])
    app.start()
    assert not app.wait_until_caught_up(SOON)
    assert app.wait(SOON)
    assert app.state is AppState.FAILED


def test_the_topics_of_an_application_are_those_on_the_broker(world: World) -> None:
    """What it says before the start is what is there after it."""
    source, sink = world.topic("in"), world.topic("out")
    app, _ = world.app(counting(source, sink), processing_handler="dead_letter")
    topics = app.topics
    assert topics.reads == (source,)
    assert topics.writes == (sink,)
    assert not topics.writes_any
    letters = topics.dead_letters
    assert letters is not None
    assert letters == f"{world.name}-dead-letters"
    with app:
        assert app.wait_until_caught_up(SOON)
    known = world.admin.describe([*topics.internal, letters])
    assert sorted(known) == sorted([*topics.internal, letters])
