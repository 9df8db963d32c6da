"""Folds that are generated from declared aggregates: one function for all their cells.

An aggregate keeps a list of cells. What is done with each takes a line or two of Python; the lines
of all cells make one function, as `dataclass` makes its methods. So a record costs one call, a
field is fetched once however many need it, and two aggregates that keep the same (the total of
``Sum`` and ``Avg``) keep it once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, Final, Literal

from mustela.api.cells import CELL_KINDS, Cell
from mustela.errors import Origin
from mustela.serdes.aggregates import Cells
from mustela.topology import fold_cells, sketches

__all__ = ["Access", "WrittenFold", "written_fold", "written_rows"]

Access = Literal["any", "attribute", "key"]
"""How a named field is found in a value: by whichever way fits it, or always the same way."""


_HELPERS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "add_distinct": sketches.add_distinct,
        "add_exact": fold_cells.add_exact,
        "add_ranked": fold_cells.add_ranked,
        "add_top": fold_cells.add_top,
        "best_last": fold_cells.best_last,
        "best_of": fold_cells.best_of,
        "bucket_of": sketches.bucket_of,
        "distinct_count": sketches.distinct_count,
        "exact_total": fold_cells.exact_total,
        "goes_first": fold_cells.goes_first,
        "merge_distinct": sketches.merge_distinct,
        "merge_top": fold_cells.merge_top,
        "newer": fold_cells.newer,
        "quantile_of": sketches.quantile_of,
        "remove_ranked": fold_cells.remove_ranked,
        "subtract_exact": fold_cells.subtract_exact,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFold:
    """The functions of an aggregate, in the form that an aggregation takes.

    Attributes:
        initializer: () -> cells.
        adder: (key, value, cells) -> cells.
        merger: (key, cells, cells) -> cells.
        subtractor: (key, value, cells) -> cells; None if something cannot be removed.
    """

    initializer: Callable[[], Cells]
    adder: Callable[[Any, Any, Cells], Cells]
    merger: Callable[[Any, Cells, Cells], Cells]
    subtractor: Callable[[Any, Any, Cells], Cells] | None


def written_fold(
    cells: Sequence[Cell],
    *,
    at: Origin,
    sources: Sequence[Access] = ("any",),
    retracts: bool = False,
) -> WrittenFold:
    """Write the functions that fold values into cells.

    Args:
        cells: What is kept.
        at: The user's line: errors in the functions are reported there.
        sources: For each stream, how a field of its values is found; with several streams a value
            is (source, value).
        retracts: Whether values are removed again.

    Example:
        >>> from mustela.errors import Origin
        >>> cells = [Cell(kind="count"), Cell(kind="total", field="amount")]
        >>> fold = written_fold(cells, at=Origin(file="app.py", line=1, code=""))
        >>> fold.adder("key", {"amount": 5}, fold.initializer())
        [1, 5]
        >>> fold.merger("key", [1, 5], [2, 7])
        [3, 12]
    """
    names: dict[str, Any] = dict(_HELPERS)
    firsts = ", ".join(CELL_KINDS[cell.kind].first for cell in cells)
    source = [f"def first():\n    return [{firsts}]"]
    source.append(_updating("add", cells, names, sources, [CELL_KINDS[c.kind].add for c in cells]))
    merges = [
        CELL_KINDS[cell.kind].merge.format(s=f"s[{n}]", o=f"others[{n}]", n=_number(cell))
        for n, cell in enumerate(cells)
    ]
    source.append("def merge(key, s, others):\n" + _indented([*merges, "return s"]))
    if retracts:
        lines = [CELL_KINDS[cell.kind].subtract or "" for cell in cells]
        assert all(lines), [cell.kind for cell in cells]
        source.append(_updating("subtract", cells, names, sources, lines))
    _run("\n".join(source), names, at)
    return WrittenFold(
        initializer=names["first"],
        adder=names["add"],
        merger=names["merge"],
        subtractor=names.get("subtract"),
    )


def written_rows(
    results: Sequence[str], make: Callable[..., Any], names: Sequence[str] | None, *, at: Origin
) -> Callable[[Cells], Any]:
    """Write the function that makes a row from cells.

    Args:
        results: For each field of the row, an expression over ``s``, the cells.
        make: Makes the row.
        names: The names of its arguments; None if it takes them in order.
        at: The user's line.
    """
    made = f"make({', '.join(results)})"
    if names is not None:
        pairs = zip(names, results, strict=True)
        by_name = f"{{{', '.join(f'{name!r}: {result}' for name, result in pairs)}}}"
        made = by_name if make is dict else f"make(**{by_name})"
    space: dict[str, Any] = {**_HELPERS, "make": make}
    _run(f"def rows(s):\n    return {made}", space, at)
    rows: Callable[[Cells], Any] = space["rows"]
    return rows


def _updating(
    name: str,
    cells: Sequence[Cell],
    names: dict[str, Any],
    sources: Sequence[Access],
    lines: Sequence[str],
) -> str:
    """Write a function that updates the cells with a value."""
    written: list[str] = []
    if any(CELL_KINDS[cell.kind].timed for cell in cells):
        written.append("if value is not None: value, t = value")
    if len(sources) == 1:
        written += _of_source(sources[0], cells, range(len(cells)), names, lines)
    else:
        written.append("source, value = value")
        for source, access in enumerate(sources):
            mine = [n for n, cell in enumerate(cells) if cell.source == source]
            body = _of_source(access, cells, mine, names, lines)
            written += [f"if source == {source}:", _indented(body or ["pass"])]
    return f"def {name}(key, value, s):\n" + _indented([*written, "return s"])


def _of_source(
    access: Access,
    cells: Sequence[Cell],
    mine: Sequence[int],
    names: dict[str, Any],
    lines: Sequence[str],
) -> list[str]:
    """Write what is done with a value: first what counts records, then what looks into it.

    Nothing that the user gave becomes code: names of fields are written as strings or attributes,
    and functions are called by generated names.
    """
    given = (cells[n].field for n in mine)
    fields = [field for field in dict.fromkeys(given) if field is not None]
    places = {field: f"x{place}" for place, field in enumerate(fields)}
    by_name = [field for field in fields if isinstance(field, str)]
    records: list[str] = []
    looking: list[str] = []
    if by_name and access == "key":
        looking += [f"{places[field]} = value[{field!r}]" for field in by_name]
    elif by_name and access == "attribute":
        looking += [f"{places[field]} = {_attribute(field)}" for field in by_name]
    elif by_name:
        from_dict = [f"{places[field]} = value[{field!r}]" for field in by_name]
        from_other = [f"{places[field]} = {_attribute(field)}" for field in by_name]
        looking += ["if type(value) is dict:", _indented(from_dict), "else:", _indented(from_other)]
    for field in fields:
        if not isinstance(field, str):
            looking.append(f"{places[field]} = {_named(field, names)}(value)")
    groups: dict[tuple[Any, Any], list[str]] = {}
    for n in mine:
        cell = cells[n]
        x = "value" if cell.field is None else places[cell.field]
        line = lines[n].format(s=f"s[{n}]", x=x, v="value", n=_number(cell))
        if cell.kind == "count" and cell.field is None and cell.where is None:
            records.append(line)
        else:
            groups.setdefault((cell.where, x), []).append(line)
    for (where, x), mine_lines in groups.items():
        tests = [f"{x} is not None"] if x != "value" else []
        if where is not None:
            tests.insert(0, f"{_named(where, names)}(value)")
        looking += [f"if {' and '.join(tests)}:", _indented(mine_lines)] if tests else mine_lines
    return [*records, "if value is not None:", _indented(looking)] if looking else records


def _attribute(field: str) -> str:
    is_name = field.isidentifier() and not iskeyword(field)
    return f"value.{field}" if is_name else f"getattr(value, {field!r})"


def _named(function: Callable[..., Any], names: dict[str, Any]) -> str:
    """Return the name by which generated code calls a function."""
    found = next((name for name, known in names.items() if known is function), None)
    name = found or f"f{len(names)}"
    names[name] = function
    return name


def _number(cell: Cell) -> str:
    return repr(cell.number)


def _indented(lines: Sequence[str]) -> str:
    return "\n".join("    " + line for block in lines for line in block.split("\n"))


def _run(source: str, names: dict[str, Any], at: Origin) -> None:
    """Run generated code as if it were on the user's line."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.arg):
            node.lineno = node.end_lineno = at.line
            node.col_offset = node.end_col_offset = 0
    names["__name__"] = "mustela.written"
    exec(compile(tree, at.file, "exec"), names)
