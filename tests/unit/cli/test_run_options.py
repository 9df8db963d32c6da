"""What `mustela run` says of a program that it does not run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mustela.cli.applications import Start
from mustela.cli.main import main

PROGRAM = """
from mustela import App, StreamsBuilder
import parcels_prices

app = App(application_id="parcels", bootstrap_servers="127.0.0.1:1")

@app.topology
def build(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).to("out")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "parcels_app.py").write_text(PROGRAM)
    (tmp_path / "parcels_prices.py").write_text("price = 3\n")
    (tmp_path / ".env").write_text("SECRET=1\n")
    (tmp_path / "mustela.yaml").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    yield tmp_path
    for name in ("parcels_app", "parcels_prices"):
        sys.modules.pop(name, None)


def test_a_dry_run_lists_the_files_that_executors_are_given(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same list that is sent; nothing is started, and no settings are in it."""
    assert main(["run", "parcels_app:app", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    here = {one["module"] for one in told["files"] if one["file"].startswith(f"{project}/")}
    assert here == {"parcels_app", "parcels_prices"}
    assert len(told["sha256"]) == 64
    assert main(["run", "parcels_app:app", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f"{project}/parcels_prices.py  parcels_prices  10 bytes" in shown
    own = [line for line in shown.splitlines() if line.lstrip().startswith(f"{project}/")]
    assert len(own) == 2, "no settings are among them"


def test_a_master_on_the_command_line_is_the_setting() -> None:
    """So it holds over files and variables, as every setting of a command line does."""
    assert Start(master="yarn", standby=True).settings() == {
        "spark.master": "yarn",
        "standby": True,
    }
    assert Start().settings() == {}
