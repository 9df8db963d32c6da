"""module:app, as users type it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mustela import App
from mustela.cli.loading import ApplicationImportError, ApplicationNotFoundError, load_app


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with modules; what they leave in the interpreter goes again."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    (tmp_path / "loadable.py").write_text(
        "from mustela import App\napp = App('one')\ntwo = App('two')\nnumber = 3\n"
    )
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("loadable", "broken", "folder")):
            del sys.modules[name]


def test_an_application_is_found_in_the_working_directory() -> None:
    """By its name, or by the name app where none is given."""
    assert isinstance(load_app("loadable:two"), App)
    assert load_app("loadable:two").settings.application_id == "two"
    assert load_app("loadable").settings.application_id == "one"


def test_the_workers_find_the_module_too(here: Path) -> None:
    """Spark's workers inherit the environment: the directory goes in once, before the rest."""
    load_app("loadable:app")
    load_app("loadable:app")
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(here), "/elsewhere"])
    assert sys.path[0] == str(here)


def test_a_module_in_a_package(here: Path) -> None:
    """Dotted names work."""
    (here / "folder").mkdir()
    (here / "folder" / "inner.py").write_text("from mustela import App\napp = App('deep')\n")
    assert load_app("folder.inner:app").settings.application_id == "deep"


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("loadabel:app", "did you mean loadable?"),
        ("loadable:ap", "did you mean loadable:app?"),
        ("loadable:number", "is a int, not an App"),
        ("loadable.py:app", "change to the file's directory and name the module: loadable:app"),
        ("./loadable:app", "name the module: loadable:app"),
        ("no.such.package:app", "there is no module"),
        ("", "there is no module"),
    ],
)
def test_what_is_not_there_is_named(target: str, text: str) -> None:
    """The error says what may have been meant."""
    with pytest.raises(ApplicationNotFoundError) as caught:
        load_app(target)
    assert text in str(caught.value)


def test_a_module_that_a_package_does_not_have_is_told_by_those_that_it_has(here: Path) -> None:
    """The package is named rightly: nobody is sent to another directory."""
    (here / "folder").mkdir()
    (here / "folder" / "inner.py").write_text("from mustela import App\napp = App('deep')\n")
    with pytest.raises(ApplicationNotFoundError, match=r"did you mean folder\.inner\?") as caught:
        load_app("folder.iner:app")
    assert caught.value.evidence["looked in"] == str(here / "folder")
    assert load_app("folder.inner:app").settings.application_id == "deep"
    with pytest.raises(ApplicationNotFoundError, match="directory that holds foldr\n"):
        load_app("foldr.inner:app")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\ny = x / 0\n", "broken_one.py:2"),
        ("import nothing_of_that_name\n", "broken_one.py:1"),
        ("def f(:\n", "broken_one.py:1"),
        ("import sys\nsys.exit(3)\n", "broken_one.py:2"),
    ],
)
def test_a_module_that_raises_is_named_with_its_line(here: Path, source: str, line: str) -> None:
    """The user's own line, not one of the import system."""
    (here / "broken_one.py").write_text(source)
    with pytest.raises(ApplicationImportError) as caught:
        load_app("broken_one:app")
    assert line in str(caught.value)
    assert caught.value.__cause__ is not None
