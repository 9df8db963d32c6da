"""The page docs/compat/matrix.md: written from a run of the tests, read again by its own test."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compat.api import Methods, committed

__all__ = ["PAGE", "Row", "names_of", "parse_tests", "render", "rows"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compat" / "matrix.md"
TESTS_MAX = 2
_ROWS = Path(__file__).with_name("rows.toml")
_RULE = re.compile(r"^\| `(?P<method>[^`]+)` \|.*\| (?P<tests>[^|]*) \|$")

TestsOf = Callable[[str], Sequence[str]]
"""The passing tests that call a name."""


@dataclass(frozen=True)
class Row:
    """A method of Kafka Streams and what it is here.

    Attributes:
        owner: The class.
        method: The method, with the kind of a join's other side where there are several.
        overloads: How many signatures it has.
        names: Mustela's names.
        status: ``yes``, ``other way: …`` or ``no: …``.
    """

    owner: str
    method: str
    overloads: int
    names: tuple[str, ...]
    status: str


def rows(methods: Methods, table: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    """Yield a row for each method.

    Raises:
        KeyError: If ``rows.toml`` says nothing of a method.
    """
    for owner, own in methods.items():
        for method, signatures in own.items():
            said = table[owner][method]
            if isinstance(said, str):
                names, status = (said,), "yes"
            elif isinstance(said, list):
                names, status = tuple(said), "yes"
            elif "no" in said:
                names, status = (), f"no: {said['no']}"
            else:
                names, status = tuple(said["names"]), f"other way: {said['way']}"
            yield Row(owner, method, len(signatures), names, status)


def _table() -> dict[str, Any]:
    return tomllib.loads(_ROWS.read_text(encoding="utf-8"))


def _releases() -> Iterator[tuple[str, list[Row]]]:
    (release, methods), (later, additions) = committed().items()
    table = _table()
    yield release, list(rows(methods, table))
    yield later, list(rows(additions, table["later"]))


def names_of() -> set[str]:
    """Return all names that need a test."""
    return {name for _, listed in _releases() for row in listed for name in row.names}


def render(tests_of: TestsOf) -> str:
    """Return the page.

    Args:
        tests_of: Gives the tests of a name. A row whose names lack one says so instead of yes.
    """
    (release, first), (later, second) = _releases()
    counts = {
        word: sum(row.status.startswith(word) for row in first) for word in ("yes", "o", "no")
    }
    lines = [
        "# Kafka Streams' DSL in Mustela",
        "",
        f"Every public method of the DSL of Kafka Streams {release}, of its stores and of its test",
        "driver; overloads share a row. Methods are read from the jars by `javap`. Each `yes`",
        "and each other way rests on tests that passed when `./dev compat` wrote this page, and",
        "that call what the row names. Where results differ on purpose, the page on",
        "[divergences](divergences.md) says why.",
        "",
        f"Of {len(first)} methods {counts['yes']} are there, {counts['o']} in another way, and",
        f"{counts['no']} are not.",
        "",
    ]
    lines += _section(first, tests_of)
    lines += [f"## Added between {release} and {later}", ""]
    lines += _section(second, tests_of, level="###")
    return "\n".join(lines)


def _section(listed: list[Row], tests_of: TestsOf, level: str = "##") -> Iterator[str]:
    owner = ""
    for row in listed:
        if row.owner != owner:
            if owner:
                yield ""
            owner = row.owner
            yield f"{level} {owner}"
            yield ""
            yield "| Kafka Streams | Mustela | Status | Tests |"
            yield "|---|---|---|---|"
        tests: list[str] = []
        untested = [name for name in row.names if not tests_of(name)]
        for name in row.names:
            tests += [test for test in tests_of(name) if test not in tests][:TESTS_MAX]
        status = f"untested: {', '.join(untested)}" if untested else row.status
        more = f" ({row.overloads} overloads)" if row.overloads > 1 else ""
        names = ", ".join(f"`{name}`" for name in row.names)
        told = ", ".join(f"`{test}`" for test in tests)
        yield f"| `{row.method}`{more} | {names} | {status} | {told} |"
    yield ""


def parse_tests(page: str) -> dict[str, list[str]]:
    """Return the tests that a page names, by Mustela's names in the same rows."""
    rows: list[tuple[list[str], list[str]]] = []
    for line in page.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            names, tests = (re.findall(r"`([^`]+)`", cell) for cell in (cells[1], cells[-1]))
            rows.append((names, tests))
    found: dict[str, list[str]] = {}
    # A row of several names does not say whose its tests are: first those of fewer names.
    for names, tests in sorted(rows, key=lambda row: len(row[0])):
        for name in names:
            found.setdefault(name, tests)
    return found
