"""What of a filter the scan of a store can use: keys, and ranges of them, of times and indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final

from mustela.sql.libraries import arrow

__all__ = ["Bound", "bounds_of"]

Bound = tuple[str, str, Any]
"""A column, one of ``==``, ``>=``, ``>``, ``<=``, ``<`` and ``in``, and what it is compared to."""

_LINE: Final = re.compile(r"(call|end|field_ref|nested_field_ref|literal|options): '(.*)'")
_COMPARISONS: Final = {
    "equal": ("==", "=="),
    "greater_equal": (">=", "<="),
    "greater": (">", "<"),
    "less_equal": ("<=", ">="),
    "less": ("<", ">"),
}
"""By the name of Arrow's function: a column and a value, a value and a column."""

_POINTS: Final = ("==", "in")
_LOW: Final = ("==", "in", ">=", ">")
_HIGH: Final = ("==", "in", "<=", "<")


@dataclass(slots=True)
class _Node:
    """A part of an expression: ``call``, ``field`` or ``literal``."""

    kind: str
    name: str
    parts: list[_Node] = field(default_factory=list["_Node"])
    value: Any = None


class _Unknown(ValueError):
    """An expression is not written as it was when this was made."""


def bounds_of(condition: Any, columns: frozenset[str]) -> list[Bound]:
    """Return the conditions that each row of a filter meets, of the columns that a scan can use.

    What is not understood is left out, so that more rows are scanned than the filter lets through:
    it is applied after the scan in any case. Text, whole numbers and moments are understood; a
    moment is in microseconds since 1970.

    Args:
        condition: The filter, an expression of Arrow.
        columns: The columns that the scan can use.

    Example:
        >>> import pyarrow.compute as pc
        >>> bounds_of((pc.field("key") >= "a") & (pc.field("total") > 3), frozenset({"key"}))
        [('key', '>=', 'a')]
    """
    try:
        found = _bounds(_tree(condition))
    except (ValueError, TypeError, LookupError, AttributeError):
        return []
    return [bound for bound in found if bound[0] in columns]


def _tree(condition: Any) -> _Node:
    """Return the tree of an expression, as it is written when it is pickled."""
    ipc = arrow().ipc
    _, (data,) = condition.__reduce__()
    batch = ipc.open_file(data).get_batch(0)
    text: str = batch.schema.to_string(truncate_metadata=False)
    lines = text.partition("-- schema metadata --\n")[2].split("\n")
    tokens: list[tuple[str, str]] = []
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            raise _Unknown(line)
        tokens.append((found[1], found[2]))
    root = _Node("call", "")
    open_nodes = [root]
    for kind, name in tokens:
        _take(open_nodes, kind, name, batch)
    if len(open_nodes) != 1 or len(root.parts) != 1:
        raise _Unknown(text)
    return root.parts[0]


def _take(open_nodes: list[_Node], kind: str, name: str, batch: Any) -> None:
    here = open_nodes[-1]
    if kind == "call":
        node = _Node("call", name)
        here.parts.append(node)
        open_nodes.append(node)
    elif kind == "end":
        if here.name != name:
            raise _Unknown(name)
        open_nodes.pop()
    elif kind == "options":
        here.value = batch.column(int(name))[0].as_py()
    elif kind == "literal":
        here.parts.append(_Node("literal", "", value=batch.column(int(name))[0].as_py()))
    elif kind == "field_ref":
        here.parts.append(_Node("field", name))
    else:
        raise _Unknown(kind)  # of a field within a field, whose names follow


def _conjuncts(tree: _Node) -> Iterator[_Node]:
    rest = [tree]
    while rest:
        node = rest.pop()
        if node.kind == "call" and node.name in ("and", "and_kleene"):
            rest += reversed(node.parts)
        else:
            yield node


def _bounds(tree: _Node) -> list[Bound]:
    found: list[Bound] = []
    for node in _conjuncts(tree):
        if node.kind == "call" and node.name in ("or", "or_kleene"):
            found += _common([_bounds(part) for part in node.parts])
        else:
            bound = _bound(node)
            found += [] if bound is None else [bound]
    return found


def _common(alternatives: list[list[Bound]]) -> list[Bound]:
    """Return what holds whichever of several alternatives holds: single values, or a range."""
    found: list[Bound] = []
    for column in {bound[0] for bound in alternatives[0]}:
        of = [[each for each in bounds if each[0] == column] for bounds in alternatives]
        kinds: set[type[Any]] = {
            type(value) for bounds in of for each in bounds for value in _values(each)
        }
        if len(kinds) != 1:
            continue
        points = [_values(each) for bounds in of for each in bounds[:1] if each[1] in _POINTS]
        if len(points) == len(of):
            found.append((column, "in", list(dict.fromkeys(chain.from_iterable(points)))))
            continue
        lows = [[min(_values(b)) for b in bounds if b[1] in _LOW] for bounds in of]
        highs = [[max(_values(b)) for b in bounds if b[1] in _HIGH] for bounds in of]
        if all(lows):
            found.append((column, ">=", min(map(max, lows))))
        if all(highs):
            found.append((column, "<=", max(map(min, highs))))
    return found


def _values(bound: Bound) -> list[Any]:
    return bound[2] if bound[1] == "in" else [bound[2]]


def _bound(node: _Node) -> Bound | None:
    if node.kind != "call":
        return None
    if node.name == "if_else" and len(node.parts) == 3:
        check, node, other = node.parts  # how DuckDB says that a column is one of a list
        is_check = check.name == "is_valid" and check.parts == node.parts
        if not is_check or other.kind != "literal" or other.value is not None:
            return None
    if node.name == "is_in" and len(node.parts) == 1 and node.parts[0].kind == "field":
        values = [_plain(value) for value in node.value["value_set"]]
        return None if None in values else (node.parts[0].name, "in", values)
    if node.name not in _COMPARISONS or len(node.parts) != 2:
        return None
    left, right = node.parts
    comparison, turned = _COMPARISONS[node.name]
    if left.kind == "literal":
        left, right, comparison = right, left, turned
    value = _plain(right.value)
    if left.kind != "field" or right.kind != "literal" or value is None:
        return None
    return left.name, comparison, value


def _plain(value: Any) -> str | int | None:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None
