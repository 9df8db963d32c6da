"""The texts of the library that tell users what to do, as its source holds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.tidy.conftest import Source

HOLE = "X"
"""Stands for what a text takes in when it is made."""
_COMMAND = re.compile(r"\bmustela ((?:[a-z][a-z-]*)(?: [^;\n,)]*)?)")


@dataclass(frozen=True)
class Text:
    """A text that a user may read.

    Attributes:
        place: File and line.
        body: The text, with `HOLE` where it takes something in.
    """

    place: str
    body: str


def fixes(source: Source) -> Iterator[Text]:
    """Yield what is given as ``fix=``, and all texts that the name given there may stand for."""
    if "fix=" not in source.text and "FIX" not in source.text:
        return
    names: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg == "fix":
            names |= {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
            yield from _texts(source, node.value)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = {part.id for target in targets for part in ast.walk(target) if _is_name(part)}  # type: ignore[attr-defined]
            if named & names or any("FIX" in name for name in named):
                yield from _texts(source, node.value)


def commands(text: Text) -> Iterator[list[str]]:
    """Yield the words of each command of Mustela's that a text names, and the prose after it."""
    for found in _COMMAND.finditer(text.body.replace("`", "")):
        yield found[1].split()


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _texts(source: Source, value: ast.expr) -> Iterator[Text]:
    inside: set[int] = set()
    for node in ast.walk(value):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node)}
            parts = [p.value if isinstance(p, ast.Constant) else HOLE for p in node.values]
            yield Text(f"{source.name}:{node.lineno}", "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(f"{source.name}:{node.lineno}", node.value)
