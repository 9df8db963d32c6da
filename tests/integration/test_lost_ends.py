"""Source logs that lose their end and grow past it again, on a real broker: leader epochs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mustela.cli.main import main
from mustela.connectors.kafka.truncation import LogPosition
from mustela.dsl.builder import StreamsBuilder
from mustela.model import TopicPartition
from mustela.runtime.events import AppState
from mustela_dev import DevelopmentBroker
from tests.broker_fixture import make_small_broker
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.broker_fixture", "tests.spark_fixture"]

_BATCH = struct.Struct(">qi")
"""Base offset and length, which begin each batch of a segment file."""


@pytest.fixture(scope="module")
def cut_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentBroker]:
    """A broker of these tests alone, which kill it and shorten their topics' logs."""
    made = make_small_broker(tmp_path_factory.mktemp("cut") / "broker")
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def small(
    cut_broker: DevelopmentBroker,
    spark_context: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[World]:
    """Topics and applications of one test, on a broker that runs."""
    if not cut_broker.running:
        cut_broker.start()
    made = World(cut_broker, spark_context, tmp_path, request.node.originalname)
    yield made
    made.close()


def send(world: World, topic: str, count: int, prefix: str) -> None:
    """Send records, each in a batch of its own."""
    for number in range(count):
        world.send(topic, [("k", f"{prefix}{number}")])


def cut(broker: DevelopmentBroker, topic: str, end: int) -> None:
    """Let a log end earlier, as if a replica that lagged behind had become its leader.

    The broker is killed for it: what it finds when it is back is all that there ever was.
    """
    broker.kill()
    place = next(broker.data_dir.rglob(f"{topic}-0"))
    for segment in place.glob("*.log"):
        data, size = segment.read_bytes(), 0
        while size < len(data):
            base, length = _BATCH.unpack_from(data, size)
            if base >= end:
                break
            size += _BATCH.size + length
        segment.write_bytes(data[:size])
    for pattern in ("*.index", "*.timeindex", "*.snapshot"):
        for file in place.glob(pattern):
            file.unlink()
    broker.start()


def count(source: str, to: str) -> Any:
    """Return a topology that counts by key."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=str).group_by_key().count(
            store="counts"
        ).to_stream().to(to, key=str, value=int)

    return build


def test_a_broker_says_up_to_where_a_log_is_what_was_read(small: World) -> None:
    """A new leader alone loses nothing; one whose log was cut says where it is another one."""
    admin, topic = small.admin, small.topic("lines")
    place = TopicPartition(topic, 0)
    send(small, topic, 20, "a")
    before = admin.log_ends([place])[place]
    assert before.offset == 20
    assert admin.kept_ends({place: before}) == {}
    small.broker.kill()
    small.broker.start()
    send(small, topic, 5, "b")
    led = admin.log_ends([place])[place]
    assert led.leader_epoch > before.leader_epoch
    assert admin.kept_ends({place: before}) == {}
    cut(small.broker, topic, 10)
    send(small, topic, 30, "c")
    assert admin.log_ends([place])[place].offset == 40
    assert admin.kept_ends({place: before}) == {place: 10}
    assert admin.kept_ends({place: LogPosition(9, before.leader_epoch)}) == {}
    assert admin.kept_ends({place: admin.log_ends([place])[place]}) == {}


def test_a_start_finds_that_a_log_was_cut_and_has_grown_past_it(small: World) -> None:
    """It stops before anything is written; told to, it goes on where the log is what was read."""
    lines, out = small.topic("lines"), small.topic("out")
    send(small, lines, 20, "a")
    build = count(lines, out)
    small.run(build)
    assert small.numbers(out) == {"k": 20}
    cut(small.broker, lines, 10)
    send(small, lines, 15, "b")
    then = [(record.incarnation, record.epoch) for record in small.records()]
    error = small.fail(build)
    assert error.code == "SOURCE_TRUNCATED"
    assert "differs from 10 on" in str(error)
    assert [(record.incarnation, record.epoch) for record in small.records()] == then
    assert small.numbers(out) == {"k": 20}
    servers = ("-b", small.broker.bootstrap_servers)
    assert main(["offsets", "accept", small.name, "--truncated", "--yes", *servers]) == 0
    small.run(build)
    assert small.numbers(out) == {"k": 35}


def test_a_log_that_is_cut_while_an_application_runs(small: World) -> None:
    """However soon it has grown again: no record of the other log is counted."""
    lines, out = small.topic("lines"), small.topic("out")
    send(small, lines, 20, "a")
    app, _ = small.app(count(lines, out))
    app.start()
    small.drain(app)
    cut(small.broker, lines, 10)
    send(small, lines, 15, "b")
    small.until(lambda: app.state.ended, "the application ends")
    app.close()
    assert getattr(app.error, "code", "") == "SOURCE_TRUNCATED"
    assert small.records()[-1].truncated == [(lines, 0, 10)]
    send(small, lines, 15, "c")
    assert small.fail(count(lines, out)).code == "SOURCE_TRUNCATED"
    assert small.numbers(out) == {"k": 20}


def test_a_leader_that_lost_nothing_is_no_stop(small: World) -> None:
    """A broker comes back with another leader epoch; the record names it after the next epoch."""
    lines, out = small.topic("lines"), small.topic("out")
    send(small, lines, 20, "a")
    build = count(lines, out)
    small.run(build)
    (then,) = small.records()[-1].partitions
    small.broker.kill()
    small.broker.start()
    send(small, lines, 5, "b")
    small.run(build)
    assert small.numbers(out) == {"k": 25}
    (now,) = small.records()[-1].partitions
    assert now.leader_epoch > then.leader_epoch >= 0


@pytest.mark.parametrize("is_running", [True, False])
def test_a_source_begun_at_its_end_of_which_nothing_was_read(
    small: World, is_running: bool
) -> None:
    """The leader epoch of the start offset tells that the log has others in front of it now."""
    lines, out = small.topic("lines"), small.topic("out")
    send(small, lines, 20, "a")
    build = count(lines, out)
    app, _ = small.app(build, auto_offset_reset="latest")
    app.start()
    small.until(lambda: app.state is AppState.RUNNING, "the application runs")
    if not is_running:
        app.close()
    cut(small.broker, lines, 10)
    send(small, lines, 15, "b")
    if is_running:
        small.until(lambda: app.state.ended, "the application ends")
        app.close()
        error: Any = app.error
    else:
        error = small.fail(build, auto_offset_reset="latest")
    assert error.code == "SOURCE_TRUNCATED"
    servers = ("-b", small.broker.bootstrap_servers)
    assert main(["offsets", "accept", small.name, "--truncated", "--yes", *servers]) == 0
    small.run(build, auto_offset_reset="latest")
    assert small.numbers(out) == {"k": 15}


def towns_of(calls: str, towns: str, to: str) -> Any:
    """Return a topology that says the town of each call, by a global table."""

    def build(builder: StreamsBuilder) -> None:
        table = builder.global_table(towns, key=str, value=str)
        builder.stream(calls, key=str, value=str).left_join(
            table, lambda call, town: f"{call} {town}", foreign_key_with_key=lambda _key, call: call
        ).to(to, key=str, value=str)

    return build


@pytest.mark.parametrize("is_running", [True, False])
def test_a_global_table_whose_topic_is_cut_is_read_anew(small: World, is_running: bool) -> None:
    """It has the rows that are left and those written since, and that is said once."""
    calls, towns, out = small.topic("calls"), small.topic("towns"), small.topic("out")
    build = towns_of(calls, towns, out)
    for row in (("030", "Berlin"), ("040", "Hamburg"), ("030", "Bern")):
        small.send(towns, [row])
    small.send(calls, [("k", "030"), ("k", "040")])
    app, watcher = small.app(build)
    app.start()
    small.drain(app)
    if not is_running:
        app.close()
    cut(small.broker, towns, 1)
    for row in (("050", "Hannover"), ("060", "Frankfurt"), ("070", "Stuttgart")):
        small.send(towns, [row])
    small.send(calls, [("k", call) for call in ("030", "040", "050")])
    if not is_running:
        app, watcher = small.app(build)
        app.start()
    small.drain(app)
    app.close()
    wanted = ["030 Bern", "040 Hamburg", "030 Berlin", "040 None", "050 Hannover"]
    assert small.values(out) == wanted
    assert len([text for text in watcher.said if "lost records that were read" in text]) == 1
