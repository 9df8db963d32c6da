"""Each stop behind which `mustela offsets` is a way on, on a real broker: it stops, it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.clock import SystemClock
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.errors import TransactionFenced
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import MustelaError
from mustela.planner.planner import plan
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.coordinator import Coordinator
from mustela_dev import DevelopmentBroker
from tests.integration.kafka_rows import MakeSink, move_group
from tests.integration.no_engine import NoEngine, Silent
from tests.unit.runtime.plans import settings_for

pytestmark = pytest.mark.broker
pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]


class Application:
    """An application of one source of two partitions, which starts and stops, and the commands."""

    def __init__(self, name: str, broker: DevelopmentBroker, admin: KafkaAdmin, place: Path):
        self.name, self.source = name, f"{name}-lines"
        self._broker, self._admin = broker, admin
        self._settings = settings_for(
            place,
            application_id=name,
            bootstrap_servers=broker.bootstrap_servers,
            topics={"create": True},
        )

    def start(self) -> CommittedState:
        """Start and stop; return the state that was claimed."""
        builder = StreamsBuilder()
        builder.stream(self.source, key=str, value=str).to(f"{self.name}-out", key=str, value=str)
        engine: Any = NoEngine()
        coordinator = Coordinator(
            self._settings, plan(builder.build()), engine, clock=SystemClock(), listener=Silent()
        )
        try:
            coordinator.prepare()
            return coordinator.state
        finally:
            coordinator.close()

    def offsets(self) -> list[int]:
        """Start; return where it goes on."""
        return [end for _, end in sorted(self.start().sources.next_offsets.items())]

    def refused(self) -> str:
        """Start, which is refused; return the code."""
        with pytest.raises(MustelaError) as caught:
            self.start()
        return caught.value.code

    def type(self, *command: str) -> int:
        """Type a command."""
        return main([*command, "-b", self._broker.bootstrap_servers])

    def make_source(self) -> None:
        """Make the source, anew if it is there."""
        self._admin.delete([self.source])
        self._admin.create([TopicSpec(name=self.source, partitions=2)])


def fresh(admin: KafkaAdmin, make_sink: MakeSink, made: Application) -> Application:
    """Give an application that never ran its source, of two partitions of five records."""
    made.make_source()
    sink = make_sink()
    sink.begin()
    for partition in range(2):
        sink.produce_columns(made.source, [b"k"] * 5, [b"v"] * 5, partitions=partition)
    sink.commit()
    return made


@pytest.fixture
def application(
    broker: DevelopmentBroker,
    admin: KafkaAdmin,
    make_sink: MakeSink,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Application:
    """An application that has run, over two partitions with five records each."""
    made = Application(f"ways-{request.node.originalname[-30:]}", broker, admin, tmp_path)
    fresh(admin, make_sink, made)
    assert made.offsets() == [0, 0]
    return made


def test_offsets_that_a_tool_moved(
    application: Application, admin: KafkaAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either side can be right, and the next start finds no difference."""
    move_group(admin, application.name, {(application.source, 1): 3})
    assert application.refused() == "OFFSETS_MOVED"
    assert application.type("offsets", "accept", application.name, "--yes") == ExitCode.OK
    assert application.offsets() == [0, 3]
    move_group(admin, application.name, {(application.source, 1): 1})
    assert application.type("offsets", "accept", application.name, "--record", "--yes") == 0
    assert application.offsets() == [0, 3]
    move_group(admin, application.name, {(application.source, 1): 1})
    keep = ("--offsets", "keep-record", "--yes")
    assert application.type("reset", "ways-nobody", *keep) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "RESET_NO_RECORD" in said
    assert "check the application's id" in said
    assert application.type("reset", application.name, *keep) == ExitCode.OK
    assert application.offsets() == [0, 3]


def test_offsets_of_a_group_that_no_epoch_mirrors(
    broker: DevelopmentBroker, admin: KafkaAdmin, make_sink: MakeSink, tmp_path: Path
) -> None:
    """OFFSETS_MOVED at a first start: each of the three ways that it names leads on."""
    made = fresh(admin, make_sink, Application("ways-foreign", broker, admin, tmp_path))
    move_group(admin, made.name, {(made.source, 1): 3})
    assert made.refused() == "OFFSETS_MOVED"
    other = fresh(admin, make_sink, Application("ways-foreign-2", broker, admin, tmp_path))
    assert other.offsets() == [0, 0]
    assert made.type("offsets", "accept", made.name, "--record", "--yes") == ExitCode.USAGE
    assert made.type("offsets", "accept", made.name, "--yes") == ExitCode.OK
    assert made.offsets() == [0, 3]
    assert made.type("reset", made.name, "--yes") == ExitCode.OK
    move_group(admin, made.name, {(made.source, 1): 3})
    assert made.refused() == "OFFSETS_MOVED"
    assert made.type("reset", made.name, "--yes", "--without-record") == ExitCode.OK
    assert made.offsets() == [0, 0]


def test_a_topic_that_was_made_again(application: Application) -> None:
    """It is read from its start."""
    application.type("offsets", "set", application.name, "--to-latest", "--yes")
    application.make_source()
    assert application.refused() == "SOURCE_TOPIC_RECREATED"
    assert application.type("offsets", "accept", application.name, "--truncated", "--yes") == 0
    assert application.offsets() == [0, 0]


def test_an_application_begins_again_where_it_is_told_to(
    application: Application, admin: KafkaAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without state, or with it; a partition that is not named begins at its first record."""
    name, source = application.name, application.source
    move_group(admin, name, {(source, 1): 1})
    assert application.refused() == "OFFSETS_MOVED"
    to = ("--to-offsets", f"{source}-1=3")
    assert application.type("reset", name, *to, "--dry-run") == ExitCode.OK
    assert f"begin {source}-1 at 3" in capsys.readouterr().out
    assert application.refused() == "OFFSETS_MOVED"
    assert application.type("reset", name, *to, "--yes") == ExitCode.OK
    state = application.start()
    assert [end for _, end in sorted(state.sources.next_offsets.items())] == [0, 3]
    assert state.is_empty
    assert application.type("reset", name, "--to-latest", "--keep-state", "--yes") == ExitCode.OK
    assert application.offsets() == [6, 6]
    assert application.type("reset", name, "--yes") == ExitCode.OK
    assert application.offsets() == [0, 0]


def test_offsets_are_set_and_a_record_is_skipped(
    application: Application, make_sink: MakeSink, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written without a yes; who ran before is fenced; state and epoch are the same."""
    name, source = application.name, application.source
    older = make_sink(name)
    assert application.type("offsets", "set", name, source, "1", "2", "--dry-run") == ExitCode.OK
    assert f"{source}-1: from 0 to 2" in capsys.readouterr().out
    older.begin()  # not fenced by a look
    older.commit()
    assert application.type("offsets", "set", name, source, "1", "2", "--yes") == ExitCode.OK
    older.begin()
    older.produce_tracked(f"{name}-epochs", 0, [b"epoch"], [b""])
    with pytest.raises(TransactionFenced):
        older.commit()
    assert application.offsets() == [0, 2]
    assert application.type("offsets", "skip", name, source, "1", "4", "--yes") == ExitCode.USAGE
    assert application.type("offsets", "skip", name, source, "1", "2", "--yes") == ExitCode.OK
    assert application.offsets() == [0, 3]
    capsys.readouterr()
    assert application.type("offsets", "show", name, "--json") == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    assert [(s["recorded"], s["group"], s["end"], s["lag"]) for s in shown["sources"]] == [
        (0, 0, 6, 6),
        (3, 3, 6, 3),
    ]
