"""Topics that an application needs: missing, made, wrong, and where to begin in them."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.connectors.kafka.admin import TopicSpec
from mustela.errors import MustelaError
from tests.integration.app_world import Watcher, World
from tests.integration.kafka_rows import move_group

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


def copying(source: str, sink: str):
    """Copy a topic."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=str).to(sink, key=str, value=str)

    return build


def counting(source: str, sink: str):
    """Count the records of each key."""

    def build(builder: StreamsBuilder) -> None:
        counted = builder.stream(source, key=str, value=str).group_by_key().count(store="counts")
        counted.to_stream().to(sink, key=str, value=int)

    return build


def test_a_missing_source_topic_is_named_with_the_one_that_was_meant(world: World) -> None:
    """And with the user's line; nothing was made."""
    source = world.topic("orders")
    error = world.fail(copying(source[:-1], world.topic("out")))
    assert error.code == "TOPIC_MISSING"
    assert source in str(error)
    assert "test_app_topics.py" in str(error)
    assert not [name for name in world.admin.topics() if name == f"{world.name}-epochs"]


def test_a_missing_sink_topic_is_an_error_unless_topics_may_be_created(world: World) -> None:
    """Then it gets the partitions of the widest source."""
    source, sink = world.topic("in", 3), f"{world.name}.out"
    world.send(source, [("k", "v")])
    error = world.fail(copying(source, sink))
    assert error.code == "TOPIC_MISSING"
    assert "topics.create" in str(error)
    world.run(copying(source, sink), topics={"create": True})
    assert world.admin.partitions(sink, refresh=True) == 3
    assert world.values(sink) == ["v"]


def test_internal_topics_are_made_as_they_must_be(world: World) -> None:
    """One partition of the changelog for each key group, compacted, with the broker's own time."""
    world.run(counting(world.topic("in"), world.topic("out")), key_groups=8)
    changelog, epochs = f"{world.name}-counts-changelog", f"{world.name}-epochs"
    described = world.admin.describe([changelog, epochs])
    assert described[changelog].partitions == 8
    assert described[epochs].partitions == 1
    configs = world.admin.configs([changelog, epochs])
    assert configs[changelog]["message.timestamp.type"] == "LogAppendTime"
    for topic in (changelog, epochs):
        assert configs[topic]["cleanup.policy"] == "compact"
        assert configs[topic]["retention.ms"] == "-1"


@pytest.mark.parametrize(
    ("suffix", "partitions", "config"),
    [
        ("counts-changelog", 7, {"cleanup.policy": "compact"}),
        ("counts-changelog", 4, {"cleanup.policy": "delete"}),
        ("counts-changelog", 4, {"cleanup.policy": "compact"}),  # CreateTime
        ("epochs", 1, {"cleanup.policy": "delete"}),
        ("epochs", 2, {"cleanup.policy": "compact"}),
    ],
)
def test_an_internal_topic_that_is_something_else_is_refused(
    world: World, suffix: str, partitions: int, config: dict[str, str]
) -> None:
    """Before anything is read or written; the topic stays as it is."""
    name = f"{world.name}-{suffix}"
    world.admin.create([TopicSpec(name=name, partitions=partitions, config=config)])
    error = world.fail(counting(world.topic("in"), world.topic("out")))
    assert error.code == "TOPIC_INTERNAL_DIFFERS"
    assert name in str(error)
    assert world.rows(name) == []


@pytest.mark.parametrize(("reset", "expected"), [("earliest", ["old", "new"]), ("latest", ["new"])])
def test_the_first_start_begins_where_the_setting_says(
    world: World, reset: str, expected: list[str]
) -> None:
    """Later starts begin where the last one ended."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "old")])
    app, _ = world.app(copying(source, sink), auto_offset_reset=reset)
    with app:
        world.drain(app)
        world.send(source, [("k", "new")])
        world.drain(app)
    assert world.values(sink) == expected
    world.send(source, [("k", "later")])
    world.run(copying(source, sink), auto_offset_reset="latest")
    assert world.values(sink) == [*expected, "later"]


def test_without_a_place_to_begin_the_start_is_refused(world: World) -> None:
    """Where somebody wanted to be asked."""
    error = world.fail(copying(world.topic("in"), world.topic("out")), auto_offset_reset="none")
    assert error.code == "NO_START_OFFSET"


def test_another_number_of_key_groups_is_refused(world: World) -> None:
    """The named number works again."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "v")])
    world.run(counting(source, sink), key_groups=8)
    error = world.fail(counting(source, sink), key_groups=4)
    assert error.code == "KEY_GROUPS_CHANGED"
    world.run(counting(source, sink), key_groups=8)


def test_offsets_that_a_tool_moved_are_a_named_stop(world: World) -> None:
    """Never a silent double count."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "v")] * 5)
    world.run(counting(source, sink))
    move_group(world.admin, world.name, {(source, 0): 2})
    error = world.fail(counting(source, sink))
    assert error.code == "OFFSETS_MOVED"
    assert "epoch record 5, now group 2" in str(error)
    move_group(world.admin, world.name, {(source, 0): 5})
    world.run(counting(source, sink))
    assert world.numbers(sink) == {"k": 5}


def test_a_source_topic_that_was_made_anew_is_a_named_stop(world: World) -> None:
    """Its offsets mean other records."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "v")])
    world.run(copying(source, sink))
    world.admin.delete([source])
    world.admin.create([TopicSpec(name=source, partitions=1)])
    error = world.fail(copying(source, sink))
    assert error.code == "SOURCE_TOPIC_RECREATED"


def test_a_stateful_step_without_a_name_is_refused_before_anything_starts() -> None:
    """Its state could not be found again after the program changed."""

    def build(builder: StreamsBuilder) -> None:
        counted = builder.stream("in", key=str, value=str).group_by_key().count()
        counted.to_stream().to("out", key=str, value=int)

    app = App("unnamed")
    app.topology(build)
    with pytest.raises(MustelaError) as caught:
        app.start()
    assert caught.value.code == "APP_UNNAMED_STEP"
    assert "test_app_topics.py" in str(caught.value)
    assert app.state.value == "created"


def test_a_stateful_step_without_a_name_runs_where_that_is_allowed(world: World) -> None:
    """For a trial."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "v")] * 3)

    def build(builder: StreamsBuilder) -> Any:
        counted = builder.stream(source, key=str, value=str).group_by_key().count()
        counted.to_stream().to(sink, key=str, value=int)

    world.run(build, naming={"strict": False})
    assert world.numbers(sink) == {"k": 3}


def test_a_lease_that_cannot_be_written_is_told_once(world: World) -> None:
    """The application goes on; who asks whether it lives would not hear of it."""
    source, sink = world.topic("in"), world.topic("out")
    lease = TopicSpec(name=f"{world.name}-lease", partitions=1, config={"max.message.bytes": "1"})
    world.admin.create([lease])
    app, watcher = world.app(copying(source, sink), lease={"interval": "100ms"})
    with app:
        told = world.until(lambda: troubles(watcher), "it is told", app)
        for value in ("one", "two"):
            world.send(source, [("k", value)])
            world.drain(app)
    assert "lease topic" in str(told[0])
    assert len(troubles(watcher)) == 1
    assert world.values(sink) == ["one", "two"]


def troubles(watcher: Watcher) -> list[BaseException]:
    return [e for e in watcher.errors if getattr(e, "code", "") == "LEASE_TROUBLE"]
