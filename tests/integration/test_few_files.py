"""A host that lets a process open few files: the real application says so, and runs with more."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mustela.cli.console import ExitCode
from tests.integration.app_world import World
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
from mustela import App

app = App("{name}", bootstrap_servers="{servers}", state_dir="{state}")


@app.topology
def build(builder):
    counts = builder.stream("{source}", key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().to("{sink}", key=str, value=int)
"""


def test_an_application_with_too_few_open_files_says_so_and_runs_with_more(
    world: World, tmp_path: Path
) -> None:
    """OPEN_FILES and exit code 3, whoever noticed it; after the limit is raised all is counted."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("a", "x"), ("b", "x"), ("a", "x")])
    (tmp_path / "counting.py").write_text(
        PROGRAM.format(
            name=world.name,
            servers=world.broker.bootstrap_servers,
            state=tmp_path / "state",
            source=source,
            sink=sink,
        )
    )
    command = [sys.executable, "-m", "mustela.cli.main", "run", "counting:app"]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def start(limit: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["prlimit", f"--nofile={limit}:{limit}", *command],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )

    few = start(176)
    _, said = few.communicate(timeout=PATIENCE_S)
    assert few.returncode == ExitCode.ENVIRONMENT, said
    assert "OPEN_FILES" in said
    assert "ulimit -n" in said
    assert "bug in Mustela" not in said
    world.send(source, [("b", "y")])  # what came before may have been counted, without Spark
    more = start(hard)
    try:
        counted = {"a": 2, "b": 2}
        world.until(lambda: world.numbers(sink) == counted, "all is counted")
    finally:
        more.terminate()
        _, said = more.communicate(timeout=PATIENCE_S)
    assert more.returncode == ExitCode.OK, said
    assert world.numbers(sink) == counted
