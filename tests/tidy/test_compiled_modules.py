"""What may be compiled: see `docs/internals/compiled.md`."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hatch_build

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
MODULES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mustela"][
    "compiled"
]["modules"]
NOT_A_BASE = {"Generic", "Protocol", "Exception", "NamedTuple"}


def tree_of(name: str) -> ast.Module:
    return ast.parse(SOURCES.joinpath(*name.split(".")).with_suffix(".py").read_bytes())


def classes_of(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def name_of(node: ast.expr) -> str:
    """The last part of a name, without what it is generic in or called with."""
    while not isinstance(node, ast.Name | ast.Attribute):
        assert isinstance(node, ast.Subscript | ast.Call), ast.dump(node)
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.id if isinstance(node, ast.Name) else node.attr


def bases_of(one: ast.ClassDef) -> list[str]:
    return [name for name in map(name_of, one.bases) if name not in NOT_A_BASE]


def has_slots(one: ast.ClassDef) -> bool:
    """Whether a class lays out its objects by itself."""
    return any(
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__"
        for node in one.body
    ) or any("slots=True" in ast.unparse(decorator) for decorator in one.decorator_list)


def interpreted_classes() -> list[ast.ClassDef]:
    """The classes of all modules that are not compiled."""
    return [
        one
        for file in SOURCES.rglob("*.py")
        if ".".join(file.relative_to(SOURCES).with_suffix("").parts) not in MODULES
        for one in classes_of(ast.parse(file.read_bytes()))
    ]


PYTHON = interpreted_classes()
SUBCLASSED = {base for one in PYTHON for base in bases_of(one)}
SLOTTED = {one.name for one in PYTHON if has_slots(one)}
COMPILED = {one.name for name in MODULES for one in classes_of(tree_of(name))}


@pytest.mark.parametrize("name", MODULES)
def test_a_compiled_module_keeps_to_the_rules(name: str) -> None:
    """Each of them is something that compiled code does otherwise than Python, or cannot do."""
    tree = tree_of(name)
    assert not any(isinstance(node, ast.Name) and node.id == "__file__" for node in ast.walk(tree))
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    assert not [node.lineno for node in raised if node.cause], f"{name}: the cause would be lost"
    for one in classes_of(tree):
        where = f"{name}.{one.name}"
        bases = bases_of(one)
        assert len(bases) <= 1, f"{where} has two bases"
        assert not one.name.endswith("Error"), f"{where}: an exception has to stay in Python"
        assert "Struct" not in bases, f"{where}: the options of a Struct would be lost"
        decorated = {name_of(decorator) for decorator in one.decorator_list}
        foreign = [base for base in bases if base not in COMPILED]
        assert not SLOTTED.intersection(foreign), f"{where}: its base has slots, in the same place"
        if one.name in SUBCLASSED:
            assert not foreign, f"{where} is between two classes of Python"
            why = f"{where} has subclasses that are not compiled: it needs mypyc_attr"
            assert "mypyc_attr" in decorated, why


def test_the_compiler_takes_them(tmp_path: Path) -> None:
    """It checks types first, by rules of its own; to compile would take minutes."""
    settings = tmp_path / "mypy.ini"
    settings.write_text(hatch_build.TYPES)
    files = [str(hatch_build.file_of(name)) for name in MODULES]
    options = [f"--config-file={settings}", f"--cache-dir={tmp_path}", *files]
    command = [sys.executable, "-m", "mypy", *options]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_list_is_in_order_and_each_is_there() -> None:
    """So that two changes of it seldom collide."""
    assert sorted(MODULES) == MODULES
    assert all(SOURCES.joinpath(*name.split(".")).with_suffix(".py").exists() for name in MODULES)
