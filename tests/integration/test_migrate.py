"""A Kafka Streams application in Java is stopped in the middle of its input, and goes on here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mustela.cli.main import main
from mustela.connectors.kafka.groups import look_at_group
from mustela.model import TopicPartition
from mustela_dev import DevelopmentBroker
from tests.differential.kafka_streams import missing_compiler
from tests.integration.app_world import World
from tests.integration.migrate_peer import (
    OUTPUTS,
    SOURCES,
    USERS,
    JavaApplication,
    Sent,
    by_topic,
    first_half,
    program,
    second_half,
)

pytest_plugins = [
    "tests.broker_fixture",
    "tests.spark_fixture",
    "tests.integration.app_fixture",
]

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler()),
]

ROOT = Path(__file__).parent.parent.parent
PARTITIONS = 2
STORES = ["alone-outer-other-join-store", "alone-outer-shared-join-store"]
STORES += ["alone-outer-this-join-store", "counts", "final", "minutes", "paid-other-join-store"]
STORES += ["paid-this-join-store", "prices", "sessions", "sliding"]


class Scene:
    """An application in Java with its topics, and another one that is never stopped."""

    def __init__(self, world: World, broker: DevelopmentBroker, directory: Path) -> None:
        self.world = world
        self.old = f"{world.name}-java"
        self.directory = directory
        self.prefixes = [f"{world.name}.{name}." for name in ("moved", "whole")]
        for name in ("moved", "whole"):
            for topic in (*SOURCES, *OUTPUTS):
                world.topic(f"{name}.{topic}", PARTITIONS)
        self.servers = broker.bootstrap_servers
        self.running: list[JavaApplication] = []

    def start(self, number: int, guarantee: str) -> JavaApplication:
        """Start one of the two."""
        made = JavaApplication(
            self.servers,
            self.old if number == 0 else f"{self.old}-whole",
            prefix=self.prefixes[number],
            directory=self.directory / f"java{number}",
            guarantee=guarantee,
        )
        self.running.append(made)
        return made

    def feed(self, rows: Iterable[Sent]) -> None:
        """Send rows to both."""
        for topic, some in by_topic(rows).items():
            for prefix in self.prefixes:
                self.world.send(prefix + topic, some)

    def read(self, number: int) -> None:
        """Wait until one of the two has committed all input."""
        group = self.old if number == 0 else f"{self.old}-whole"
        places = [
            TopicPartition(self.prefixes[number] + topic, partition)
            for topic in SOURCES
            for partition in range(PARTITIONS)
        ]

        def all_read() -> bool:
            ends = self.world.admin.end_offsets(places)
            commits = look_at_group(self.world.properties, group, places).commits
            return all(
                at == 0 or (place in commits and commits[place].offset >= at)
                for place, at in ends.items()
            )

        self.world.until(all_read, "Kafka Streams has read its input")

    def gone(self) -> None:
        """Wait until the old application's group has no members, and no transaction is open."""
        admin = self.world.admin

        def is_left() -> bool:
            mine = [t for t in admin.topics() if t.startswith(f"{self.old}-")]
            there = admin.describe(mine)
            places = [TopicPartition(t, p) for t in mine for p in range(there[t].partitions)]
            members = look_at_group(self.world.properties, self.old, []).members
            return not members and admin.end_offsets(places) == admin.high_watermarks(places)

        self.world.until(is_left, "it has left")

    def module(self, directory: Path) -> str:
        """Write a module with the translated program, and return its name."""
        name = "taken_over_" + self.world.name.replace("-", "_")
        settings = {
            key: str(value) if isinstance(value, Path) else value
            for key, value in self.world.settings(event_time="stream-time").items()
        }
        text = (
            "from mustela import App\n"
            "from tests.integration.migrate_peer import program\n"
            f"app = App(settings={settings!r})\n"
            f"app.topology(program({self.prefixes[0]!r}))\n"
        )
        (directory / f"{name}.py").write_text(text)
        return f"{name}:app"

    def left(self) -> Any:
        """Return what the old application has left: topics with their ends, and offsets."""
        admin = self.world.admin
        mine = [t for t in admin.topics() if t.startswith(f"{self.old}-") and "whole" not in t]
        described = admin.describe(mine)
        places = [TopicPartition(t, p) for t in mine for p in range(described[t].partitions)]
        return (
            described,
            admin.configs(mine),
            admin.high_watermarks(places),
            admin.group_offsets(self.old),
        )

    def results(self, number: int) -> dict[str, Any]:
        """Return what one of the two has given: last values of tables, all rows of streams."""
        found: dict[str, Any] = {}
        for topic in OUTPUTS:
            rows = self.world.rows(self.prefixes[number] + topic)
            if topic in ("counts", "sessions", "sliding"):
                last = {row.key: row.value for row in rows}
                found[topic] = {key: value for key, value in last.items() if value is not None}
            else:
                found[topic] = Counter((row.key, row.value) for row in rows)
        return found

    def close(self) -> None:
        """End what still runs."""
        for application in self.running:
            application.kill()


