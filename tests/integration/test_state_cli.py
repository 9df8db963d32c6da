"""mustela state, on a real broker: the same rows wherever they are read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mustela import App
from mustela.cli.main import main
from mustela.runtime.events import AppState
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
from dataclasses import dataclass
from datetime import timedelta

from mustela import App, Materialized, SessionWindows, Stores, TimeWindows

@dataclass(frozen=True)
class Order:
    total: int
    email: str

app = App({name!r}, bootstrap_servers={servers!r}, state_dir={state_dir!r}, key_groups=4,
          admin={{"enabled": True}})

HOUR = timedelta(hours=1)

@app.topology
def build(builder):
    words = builder.stream({words!r}, key=str, value=str).group_by_key()
    words.count(store="counts")
    tens = words.windowed_by(TimeWindows(size=timedelta(seconds=10), grace=HOUR))
    tens.count(store="tens")
    sessions = words.windowed_by(SessionWindows(inactivity_gap=timedelta(seconds=5), grace=HOUR))
    sessions.count(store="sessions")
    builder.table({orders!r}, key=int, value=Order, store="orders")
    plain = Stores.persistent_key_value_store("plain")
    builder.table({plain!r}, key=str, value=int, materialized=Materialized(supplier=plain))
    prices = Stores.persistent_versioned_key_value_store("prices", timedelta(days=1))
    builder.table({prices!r}, key=str, value=float, materialized=Materialized(supplier=prices))
"""
ROOT = Path(__file__).parent.parent.parent
STORES = ("counts", "tens", "sessions", "orders", "plain", "prices")


def program(world: World, directory: Path, name: str, **topics: str) -> App:
    """Write the program of an application, and return the application in it."""
    text = PROGRAM.format(
        name=name,
        servers=world.broker.bootstrap_servers,
        state_dir=str(directory / f"state-{name}"),
        **topics,
    )
    module = f"program_{abs(hash(name))}"
    (directory / f"{module}.py").write_text(text)
    known: dict[str, Any] = {}
    exec(compile(text, module, "exec"), known)
    app: App = known["app"]
    app._session = world.spark
    world._apps.append(app)
    return app


def target(app: App) -> str:
    """What the command line calls it."""
    return f"program_{abs(hash(app.settings.application_id))}:app"


