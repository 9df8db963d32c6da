"""What Spark's workers import while they run a program: nothing that only the driver needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.app_world import World
from tests.integration.own_process import run_program

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
import sys

from mustela import App

app = App("{name}", bootstrap_servers="{servers}", state_dir="{state}", lanes=2)
HEAVY = ("cyclopts", "numpy", "rich")
HEAVY += ("mustela.cli.main", "mustela.spark.engine", "mustela.spark.job")


def heavy(_line):
    return ",".join(name for name in HEAVY if name in sys.modules)


@app.topology
def build(builder):
    lines = builder.stream("{source}", key=str, value=str)
    lines.group_by(lambda _key, line: line, key=str, name="again").count(store="counts")
    lines.map_values(heavy, name="heavy").to("{sink}", key=str, value=str)
"""


def test_workers_do_not_import_what_only_the_driver_needs(world: World, tmp_path: Path) -> None:
    """Their own modules, and what those need; what a program imports is the program's affair."""
    options = ("--set", "spark.master=local[2]", "--set", "log.level=debug")
    run_program(world, tmp_path, PROGRAM, [("a", "apple"), ("b", "pear")], *options)
    assert world.values(f"{world.name}.out") == ["", ""]
