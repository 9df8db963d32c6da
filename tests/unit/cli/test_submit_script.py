"""The file that spark-submit runs in place of mustela run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mustela.cli.main import main


def test_the_file_takes_the_words_of_mustela_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its end is that of the run: spark-submit gives the code on."""
    monkeypatch.chdir(tmp_path)
    assert main(["submit-script"]) == 0
    assert capsys.readouterr().out == "run.py\n"
    command = [sys.executable, "run.py", "nothing:app"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "there is no module 'nothing'" in done.stderr
    assert done.returncode == main(["run", "nothing:app"])


def test_a_file_of_the_users_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SCRIPT_EXISTS: under the name that the fix says there is room. Its own file is renewed."""
    monkeypatch.chdir(tmp_path)
    Path("run.py").write_text("mine = 1\n", encoding="utf-8")
    assert main(["submit-script"]) == 2
    told = capsys.readouterr().err
    assert "SCRIPT_EXISTS" in told
    (fix,) = (line for line in told.splitlines() if "fix:" in line)
    command = fix.partition("mustela ")[2].split()
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": "submit_run.py"}
    assert main(command) == 0
    assert Path("run.py").read_text(encoding="utf-8") == "mine = 1\n"