@pytest.fixture
def scene(world: World, broker: DevelopmentBroker, tmp_path: Path) -> Any:
    made = Scene(world, broker, tmp_path)
    yield made
    made.close()


def migrate(what: str, module: str, old: str, *more: str) -> int:
    return main(
        ["migrate", what, module, "--from", "kafka-streams", "--application-id", old, *more]
    )


def seed_killed_at(point: str, scene: Scene, module: str, home: Path) -> None:
    """Seed in a process that is killed at a point of a transaction."""
    code = "import sys; from mustela.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["migrate", "seed", module, "--from", "kafka-streams", "--application-id", scene.old]
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--yes"],
        cwd=home,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "MUSTELA_FAULT_POINT": point,
            "MUSTELA_FAULT_DIR": str(home),
        },
    )
    try:
        scene.world.until((home / point).exists, f"it comes to {point}")
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("ending", ["stop", pytest.param("kill", marks=pytest.mark.crash)])
def test_a_kafka_streams_application_goes_on_in_mustela(
    scene: Scene, ending: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Its tables, windows, sessions, versions, joins and suppressions go on as if never stopped.

    One that is killed is exact only with exactly-once, which leaves its last transaction open.
    """
    monkeypatch.chdir(tmp_path)
    scene.feed(first_half())
    guarantee = "exactly_once_v2" if ending == "kill" else "at_least_once"
    moved, whole = scene.start(0, guarantee), scene.start(1, "at_least_once")
    module = scene.module(tmp_path)
    scene.read(0)
    for what, more in (("plan", ()), ("seed", ("--yes",))):
        code, said = migrate(what, module, scene.old, *more), capsys.readouterr().err
        assert code == 2, said
        assert "still runs" in said
        assert ("MIGRATE_NOT_READY" in said) is (what == "seed")
    if ending == "stop":
        moved.stop()
    else:
        moved.kill()
    rows = second_half()
    scene.feed(row for row in rows if row.topic == "prices")
    scene.read(1)  # the row that a visit is joined with is there before it
    scene.feed(row for row in rows if row.topic != "prices")
    scene.gone()
    before = scene.left()
    assert migrate("plan", module, scene.old) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert migrate("plan", module, scene.old, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted(store["store"] for store in document["stores"]) == STORES
    assert migrate("verify", module, scene.old) == 2
    assert "MIGRATE_NOT_SEEDED" in capsys.readouterr().err
    for point in ("committed", "offsets-added") if ending == "kill" else ():
        seed_killed_at(point, scene, module, tmp_path)
        assert main(["check", module]) != 0
        assert "STATE_WITHOUT_RECORD" in capsys.readouterr().err
    assert migrate("seed", module, scene.old, "--yes") == 0
    capsys.readouterr()
    assert migrate("verify", module, scene.old, "--json") == 0, capsys.readouterr().out
    compared = {one["store"]: one["rows"] for one in json.loads(capsys.readouterr().out)["stores"]}
    assert sorted(compared) == STORES
    assert min(compared.values()) >= USERS, compared
    assert migrate("seed", module, scene.old, "--yes") == 2
    assert "MIGRATE_SEEDED" in capsys.readouterr().err  # the way on is the run below
    assert scene.left() == before
    scene.world.run(program(scene.prefixes[0]), event_time="stream-time")
    scene.read(1)
    whole.stop()
    mine, theirs = scene.results(0), scene.results(1)
    assert migrate("verify", module, scene.old) == 2
    assert "has run since" in capsys.readouterr().err
    for topic in OUTPUTS:
        differing = sorted(mine[topic].items() ^ theirs[topic].items())
        assert not differing, f"{topic}: {differing}"
    assert scene.left() == before
