"""docs/security.md names a test for each control, and each of them exists."""

from __future__ import annotations

import ast
import re

from tests.tidy.conftest import ROOT

PAGE = ROOT / "docs" / "security.md"
CONTROLS = 11
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_each_control_names_tests_that_exist() -> None:
    """A control without a test is a wish."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    numbered = {cell for row in rows if (cell := row.split("|")[1].strip()).isdecimal()}
    assert numbered == {str(number) for number in range(1, CONTROLS + 1)}
    without = [row for row in rows if "What Mustela does" not in row and not _TEST.search(row)]
    assert not without, "\n".join(without)
    missing: list[str] = []
    for file, name in _TEST.findall("\n".join(rows)):
        path = ROOT / file
        tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
        if not any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body):
            missing.append(f"{file}::{name}")
    assert not missing, "\n".join(missing)
