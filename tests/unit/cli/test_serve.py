"""mustela serve, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.admin.replica.serving import ReplicaServer
from mustela.cli.console import ExitCode
from mustela.cli.main import main

PROGRAM = """
from mustela import App

app = App("words", state_dir="state")

@app.topology
def build(builder):
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
"""


def test_stores_are_named_as_the_refusals_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither nothing nor a store that is not there is served; with the fixes it is."""
    (tmp_path / "words_to_serve.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    served: list[ReplicaServer] = []
    monkeypatch.setattr(ReplicaServer, "run", lambda self, _ready: served.append(self))

    assert main(["serve", "words_to_serve", "--stores", ","]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "CLI_STORES" in told
    assert "leave it out" in told
    assert main(["serve", "words_to_serve"]) == ExitCode.OK
    assert main(["serve", "words_to_serve", "--stores", "count"]) == ExitCode.USAGE
    assert "choose among counts" in capsys.readouterr().err
    assert main(["serve", "words_to_serve", "--stores", "counts"]) == ExitCode.OK
    assert len(served) == 2
