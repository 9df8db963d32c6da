"""The pages on compatibility say what is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from mustela.java import find_java
from mustela_dev.broker.jars import resolve_jars
from tests.compat import divergences, matrix
from tests.compat.api import committed, read_methods
from tests.differential.divergences import DIVERGENCES
from tests.differential.kafka_streams import missing_compiler

ROOT = Path(__file__).resolve().parents[2]


@cache
def names_in(path: Path) -> set[str]:
    """Return the functions and classes of a file, its methods too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def exists(test: str) -> bool:
    """Whether a test, or the object whose docstring holds an example, is there."""
    file, _, name = test.partition("::")
    path = ROOT / file
    if not path.is_file():
        return False
    wanted = name.rpartition(".")[2].rpartition("::")[2].partition("[")[0]
    return wanted in names_in(path) or (name == ".".join(path.with_suffix("").parts[-1:]))


def test_the_matrix_is_current() -> None:
    """It has a row for each method, which says what the table says; `./dev compat` writes it."""
    page = matrix.PAGE.read_text(encoding="utf-8")
    tests = matrix.parse_tests(page)
    assert page == matrix.render(lambda name: tests.get(name, ()))


def test_each_row_that_says_yes_has_a_test_that_exists() -> None:
    """A test that was renamed or removed takes the yes with it."""
    page = matrix.PAGE.read_text(encoding="utf-8")
    named = matrix.parse_tests(page)
    assert matrix.names_of() <= {name for name, tests in named.items() if tests}
    gone = sorted({test for tests in named.values() for test in tests if not exists(test)})
    assert not gone, gone
    assert "untested" not in page


def test_a_row_that_says_no_gives_a_reason() -> None:
    """In a sentence, not in a word."""
    page = matrix.PAGE.read_text(encoding="utf-8")
    reasons = re.findall(r"\| no: ([^|]+) \|", page)
    assert reasons
    assert all(len(reason.split()) >= 3 for reason in reasons)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler() or "there is one")
def test_the_methods_are_those_of_the_jar() -> None:
    """Read anew by javap."""
    release = next(iter(committed()))
    jars = resolve_jars("kafka-streams")
    assert any(f"kafka-streams-{release}.jar" in jar.name for jar in jars)
    assert read_methods(find_java(), jars) == committed()[release]


def test_the_page_of_divergences_is_current() -> None:
    """It is what the files say; `./dev compat` writes it."""
    assert divergences.PAGE.read_text(encoding="utf-8") == divergences.page()


def test_each_divergence_has_a_test_that_exists() -> None:
    """And each that the differential test knows has its text."""
    known = divergences.divergences()
    without = [one.name for one in known if not one.tests]
    gone = [test for one in known for test in one.tests if not exists(test)]
    assert not without
    assert not gone, gone
    assert DIVERGENCES.keys() <= {one.name for one in known}
