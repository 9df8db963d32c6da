"""Commands that other distributions add, and those that only mustela-dev has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mustela.cli import development
from mustela.cli.console import ExitCode
from mustela.cli.main import main

COMMANDS = '''
def greet(name: str) -> int:
    """Greet somebody."""
    print("hello", name)
    return 0
'''


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with commands of its own, one of which has the name of the library's."""
    (tmp_path / "shop_commands.py").write_text(COMMANDS, encoding="utf-8")
    about = tmp_path / "shop_commands-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: shop-commands\nVersion: 1.0\n", encoding="utf-8")
    points = "[mustela.commands]\ngreet = shop_commands:greet\ntopics = shop_commands:greet\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_commands", raising=False)
    return tmp_path


@pytest.mark.usefixtures("added")
def test_a_distribution_adds_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It is called and listed like the library's own, which it cannot replace."""
    assert main(["greet", "ann"]) == ExitCode.OK
    assert capsys.readouterr().out == "hello ann\n"
    assert main(["--help"]) == ExitCode.OK
    told = capsys.readouterr().out
    assert "Greet somebody." in told
    assert "List, plan and create topics." in told


def test_what_cannot_be_loaded_stops_no_other_command(
    added: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mustela run` does not depend on what somebody else installed."""
    (added / "shop_commands.py").write_text("raise RuntimeError('broken')\n", encoding="utf-8")
    assert main(["config", "--help"]) == ExitCode.OK
    assert main(["greet", "ann"]) == ExitCode.FAULT
    assert "broken" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["broker", "start"], ["demo"], ["kafka-topics", "--list"]])
def test_a_command_of_mustela_dev_says_what_to_type(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is not installed; a word that is no command is a slip as before."""
    monkeypatch.setattr(development, "entry_points", lambda **_: ())
    assert main(arguments) == ExitCode.USAGE
    assert f"fix:     {development.install_line()}" in capsys.readouterr().err
    assert main(["brocker"]) == ExitCode.USAGE
    assert "DEVELOPMENT_TOOLS" not in capsys.readouterr().err
