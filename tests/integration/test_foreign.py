"""What Mustela did not make is not deleted by the names of its topics, on a real broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from mustela import App, StreamsBuilder
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.plain import PlainSink
from mustela.runtime.events import AppState
from mustela.runtime.life import life as life_module
from mustela_dev import DevelopmentBroker
from tests.integration.no_engine import NoEngine
from tests.patience import SOON

pytestmark = pytest.mark.broker
pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]

_NUMBERS = itertools.count()


@pytest.fixture
def left(broker: DevelopmentBroker, admin: KafkaAdmin) -> str:
    """The id of an application of Kafka Streams: its changelog holds a row, its group an offset."""
    name = f"foreign-{next(_NUMBERS)}"
    log, lines = f"{name}-counts-changelog", f"{name}.lines"
    admin.create([TopicSpec(name=topic, partitions=1) for topic in (log, lines)])
    sink = PlainSink({"bootstrap.servers": broker.bootstrap_servers})
    sink.produce_columns(log, [b"k"], [b"1"], partitions=0)
    sink.flush()
    sink.close()
    admin.set_group_offsets(name, {(lines, 0): 0})
    return name


@pytest.fixture
def run(broker: DevelopmentBroker, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that is to end with an exit code; return its errors."""

    def run(*typed: str, code: int = ExitCode.OK) -> str:
        assert main([*typed, "-b", broker.bootstrap_servers]) == code
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize("typed", ["clean", "reset"])
def test_the_changelogs_of_kafka_streams_are_not_deleted(
    left: str, admin: KafkaAdmin, run: Callable[..., str], typed: str
) -> None:
    """Neither with --yes nor with --force, which only ends an instance; what it says works."""
    for options in ("--yes",), ("--yes", "--force"), ("--dry-run",):
        told = run(typed, left, *options, code=ExitCode.USAGE)
        assert "FOREIGN_APPLICATION" in told
        assert f"topic {left}-counts-changelog, offsets of group {left}" in told
    assert admin.describe([f"{left}-counts-changelog"])
    assert admin.group_offsets(left)
    run(typed, left, "--yes", "--without-record")
    assert not admin.describe([f"{left}-counts-changelog"])
    assert not admin.group_offsets(left)


def test_an_instance_that_was_refused_is_no_proof(
    left: str,
    admin: KafkaAdmin,
    broker: DevelopmentBroker,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., str],
) -> None:
    """Mustela was started once with the id of a Kafka Streams application, by mistake."""
    monkeypatch.setattr(life_module, "load_engine", lambda *_: NoEngine())
    app = App(left, bootstrap_servers=broker.bootstrap_servers, topics={"create": True})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        builder.stream(f"{left}.lines", key=str, value=str).to(f"{left}.out")

    app.start()
    assert app.wait(SOON)
    assert getattr(app.error, "code", None) in {"OFFSETS_MOVED", "STATE_WITHOUT_RECORD"}
    assert "--without-record" in str(app.error)
    assert "FOREIGN_APPLICATION" in run("reset", left, "--yes", code=ExitCode.USAGE)
    assert admin.describe([f"{left}-counts-changelog"])


def test_an_application_whose_epochs_topic_was_deleted_can_be_cleared(
    broker: DevelopmentBroker,
    admin: KafkaAdmin,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., str],
) -> None:
    """Its lease shows for an hour that an instance of Mustela had made its claim."""
    monkeypatch.setattr(life_module, "load_engine", lambda *_: NoEngine())
    name = f"foreign-{next(_NUMBERS)}"
    settings = Settings(application_id=name, bootstrap_servers=broker.bootstrap_servers)
    lines = f"{name}.lines"
    admin.create([TopicSpec(name=lines, partitions=1)])
    app = App(name, bootstrap_servers=settings.bootstrap_servers, topics={"create": True})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        builder.stream(lines, key=str, value=str).to(f"{name}.out")

    with app:
        assert app.wait_until(AppState.RUNNING, SOON), app.error
    admin.delete([f"{name}-epochs"])
    admin.set_group_offsets(name, {(lines, 0): 0})
    run("reset", name, "--yes")
    assert not admin.group_offsets(name)
    assert not admin.describe([f"{name}-lease"])
