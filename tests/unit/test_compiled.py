"""The choice between compiled modules and Python: what runs is never older than its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela import compiled
from mustela.cli.examination import Level, examine_form
from mustela.compiled import CompiledModules, Form, digest, manifest_file

NAMES = ["mustela.clock", "mustela.errors"]


def write_manifest(directory: Path, known: str) -> None:
    lines = (known, " ".join(NAMES), "mustela.clock mustela__mypyc")
    manifest_file(directory).write_text("\n".join(lines) + "\n")


def test_compiled_modules_of_these_sources_run(tmp_path: Path) -> None:
    """All that the manifest names are taken from there, and nothing else is."""
    write_manifest(tmp_path, digest(NAMES))
    chosen, modules, directory = compiled._choice(str(tmp_path))
    assert chosen == Form(True, "1 modules")
    assert directory == tmp_path
    finder = CompiledModules(modules, directory)
    assert finder.find_spec("mustela.errors") is None
    found = finder.find_spec("mustela.clock")
    assert found is not None
    assert found.origin == str(tmp_path / f"mustela.clock{compiled.SUFFIX}")


def test_compiled_modules_of_other_sources_do_not_run(tmp_path: Path) -> None:
    """A source that was changed afterwards is what runs."""
    write_manifest(tmp_path, digest(NAMES[:1]))
    chosen, modules, _ = compiled._choice(str(tmp_path))
    assert not chosen.compiled
    assert "other sources" in chosen.why
    assert modules == []


def test_a_change_of_any_source_is_seen(tmp_path: Path) -> None:
    """Also of one that was not compiled: its constants may be in what was."""
    package = tmp_path / "rooms"
    package.mkdir()
    for name in ("__init__", "one", "two"):
        (package / f"{name}.py").write_text(f"NAME = {name!r}\n")
    names = ["rooms", "rooms.one", "rooms.two"]
    before = digest(names, tmp_path)
    (package / "two.py").write_text("NAME = 'owt'\n")
    assert digest(names, tmp_path) != before
    (package / "two.py").unlink()
    with pytest.raises(FileNotFoundError):
        digest(names, tmp_path)


@pytest.mark.parametrize("text", ["", "one line", "two\nlines"])
def test_a_broken_manifest_is_said_and_python_runs(tmp_path: Path, text: str) -> None:
    """It is no reason not to run."""
    manifest_file(tmp_path).write_text(text)
    chosen, modules, _ = compiled._choice(str(tmp_path))
    assert not chosen.compiled
    assert "cannot be read" in chosen.why
    assert modules == []


def test_the_switch_turns_compiled_modules_off() -> None:
    """Whatever there is."""
    assert compiled._choice("0") == (Form(False, "MUSTELA_COMPILED=0"), [], compiled._DIRECTORY)


def test_who_asks_for_compiled_modules_gets_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measurement must not be of the other form."""
    monkeypatch.setattr(compiled, "_chosen", [])
    monkeypatch.setenv(compiled.SWITCH, str(tmp_path))
    with pytest.raises(ImportError, match="asks for compiled modules, but this installation has"):
        compiled.install()


def test_the_doctor_says_which_form_runs() -> None:
    """Neither is wrong."""
    fast = examine_form(Form(True, "30 modules"))
    assert (fast.level, fast.found) == (Level.OK, "compiled, 30 modules")
    slow = examine_form(Form(False, "this installation has no compiled modules"))
    assert slow.level is Level.OK
    assert slow.found == "plain Python: this installation has no compiled modules"