def send_all(world: World, topics: dict[str, str]) -> None:
    """Send rows for every store."""
    at = 1_767_225_600_000
    world.send(
        topics["words"], [(f"k{n % 9}", "x", at + n * 700 + 20_000 * (n % 3)) for n in range(60)]
    )
    orders = [
        (n.to_bytes(8, "big"), json.dumps({"total": n, "email": f"é{n}@x"}).encode(), at + n)
        for n in range(12)
    ]
    world.send(topics["orders"], orders)
    world.send(topics["plain"], [(f"p{n}", n.to_bytes(8, "big"), at) for n in range(5)])
    versions = [(f"item{n % 3}", n / 2, at + n * 1000) for n in range(9)]
    from struct import pack

    rows: list[tuple[Any, ...]] = [(k, pack(">d", v), t) for k, v, t in versions]
    world.send(topics["prices"], [*rows, ("item1", None, at + 60_000)])


Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command, and return what it printed."""

    def run(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        found = main(["state", *words])
        told = capsys.readouterr()
        assert found == code, told.err
        return told.out if code == 0 else told.err

    return run


def exported(run: Run, app: App, *words: str) -> dict[str, list[Any]]:
    """Return the rows of every store, as an export has them."""
    found: dict[str, list[Any]] = {}
    for store in STORES:
        lines = run("export", target(app), store, "-", *words).splitlines()
        found[store] = [json.loads(line) for line in lines]
    return found


def test_the_same_rows_are_read_of_what_runs_and_of_what_is_stopped(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Of the running application over HTTP, then of its directory, and of the changelogs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    kinds = ("words", "orders", "plain", "prices")
    topics = {kind: world.topic(kind, partitions=2) for kind in kinds}
    app = program(world, tmp_path, world.name, **topics)
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(app.settings.state_dir))
    assert "STATE_NOTHING_COMMITTED" in run("list", target(app), code=3)
    with app:
        send_all(world, topics)
        world.drain(app)
        running = exported(run, app)
        assert [len(running[store]) for store in STORES] == [9, 38, 60, 12, 5, 9]
        first = running["counts"][0]
        told = json.loads(run("get", world.name, "counts", first["key"]))
        assert told == first
        listed = json.loads(run("list", world.name, "--json"))
        assert {store["store"] for store in listed["stores"]} == {*STORES}
    assert exported(run, app, "--source", "directory") == running
    shutil.rmtree(app.settings.state_dir / world.name)
    assert "STATE_NOT_HERE" in run("list", target(app), "--source", "directory", code=3)
    assert exported(run, app, "--source", "changelogs") == running
    assert run("count", target(app), "tens") == "38\n"
    assert len(run("range", target(app), "orders", "--from", "3", "--to", "7").splitlines()) == 5
    found = run("get", target(app), "prices", "item0", "--show", "versions").splitlines()
    assert [json.loads(line)["value"] for line in found] == [0.0, 1.5, 3.0]
    assert "STATE_NOT_FOUND" in run("list", world.name, code=2)
    assert "QUERY_NO_STORE" not in run("get", target(app), "counts", "none", code=1)


def import_killed_at(point: str, world: World, home: Path, *words: str) -> None:
    """Import in a process that is killed at a point of a transaction."""
    code = "import sys; from mustela.cli.main import main; sys.exit(main(sys.argv[1:]))"
    marker = home / point.partition(":")[0]
    marker.unlink(missing_ok=True)
    child = subprocess.Popen(
        [sys.executable, "-c", code, "state", "import", *words, "-y"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(home), str(ROOT)]),
            "MUSTELA_FAULT_POINT": point,
            "MUSTELA_FAULT_DIR": str(home),
        },
    )
    try:
        world.until(marker.exists, f"it comes to {point}")
    finally:
        child.kill()
        child.wait()


def test_what_was_exported_is_imported_and_goes_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Every kind, as lines and as Parquet, into an application that was never started, whatever
    import was killed before; it goes on counting from there. Nothing is imported beside what runs,
    or over what is there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    kinds = ("words", "orders", "plain", "prices")
    topics = {kind: world.topic(kind, partitions=2) for kind in kinds}
    empty = {kind: world.topic(f"empty-{kind}", partitions=2) for kind in kinds}
    app = program(world, tmp_path, world.name, **topics)
    other = program(world, tmp_path, f"{world.name}-other", **empty)
    word, counts = target(other), ("counts", "counts.jsonl")
    with app:
        send_all(world, topics)
        world.drain(app)
        for number, store in enumerate(STORES):
            run("export", target(app), store, f"{store}.{('jsonl', 'parquet')[number % 2]}")
        exports = exported(run, app)
    assert "begin" in run("import", word, *counts, "--dry-run", "--json")
    assert not [topic for topic in world.admin.topics() if topic.startswith(f"{world.name}-other")]
    for point in ("transaction-begun", "committed", "flushed"):
        import_killed_at(point, world, tmp_path, word, *counts)
        if point == "committed":
            assert run("count", word, "counts") == "0\n"
    for number, store in enumerate(STORES):
        run("import", word, store, f"{store}.{('jsonl', 'parquet')[number % 2]}", "-y")
    assert exported(run, other) == exports
    assert "STATE_IMPORT_NOT_EMPTY" in run("import", word, *counts, "-y", code=2)
    (tmp_path / "one.jsonl").write_text('{"key": "new", "value": 7, "timestamp": 5}\n')
    run("import", word, "counts", "one.jsonl", "-y", "--merge")
    assert run("count", word, "counts") == "10\n"
    run("import", word, "counts", "one.jsonl", "-y", "--replace")
    assert run("count", word, "counts") == "1\n"
    with other:
        world.until(lambda: other.state is AppState.RUNNING, "the other one runs", other)
        assert "INSTANCE_ALIVE" in run("import", word, *counts, "-y", "--merge", code=2)
        assert other.store("counts")["new"] == 7
        world.send(empty["words"], [("new", "x"), ("k1", "x")])
        world.drain(other)
        assert [other.store("counts")[key] for key in ("new", "k1")] == [8, 1]
        assert len(other.store("orders")) == 12
