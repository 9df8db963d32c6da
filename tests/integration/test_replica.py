"""A replica of a real application, on a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mustela import StreamsBuilder
from mustela.plan.plan import Plan
from mustela.queries.errors import StateUnavailableError
from mustela.queries.queries import Queries
from mustela.runtime.app import App
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.replica.edition import ReplicaEdition
from mustela.runtime.replica.replica import Replica
from tests.integration.app_world import World
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = [
    "tests.broker_fixture",
    "tests.spark_fixture",
    "tests.integration.app_fixture",
]

Rows = dict[bytes, bytes]

PROGRAM = """
import sys
from pathlib import Path
from mustela import App
from mustela.runtime.replica.replica import Replica

name, servers, source, place = sys.argv[1:]
app = App(name, bootstrap_servers=servers, state_dir=place, key_groups=4)

@app.topology
def build(builder):
    words = builder.stream(source, key=str, value=str).group_by(lambda _key, word: word, key=str)
    words.count(store="counts")

replica = Replica(app.settings, app.built_plan(), examine=lambda: None)
while True:
    replica.step(0.1)
    if (record := replica.record) is not None:
        Path(place, "shown").write_text(str(record.epoch))
"""


def counting(source: str) -> object:
    """Return the function that counts words."""

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream(source, key=str, value=str)
        words.group_by(lambda _key, word: word, key=str).count(store="counts")

    return build


def shown(replica: Replica) -> tuple[EpochRecord, Rows] | None:
    """Return what a replica shows: the record of an epoch, and the rows of the one store."""
    try:
        edition = replica.newest()
    except StateUnavailableError:
        return None
    assert isinstance(edition, ReplicaEdition)
    place = edition.stores["counts"]
    rows: Rows = {}
    for group in range(place.groups):
        view = edition.open(place.stage, group)
        rows.update(view.range("counts", None, None))
        view.close()
    return edition.record, rows


class Committed:
    """What an application had committed at each epoch, by its topics."""

    def __init__(self, world: World, plan: Plan) -> None:
        (self._log,) = plan.log_names.values()
        self._rows = world.rows(f"{world.name}-{self._log}-changelog")
        self.records = {(r.incarnation, r.epoch): r for r in world.records()}

    def at(self, record: EpochRecord) -> Rows:
        """Return the store's rows at an epoch."""
        ends = self.records[record.incarnation, record.epoch].changelog_ends[self._log]
        rows: Rows = {}
        for row in self._rows:
            assert row.key is not None
            if row.offset < ends[row.partition]:
                if row.value is None:
                    rows.pop(row.key, None)
                else:
                    rows[row.key] = row.value
        return rows


def test_a_replica_shows_each_epoch_of_an_application_as_it_was_committed(
    world: World, tmp_path: Path
) -> None:
    """It runs beside it, without Spark; then another one goes on from its directory."""
    source = world.topic("words", partitions=2)
    app, watcher = world.app(counting(source))  # type: ignore[arg-type]
    plan = app.built_plan()
    seen: list[tuple[EpochRecord, Rows]] = []

    def look(replica: Replica) -> None:
        if replica.step(0.05) and (found := shown(replica)) is not None:
            seen.append(found)

    replica = Replica(app.settings, plan, examine=lambda: None, place=tmp_path / "replica")
    done = threading.Event()

    def follow() -> None:
        while not done.is_set():
            look(replica)

    thread = threading.Thread(target=follow)
    thread.start()
    with app:
        for n in range(10):
            world.send(source, [(None, f"w{k}") for k in range(n, n + 40)])
            world.drain(app)
        last = app.coordinator.state.epoch  # type: ignore[union-attr]
        world.until(lambda: seen and seen[-1][0].epoch == last, "the replica has caught up")
        done.set()
        thread.join(PATIENCE_S)
        replica.close(clean=False)
        committed = Committed(world, plan)
        assert len({record.epoch for record, _ in seen}) >= 5
        for record, rows in seen:
            assert rows == committed.at(record)
        world.send(source, [(None, "w1")])
        world.drain(app)
        app_count = app.store("counts").get("w1")
    again = Replica(app.settings, plan, examine=lambda: None, place=tmp_path / "replica")
    world.until(lambda: not again.step(0.05) and again.record, "it has caught up")
    found = shown(again)
    assert found is not None
    assert found[1] == Committed(world, plan).at(found[0])
    with Queries(again).snapshot() as snapshot:
        assert snapshot.store("counts").get("w1") == app_count
    again.close()
    assert not watcher.errors


def test_a_replica_that_is_killed_goes_on_from_its_directory(world: World, tmp_path: Path) -> None:
    """Whenever that is; nothing of a torn epoch is shown, and nothing is missing."""
    source = world.topic("words", partitions=2)
    app, _ = world.app(counting(source))  # type: ignore[arg-type]
    plan, place = app.built_plan(), tmp_path / "replica"
    place.mkdir()
    told = [world.name, world.broker.bootstrap_servers, source, str(place)]
    command = [sys.executable, "-c", PROGRAM, *told]

    def kill_soon(app: App, n: int) -> None:
        (place / "shown").unlink(missing_ok=True)
        process = subprocess.Popen(command, cwd=tmp_path)
        try:
            world.until(lambda: (place / "shown").exists(), "the replica shows an epoch", app)
            world.send(source, [(None, f"w{k}") for k in range(n, n + 400)])
            world.drain(app)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    with app:
        for n in range(3):
            kill_soon(app, n)
            world.send(source, [(None, f"w{k}") for k in range(300)])
            world.drain(app)
    replica = Replica(app.settings, plan, examine=lambda: None, place=place)
    world.until(lambda: not replica.step(0.05) and replica.record, "it has caught up")
    found = shown(replica)
    assert found is not None
    assert found[1] == Committed(world, plan).at(found[0])
    replica.close()
