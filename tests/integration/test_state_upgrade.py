"""``mustela state upgrade`` on a real broker: rewritten rows, also by a job that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from mustela import Materialized, StreamsBuilder
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.serdes.row_versions import version_of
from mustela.stores import Upgrade
from tests.integration.app_world import World

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.crash,
]
pytest_plugins = ["tests.integration.app_fixture"]

ROOT = Path(__file__).parent.parent.parent
KEYS = [f"k{number}" for number in range(40)]
COMMAND = ["state", "upgrade", "shop:app"]


def totals(source: str, sink: str, version: int, *, upgrades: bool = True) -> Any:
    """Sums, which are whole numbers first and texts of them in version 2."""
    value: Any = (int, str)[version - 1]
    kept: Materialized[str, Any] = Materialized(
        store="totals",
        value=value,
        version=version,
        upgrade=Upgrade(value=int, by=str) if version == 2 and upgrades else None,
    )

    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, key=str, value=str).group_by_key()
        sums = lines.aggregate(
            lambda: value(0), lambda _, text, sum: value(int(sum) + int(text)), materialized=kept
        )
        sums.to_stream(name="told").map_values(str, name="texts").to(sink, key=str, value=str)

    return build


def killed_at(point: str, world: World, home: Path, topics: tuple[str, str], *command: str) -> None:
    """Start a command in a process that stops at a point of the protocol, and kill it there."""
    home.mkdir()
    settings = {name: str(value) for name, value in world.settings().items()}
    settings |= {"key_groups": 4, "commit_timeout": 20.0}  # type: ignore[dict-item]
    (home / "shop.py").write_text(
        "from mustela import App\n"
        "from tests.integration.test_state_upgrade import totals\n"
        f"app = App(**{settings!r})\n"
        f"app.topology(totals(*{topics!r}, 2))\n"
    )
    code = "import sys; from mustela.cli.main import main; sys.exit(main(sys.argv[1:]))"
    child = subprocess.Popen(
        [sys.executable, "-c", code, *command],
        cwd=home,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(home), str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "MUSTELA_FAULT_POINT": point,
            "MUSTELA_FAULT_DIR": str(home),
        },
    )
    try:
        world.until((home / point.partition(":")[0]).exists, f"it comes to {point}")
    finally:
        family = [*psutil.Process(child.pid).children(recursive=True), psutil.Process(child.pid)]
        for one in reversed(family):  # the driver first: nobody is to see the others die
            with suppress(psutil.NoSuchProcess):
                one.kill()
        child.wait()


def versions(world: World) -> dict[bytes | None, int]:
    """The version of the newest row of each key in the changelog."""
    rows = world.rows(f"{world.name}-totals-changelog")
    return {row.key: version_of((row.value or b"")[8:]) for row in rows}


def summed(world: World, sink: str) -> dict[str, int]:
    return {(row.key or b"").decode(): int(row.value or b"") for row in world.rows(sink)}


def test_a_job_that_is_killed_and_begun_again_leaves_no_old_row(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """So does a program that is killed while it upgrades what it reads; then none is needed."""
    source, sink = world.topic("in", partitions=2), world.topic("out")

    def program(version: int, **more: Any) -> Callable[[StreamsBuilder], None]:
        return totals(source, sink, version, **more)

    def app_of(_target: str) -> Any:
        return world.app(program(2))[0]

    monkeypatch.setattr("mustela.cli.state.load_app", app_of)
    world.send(source, [(key, "1") for key in KEYS])
    world.run(program(1))
    world.send(source, [(KEYS[0], "1")])
    killed_at("in-lane-after-pending", world, tmp_path / "lazy", (source, sink), "run", "shop:app")
    world.run(program(2))
    assert sorted(versions(world).values()) == [1] * (len(KEYS) - 1) + [2]
    before = world.records()[-1]
    assert main([*COMMAND, "--dry-run"]) == ExitCode.OK
    assert "rewrite rows of totals from version 1 to 2" in capsys.readouterr().out
    assert world.records()[-1] == before

    for run, point in enumerate(("flushed:2", "committed:2")):
        killed_at(point, world, tmp_path / str(run), (source, sink), *COMMAND, "--yes")
        left = list(versions(world).values()).count(1)
        assert 0 < left < len(KEYS) - 1, point
        assert world.fail(program(2, upgrades=False)).code == "STORE_NOT_UPGRADED"
        world.send(source, [(KEYS[1 + run], "1")])
        world.run(program(2))  # what a broken job leaves is what a program goes on with

    assert main([*COMMAND, "--yes"]) == ExitCode.OK
    assert "rows of totals" in capsys.readouterr().out
    assert set(versions(world).values()) == {2}
    assert main([*COMMAND, "--yes"]) == ExitCode.OK
    assert "has no rows to rewrite" in capsys.readouterr().out

    world.send(source, [(key, "1") for key in KEYS])
    world.run(program(2, upgrades=False))
    assert summed(world, sink) == {key: 2 + (key in KEYS[:3]) for key in KEYS}
