"""The page docs/compat/divergences.md: all differences, each a file of its own in that folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.compat.matrix import ROOT

__all__ = ["PAGE", "Divergence", "divergences", "page"]

PAGE = ROOT / "docs" / "compat" / "divergences.md"
_FOLDER = PAGE.with_suffix("")
_PARTS = ("Kafka Streams", "Mustela", "Reason", "Test")


class Divergence(NamedTuple):
    """A difference.

    Attributes:
        name: Its id, which is the file's name.
        text: What its file says, without the heading.
        tests: The tests that it names.
    """

    name: str
    text: str
    tests: tuple[str, ...]


def divergences() -> list[Divergence]:
    """Return all differences by id.

    Raises:
        AssertionError: If a file lacks its heading or a part.
    """
    return [_divergence(file) for file in sorted(_FOLDER.glob("*.md"))]


def _divergence(file: Path) -> Divergence:
    heading, _, text = file.read_text(encoding="utf-8").partition("\n")
    assert heading == f"# {file.stem}", f"{file.name} begins with {heading!r}"
    missing = [part for part in _PARTS if f"**{part}.**" not in text]
    assert not missing, f"{file.name} says nothing of {', '.join(missing)}"
    tests = re.findall(r"`(tests/[^`]+)`", text.partition("**Test.**")[2])
    return Divergence(file.stem, text.strip(), tuple(tests))


def page() -> str:
    """Return the page as it should be."""
    lines = [
        "# Where Mustela differs from Kafka Streams",
        "",
        "Each difference has an id, a reason and a test. They are collected from the files in",
        "`divergences/` by `./dev compat`.",
        "",
    ]
    for divergence in divergences():
        lines += [f"## {divergence.name}", "", divergence.text, ""]
    return "\n".join(lines)
